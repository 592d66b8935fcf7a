"""gp2 in a box on a real block device: a loop device whose limit is what a simulated volume's bucket says."""
