"""History of earlier runs: healthy medians and the allowance of credits."""

from __future__ import annotations

import time
from typing import Final

from ddprobe_source.host.clock import boot_clock
from ddprobe_source.host.files import read_text
from ddprobe_source.host.state_dirs import Lock, StateDirs
from ddprobe_source.judgement.text import median

KEPT_MEDIANS: Final = 31
MIN_FOR_A_MEDIAN: Final = 3
ALLOWANCE_S: Final = 600.0
"""Unspent credits are kept for this long, so an operator can run it a few times in a row."""


class RunHistory:
    """What earlier runs on this file system measured while it was healthy, and what they spent."""

    def __init__(self, state_dirs: StateDirs, key: str, credits_per_s: float) -> None:
        self._state_dirs, self._name, self._rate = state_dirs, f"{key}.memory", credits_per_s
        self.healthy: dict[str, list[float]] = {"lite": [], "bulk": [], "classic": []}
        self.credits_total = 0.0
        self.classic_at_s = -1e9
        self.climb_s = 0.0
        self._credits_left, self._at_s = self.max_allowance, boot_clock()
        self.reload()

    def reload(self) -> None:
        """Read what is remembered now: other runs may have added to it."""
        for line in read_text(self._state_dirs.path(self._name)).splitlines():
            word, _, numbers = line.partition(" ")
            try:
                self._parse_line(word, [float(number) for number in numbers.split()])
            except ValueError:
                continue

    def _parse_line(self, word: str, values: list[float]) -> None:
        """Take a line as save writes it: what cannot be would allow too much, or nothing ever again."""
        if not all(abs(value) < 1e12 for value in values):  # noqa: PLR2004 - and so neither inf nor nan
            return
        if word in self.healthy and all(value >= 0 for value in values):
            self.healthy[word] = values[-KEPT_MEDIANS:]
        elif word == "credits" and len(values) == 4 and values[2] >= 0:  # noqa: PLR2004 - as save writes them
            self._credits_left, self._at_s, self.credits_total, self.classic_at_s = values
        elif word == "climb" and len(values) == 1 and values[0] >= 0:
            self.climb_s = values[0]

    @property
    def max_allowance(self) -> float:
        """Credits that may have been saved up."""
        return self._rate * ALLOWANCE_S

    def allowance(self) -> float:
        """Credits that may be spent now."""
        return min(self.max_allowance, self._credits_left + max(0.0, boot_clock() - self._at_s) * self._rate)

    def spend(self, credits_spent: float, *, climbed: bool = False) -> None:
        """Charge credits before they are spent, so that a run beside us counts them; below 0 gives back."""
        with self:
            self._credits_left, self._at_s = (
                min(self.max_allowance, self.allowance() - credits_spent),
                boot_clock(),
            )
            self.credits_total += credits_spent
            self.classic_at_s = boot_clock() if climbed else self.classic_at_s

    def add_healthy(self, healthy_s: dict[str, float]) -> None:
        """Remember how long each level took on the healthy disk."""
        with self:
            for level, seconds in healthy_s.items():
                self.healthy[level] = [*self.healthy[level], seconds][-KEPT_MEDIANS:]

    def record_climb(self, took_s: float) -> None:
        """Remember the seconds of the last classic run of the ladder; 0 if it did not end."""
        with self:
            self.climb_s = took_s

    def __enter__(self) -> None:
        """Begin a change with what is remembered now; the lock keeps others from making one."""
        self._lock = Lock(self._state_dirs, self._name)
        for _ in range(100):  # its holder needs a millisecond, unless it was stopped
            if self._lock.take():
                break
            time.sleep(0.005)
        self.reload()

    def __exit__(self, *_: object) -> None:
        """End the change."""
        self._save()
        self._lock.close()

    def median_s(self, level: str) -> float | None:
        """Healthy median of a level, once there are enough to speak of one."""
        known = self.healthy.get(level, [])
        return median(known) if len(known) >= MIN_FOR_A_MEDIAN else None

    def _save(self) -> None:
        credits_kept = (self._credits_left, self._at_s, self.credits_total, self.classic_at_s)
        lines = [
            *(
                f"{level} {' '.join(f'{value:.6f}' for value in known)}"
                for level, known in self.healthy.items()
            ),
            f"credits {' '.join(f'{value:.3f}' for value in credits_kept)}",
            f"climb {self.climb_s:.6f}",
        ]
        self._state_dirs.write(self._name, "\n".join(lines) + "\n")
