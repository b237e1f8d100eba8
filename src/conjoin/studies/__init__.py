"""Runs and their folders; studies over many of them."""
