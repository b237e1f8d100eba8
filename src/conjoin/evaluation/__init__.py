"""Where the true answer stands among all entities."""
