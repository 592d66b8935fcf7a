"""ddprobe on disks with every fault that can be caused here, and what it reports."""
