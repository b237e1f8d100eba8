"""What is done to Conjoin to break it, and how often it was done: the counts of docs/reliability.md come from here.

`python -m torture` does everything at its long size, `python -m torture PART …` some of it; `make test` does the short
sizes through tests/torture. Each part is a function from a size to counts, listed in `torture.__main__.PARTS`; a part
fails by an AssertionError. A new part (a sharded table, a new ingestion) is a module with such a function, a line in
PARTS, and a short test.
"""
