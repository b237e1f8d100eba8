"""Runs, and later the tables over many of them."""
