"""Files that several processes share: written whole, locked, with a name of who holds them."""
