"""What a training will need, before it starts."""
