"""The HTTP service. Loaded only by `conjoin serve`: the modules here may import fastapi and pydantic at their head."""
