"""Limits of files, in bytes unless noted otherwise. docs/threats.md lists these numbers.

A compressed file of some kilobytes can contain one line of gigabytes, so every reader stops at a limit instead of at
the end of the line. The number of lines is not limited: a graph needs the memory of its names.
"""

from __future__ import annotations

LINE = 1 << 20
"""A line of a table (TSV, CSV, labels), and a row of CSV with line breaks in its quoted cells."""
STATEMENT = 16 << 20
"""A line of N-Triples, and a term or comment of Turtle: literals such as outlines of countries take megabytes."""
NAME = 1 << 16
"""The name of an entity or relation, or a label, in UTF-8."""
BRACKETS = 100_000
"""Nested levels of blank nodes and lists in Turtle: each takes half a kilobyte of memory."""
QUOTED = 1_000
"""Nested levels of quoted triples in Turtle: the parser would crash the process at ten thousand."""
PAGE = 128 << 20
"""A page of a Parquet column, unpacked. Usual writers make pages of 1 to 100 MB."""
PACKED_PARQUET = 1 << 30
"""A Parquet file inside gzip, unpacked: it is stored completely, because its index is at its end."""

TOML = 256 << 10
"""A TOML file: a study, settings, a grid."""
EXTENDS = 32
"""TOML files that extend each other in a chain."""
NESTED = 64
"""Nested levels of tables and lists, in TOML and in JSON."""

RECORD = 4 << 20
"""A JSON record: run.json, result.json and similar files. Real ones have some kilobytes."""
GRAPH_RECORD = 16 << 20
"""The graph.json of a stored graph, which lists up to a thousand bad lines and all ingested files."""
LARGE_RECORD = 64 << 20
"""A JSON file that grows with relations, cells or epochs: calibration, patterns, reports, events.jsonl."""
VALUES = 4_000_000
"""Values in a JSON file. Each takes up to a hundred bytes of memory, whatever its length in the file."""
EVENTS = 1_000_000
"""Lines of events.jsonl, one per epoch."""
HEADER = 4 << 20
"""The header of a safetensors file."""
ARCHIVE = 1 << 30
"""A file of a study's archive, unpacked: settings, results and events of all its runs."""
ARCHIVED_RUNS = 100_000
"""Runs in a study's archive."""
