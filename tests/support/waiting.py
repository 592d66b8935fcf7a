"""Waiting for what another process or thread does."""

import time


def wait_until(condition, within_s=90, *, failure="it did not come about"):
    """What the condition returns as soon as that counts as true."""
    ends_at_s = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < ends_at_s, f"{failure} within {within_s} s"
        time.sleep(0.02)
    return result
