"""What `faults`, `crowd`, `month` and the crash tests share: the world, its effects, and the invariants."""
