"""One run on one path."""
