"""The fault campaign: one story, played once for everything that can become of each of its effects."""
