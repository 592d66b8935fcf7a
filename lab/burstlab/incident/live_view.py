"""What the incident shows while it runs and when it ends: on a terminal a live board, elsewhere lines."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from burstlab.disk.live_view import bar, served
from burstlab.incident.probe import Reading
from burstlab.incident.run import PARTS, SIZE_GIB, Stage, Twin
from burstwatch.core.alerts.alert import Alert, title
from burstwatch.core.ebs.volume import BURST_IOPS, baseline_iops
from burstwatch.core.text import fill, format_clock, printable

_COLUMNS: Final = 80
_LABEL: Final = 12
_BAR: Final = 16
_SLOW: Final = 5
"""A job that takes so many times the usual is told of."""
_LAST: Final = 8
_BEAT_S: Final = 10.0
_SHOWN_TASKS: Final = 3
_TITLES: Final = {"alone": "nobody watches", "watched": "the watchdog watches"}
_KINDS: Final = {
    "docker": "Docker's containers",
    "podman": "podman's containers",
    "built-in": "built-in jobs",
}
_PART_TITLES: Final = {"before": "before", "in": "bucket empty", "after": "after the flip"}
_COLOURS: Final = {"ok": "green", "warn": "yellow", "crit": "bold white on red", "unknown": "magenta"}


def tell_the_start(console: Console, *, speed: float, balance_pct: float) -> None:
    """What is about to be seen."""
    held = "full" if balance_pct == 100 else f"at {balance_pct:g} %"  # noqa: PLR2004 - full
    text = (
        f"Two real block devices, each throttled by the bucket of a {SIZE_GIB} GiB gp2 volume ({held}; burst"
        f" {BURST_IOPS:,} IOPS, baseline {baseline_iops(SIZE_GIB)}), each under the same loop of small jobs."
        f" One second is {speed:g} s of the volumes' time, and the bucket so much smaller."
        " It takes a minute or two."
    )
    _say(console, text)
    console.print()


@contextmanager
def open_board(console: Console) -> Iterator[Callable[[Stage], None]]:
    """Give the function that shows the stage."""
    teller = Teller()
    if not console.is_terminal:

        def print_news(stage: Stage) -> None:
            for at_s, words in teller.news(stage):
                _say(console, words, lead=f"{at_s:5.1f} s  ")

        yield print_news
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:

        def update(stage: Stage) -> None:
            teller.news(stage)
            live.update(board(stage, teller.told))

        yield update


class Teller:
    """Tells each thing that happens once."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str]] = []
        self._known: set[object] = set()
        self._alerts = 0
        self._beat_s = _BEAT_S

    def news(self, stage: Stage) -> list[tuple[float, str]]:
        """What was not told yet: when, in seconds from the beginning, and what."""
        before = len(self.told)
        for twin in stage.twins:
            self._tell_twin(stage, twin)
        heard = stage.ear.heard[self._alerts :]
        self._alerts += len(heard)
        self.told += [(stage.passed_s, f"alert: {_headline(alert)}") for alert in heard]
        if stage.let_in_s is not None:
            self._once(
                "let in", stage.let_in_s - stage.began_s, "alone: somebody tags it burstwatch:mode=auto"
            )
        if len(self.told) > before:
            self._beat_s = stage.passed_s + _BEAT_S
        elif stage.passed_s >= self._beat_s:
            self._beat_s += _BEAT_S
            self.told.append((stage.passed_s, "; ".join(_in_short(twin) for twin in stage.twins)))
        return self.told[before:]

    def _tell_twin(self, stage: Stage, twin: Twin) -> None:
        if twin.dry_s is not None:
            self._once((twin.name, "dry"), twin.dry_s - stage.began_s, f"{twin.name}: the bucket is empty")
        if twin.flip is not None:
            flipped = f"{twin.name}: ModifyVolume to {twin.flip.target}"
            self._once((twin.name, "asked"), twin.flip.asked_s - stage.began_s, flipped)
            if twin.flip.reached_s is not None:
                self._once(
                    (twin.name, "reached"),
                    twin.flip.reached_s - stage.began_s,
                    f"{twin.name}: it is {twin.flip.target}",
                )
        usual_s = median(twin.jobs_of("before") or [1.0])
        for job in list(twin.jobs):
            if job.ended_s is not None and job.ended_s - job.started_s >= _SLOW * usual_s:
                took_s = job.ended_s - job.started_s
                times = f"{took_s / usual_s:.0f} times the usual"
                words = f"{twin.name}: job {job.number} took {took_s:.1f} s, {times}"
                self._once((twin.name, "job", job.number), job.ended_s - stage.began_s, words)
        for reading in twin.readings:
            if reading.verdict != "ok":
                self._once(
                    (twin.name, "probe", reading.started_s),
                    reading.ended_s - stage.began_s,
                    f"{twin.name}: ddprobe {_of_reading(reading)}",
                )

    def _once(self, key: object, at_s: float, words: str) -> None:
        if key not in self._known:
            self._known.add(key)
            self.told.append((at_s, words))


def board(stage: Stage, told: Sequence[tuple[float, str]]) -> Group:
    """Both disks side by side, and what happened last."""
    lab_s = stage.alone.box.governor.now.lab_s
    head = f"{stage.passed_s:5.1f} s      {format_clock(lab_s)} UTC of the volumes' time"
    rows = [
        Text(head, style="bold"),
        _row("", *(Text(_TITLES[twin.name], style="bold") for twin in stage.twins)),
        _row("balance", *(bar(twin.box.governor.now.balance_pct, _BAR) for twin in stage.twins)),
        _row("limit", *(Text(_limit(twin)) for twin in stage.twins)),
        _row("served", *(Text(f"{served(twin.box.governor.instants):,.0f} IOPS") for twin in stage.twins)),
        _row("last job", *(_last_job(twin) for twin in stage.twins)),
        _row("this job", *(_this_job(twin) for twin in stage.twins)),
        _row("ddprobe", *(_last_reading(twin) for twin in stage.twins)),
        _row("in state D", *(Text(_tasks(twin)) for twin in stage.twins)),
        Text(""),
    ]
    last = [Text(printable(f"{at_s:5.1f} s  {words}", _COLUMNS - 1)) for at_s, words in told[-_LAST:]]
    return Group(*rows, *last)


def _row(label: str, *cells: Text) -> Text:
    width = (_COLUMNS - _LABEL) // len(cells)
    row = Text(f"{label:<{_LABEL}}")
    for cell in cells:
        cell.truncate(width - 1, pad=True)
        row.append_text(cell).append(" ")
    return row


def _limit(twin: Twin) -> str:
    now = twin.box.governor.now
    return f"{now.limit_iops:,} IOPS, {now.volume_type}"


def _last_job(twin: Twin) -> Text:
    if not twin.jobs:
        return Text("-")
    job, usual_s = twin.jobs[-1], median(twin.jobs_of("before") or [1.0])
    took_s = job.took_s(0)
    times = f" ({took_s / usual_s:.0f} times the usual)" if took_s >= _SLOW * usual_s else ""
    return Text(f"{took_s:.2f} s{times}", style="bold red" if times else "")


def _this_job(twin: Twin) -> Text:
    running = twin.loop.running
    return Text(f"runs for {running.took_s(twin.box.governor.now.at_s):.1f} s" if running else "-")


def _last_reading(twin: Twin) -> Text:
    if not twin.readings:
        return Text("-")
    reading = twin.readings[-1]
    words = f"{reading.verdict}, {reading.total_s:.2f} s, {reading.cause}"
    return Text(words, style=_COLOURS[reading.verdict])


def _tasks(twin: Twin) -> str:
    reading = twin.readings[-1] if twin.readings else None
    if reading is None or not reading.blocked:
        return "-"
    comm, wchan, _ = reading.tasks[0]
    return f"{reading.blocked}: {comm} [{wchan}]"


def _of_reading(reading: Reading) -> str:
    took = f"{reading.total_s:.1f} s" if reading.completed else f"not done after {reading.total_s:.1f} s"
    names = ", ".join(f"{count} {comm} [{wchan}]" for comm, wchan, count in reading.tasks[:_SHOWN_TASKS])
    states = f"; {reading.blocked} tasks in state D: {names}" if reading.blocked else ""
    return f"{reading.verdict.upper()}, {reading.cause}, {took}{states}"


def _in_short(twin: Twin) -> str:
    now = twin.box.governor.now
    held = "no bucket" if now.balance_pct is None else f"{now.balance_pct:.0f} %"
    last = f", a job {twin.jobs[-1].took_s(0):.2f} s" if twin.jobs else ""
    return f"{twin.name} {held}{last}"


def _headline(alert: Alert) -> str:
    """The title without ids: here every volume has a name."""
    return title(alert).partition(" (vol-")[0]


def tell_the_end(console: Console, stage: Stage) -> None:
    """What was measured before, in and after, and what the watchdog was good for."""
    alone, watched = stage.twins
    kind = _KINDS[stage.jobs]
    rows = [(kind, *(_TITLES[twin.name] for twin in stage.twins))]
    rows += [("bucket empty", *(_when(stage, twin.dry_s) for twin in stage.twins))]
    rows += [("flipped", *(_when(stage, twin.flip.asked_s if twin.flip else None) for twin in stage.twins))]
    for part in PARTS:
        rows.append((f"a job, {_PART_TITLES[part]}", *(_job_words(twin, part) for twin in stage.twins)))
    for part in PARTS:
        rows.append((f"ddprobe, {_PART_TITLES[part]}", *(_probe_words(twin, part) for twin in stage.twins)))
    console.print()
    for label, *cells in rows:
        console.print(Text(f"{label:<24}" + "".join(f"{cell:<28}" for cell in cells).rstrip()))
    console.print()
    worst = max(alone.readings_of("in"), key=lambda each: each.total_s)
    _say(console, f"Left alone, at the worst, ddprobe said {_of_reading(worst)}.")
    if watched.dry_s is None and watched.flip is not None:
        spared_s = (alone.dry_s or 0) - watched.flip.asked_s
        spared_min = spared_s * stage.lapse.speed / 60
        _say(
            console,
            f"Watched, it was flipped {spared_s:.1f} s ({spared_min:.0f} min of its time)"
            f" before the other ran dry; its slowest job took {watched.slowest_s:.2f} s.",
        )


def _when(stage: Stage, at_s: float | None) -> str:
    return "never" if at_s is None else f"at {at_s - stage.began_s:.1f} s"


def _job_words(twin: Twin, part: str) -> str:
    took, usual = twin.jobs_of(part), twin.jobs_of("before")
    if not took:
        return "-"
    times = median(took) / median(usual) if usual else 1.0
    return f"{median(took):.2f} s" + (f", {times:.0f} times" if times >= _SLOW else "")


def _probe_words(twin: Twin, part: str) -> str:
    readings = twin.readings_of(part)
    if not readings:
        return "-"
    worst = max(readings, key=lambda each: each.total_s)
    return f"{median([each.total_s for each in readings]):.2f} s, {worst.verdict}"


def _say(console: Console, text: str, *, lead: str = "") -> None:
    """Words in lines of 80 columns after ``lead``, which the later lines leave blank."""
    first, *rest = fill(text.split(), _COLUMNS - len(lead))
    for line in (lead + first, *(" " * len(lead) + line for line in rest)):
        console.print(Text(line), soft_wrap=True)
