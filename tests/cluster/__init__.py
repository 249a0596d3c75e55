"""Several machines with one store, and what goes wrong between them."""
