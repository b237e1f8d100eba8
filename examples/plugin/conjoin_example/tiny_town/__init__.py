"""Who lives where in a town of two streets, and who greets whom."""
