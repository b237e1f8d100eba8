"""A form, a reader and a dataset for conjoin."""
