"""Knowledge-graph embeddings in complex space."""
