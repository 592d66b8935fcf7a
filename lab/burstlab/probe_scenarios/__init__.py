"""ddprobe on a disk that is sick in every way that can be brought about here, and what it says each time."""
