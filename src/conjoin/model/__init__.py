"""Forms with numbers in them."""
