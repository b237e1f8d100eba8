"""Graphs that have a name: what they are, where they lie, how they are fetched."""
