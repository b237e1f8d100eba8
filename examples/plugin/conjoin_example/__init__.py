"""A form, a link, two terms, a reader and a dataset for conjoin."""
