"""A dataset about a town of two streets: homes and greetings."""
