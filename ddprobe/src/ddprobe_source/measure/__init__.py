"""One run on one path: look, write, judge."""
