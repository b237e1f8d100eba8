"""From run folders to tables, tests, plots and pages. Reads files only; never imports torch."""
