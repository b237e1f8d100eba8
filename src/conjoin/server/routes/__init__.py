"""The routes of the HTTP service."""
