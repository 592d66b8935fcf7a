"""Where readings go."""
