"""Answers with the user's own names."""
