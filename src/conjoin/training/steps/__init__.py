"""Training steps and the choice between them."""
