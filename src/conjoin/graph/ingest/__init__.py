"""Graphs that do not fit in memory, made into stored graphs on disk."""
