"""What is read from this host and written to it, without waiting for a disk."""
