"""What is done to Conjoin to break it, and how often it was done: the counts of docs/reliability.md come from here.

`python -m tests.stress` does everything at its long size, `python -m tests.stress PART …` some of it; `make test` and
`make test-slow` do the short sizes (tests/stress/test_*.py). Each part is a function from a size to counts, listed in
`tests.stress.__main__.PARTS`; a part fails by an AssertionError. A new part (a sharded table, a new ingestion) is a
module with such a function, a line in PARTS, and a short test.
"""
