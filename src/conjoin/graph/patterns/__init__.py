"""Relation patterns of a graph: detection, rules, hierarchy."""
