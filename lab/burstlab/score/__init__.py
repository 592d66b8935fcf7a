"""``burstlab score``: compares the watchdog with other contenders on recorded load, in a closed loop."""
