"""Values in, values out: verdicts, thresholds, causes and text, without any I/O."""
