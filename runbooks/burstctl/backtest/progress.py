"""A bar that counts days in place of volumes."""

from burstctl.cli.progress import ProgressBar


class DayProgressBar(ProgressBar):
    """Shows how far a replay has come."""

    def _describe(self) -> str:
        return self._activity if self._total is None else f"day {self._done:,} of {self._total:,}"
