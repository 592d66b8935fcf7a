"""What AWS allows for the storage of a database instance (DescribeValidDBInstanceModifications)."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRange:
    """Whole numbers from ``lowest`` to ``highest``, ``step`` apart."""

    lowest: int
    highest: int
    step: int = 1

    def nearest_from(self, value: int) -> int:
        """The smallest number of the range that is at least ``value``; its highest if all are smaller.

        Example: of 500 to 4,000 in steps of 100, 625 yields 700.
        """
        steps = -(-max(0, value - self.lowest) // max(1, self.step))
        return min(self.highest, self.lowest + steps * max(1, self.step))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOption:
    """One type of storage that the instance may have, and the ranges of its numbers; () without a range."""

    storage_type: str
    size_gib: tuple[ValueRange, ...] = ()
    iops: tuple[ValueRange, ...] = ()
    throughput_mib_s: tuple[ValueRange, ...] = ()


def nearest_allowed(ranges: Iterable[ValueRange], value: int) -> int:
    """The smallest allowed number from ``value`` on, or else the highest; ``value`` without ranges."""
    candidates = [value_range.nearest_from(value) for value_range in ranges]
    enough = [candidate for candidate in candidates if candidate >= value]
    return min(enough) if enough else max(candidates, default=value)
