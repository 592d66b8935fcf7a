"""A bar that counts days in place of volumes."""

from burstctl.cli.progress import ProgressBar


class DayBar(ProgressBar):
    """Shows how far a replay has come."""

    def _words(self) -> str:
        return self._doing if self._total is None else f"day {self._done:,} of {self._total:,}"
