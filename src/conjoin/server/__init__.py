"""The HTTP service. Only `conjoin serve` loads it, so its modules may import fastapi and pydantic at the top."""
