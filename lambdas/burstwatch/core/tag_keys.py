"""The keys of the tags that burstwatch reads."""

from typing import Final

PREFIX: Final = "burstwatch:"
MODE: Final = f"{PREFIX}mode"
CRITICAL: Final = f"{PREFIX}critical"
IGNORE: Final = f"{PREFIX}ignore"
TARGET: Final = f"{PREFIX}target"
IOPS: Final = f"{PREFIX}iops"
THROUGHPUT: Final = f"{PREFIX}throughput"
WINDOW: Final = f"{PREFIX}window"
KNOWN: Final = frozenset({MODE, CRITICAL, IGNORE, TARGET, IOPS, THROUGHPUT, WINDOW})
