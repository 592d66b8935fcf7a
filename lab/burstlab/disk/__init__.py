"""A simulated gp2 volume as a real block device: a loop device whose limit follows the volume's bucket."""
