"""Work towards a goal over many iterations: what it remembers, finds, measures and can show."""
