"""``burstlab score``: the watchdog and its rivals on recorded load, in a closed loop."""
