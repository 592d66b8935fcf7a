"""What is read from this host and written to it."""
