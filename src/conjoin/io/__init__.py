"""Graphs in files: text, tables, Parquet and RDF in, stored graphs in and out."""
