"""A night of a disk that is scored."""

HOUR_S = 3600


NIGHT = [20.0] * 2 + [2_900.0] * 3 + [20.0] * 7
"""Twelve hours: a batch of three hours empties a small bucket."""
