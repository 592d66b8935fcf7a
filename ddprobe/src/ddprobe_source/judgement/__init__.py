"""Values in, values out: what is read becomes facts, and facts become a verdict and a cause."""
