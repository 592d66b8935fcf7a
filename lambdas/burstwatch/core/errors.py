class BurstwatchError(Exception):
    """Something we did not expect; its message names the value, the limit and the next step."""
