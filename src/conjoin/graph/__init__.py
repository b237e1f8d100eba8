"""Graphs as integers: vocabularies, splits, filters, patterns, synthetic graphs."""
