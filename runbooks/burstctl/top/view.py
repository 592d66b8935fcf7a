"""The state of the live view, and what a key or a finished read makes of it: values only, no terminal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final

from burstctl.cli.output import merge_alike
from burstctl.cli.tag_filter import TagTerm, parse_term
from burstctl.render.pass_summary import describe_hold
from burstctl.render.resource_rows import has_nothing_to_lose, row_of
from burstctl.render.table import Row
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.sparkline import describe_balance_history, draw_sparkline
from burstwatch.core.errors import Problem
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.text import format_count
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport

IDLE_PAUSE_S: Final = 3600.0
"""Without a key for this long, it stops reading: a view that was forgotten costs as much as one in use."""

_RETRY_S: Final = 15.0  # the price of a read that failed is small, and AWS may be back


class Action(Enum):
    """What the terminal has to do, because the state cannot."""

    EXPLAIN = auto()
    PLAN = auto()
    HOLD = auto()
    READ = auto()
    QUIT = auto()


_ACTIONS: Final = {
    "q": Action.QUIT,
    "r": Action.READ,
    "enter": Action.EXPLAIN,
    "e": Action.EXPLAIN,
    "p": Action.PLAN,
    "h": Action.HOLD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A resource to show; ``search_text`` is what the filter looks in, in lower case."""

    row: Row
    sparkline: str
    search_text: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReading:
    """What one read found: the most urgent resource first, and what could not be read.

    ``data_age_s`` is the age of the newest datapoint at that time, None without any. ``usd`` is the price of
    the read. ``selection`` says which tags the resources must have, empty if any will do.
    """

    region: str
    selection: str = ""
    items: Sequence[Item]
    level_counts: Mapping[str, int]
    failures: Sequence[str] = ()
    notes: Sequence[str] = ()
    data_age_s: float | None = None
    usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is known and selected. Times are seconds of one monotonic clock.

    ``kind`` and ``filter_text`` narrow the ``items``; ``position`` is the index of the selected one.
    ``selected_id`` is None until somebody moves: until then the most urgent resource is selected.
    """

    every_s: float
    reading: FleetReading | None = None
    read_at_s: float | None = None
    error: Problem | None = None
    reading_since_s: float | None = None
    next_read_at_s: float = 0.0
    key_at_s: float = 0.0
    kind: ResourceType | None = None
    filter_text: str = ""
    is_typing: bool = False
    is_help_shown: bool = False
    message: str = ""
    selected_id: str | None = None
    items: Sequence[Item] = ()
    position: int = 0

    @property
    def selected(self) -> Item | None:
        return self.items[self.position] if self.items else None

    def is_paused(self, now_s: float) -> bool:
        """Whether it waits for a key before it reads again."""
        return now_s - self.key_at_s >= IDLE_PAUSE_S

    def is_read_due(self, now_s: float) -> bool:
        is_waiting = self.reading_since_s is None and not self.is_paused(now_s)
        return is_waiting and now_s >= self.next_read_at_s


def make_reading(
    report: PassReport,
    terms: Sequence[TagTerm] = (),
    *,
    unreadable: Iterable[str] = (),
    remarks: Iterable[str] = (),
) -> FleetReading:
    """The resources of a pass, except those without a bucket that can drain.

    ``terms`` are the tags by which the pass has chosen them. ``unreadable`` is what of the ledger could not
    be read, ``remarks`` what else is odd.
    """
    items = [
        _make_item(decision, report) for decision in report.by_resource if not has_nothing_to_lose(decision)
    ]
    unread_count = len(report.unread)
    unread = [f"{format_count(unread_count, 'resource')} could not be read"] if unread_count else []
    return FleetReading(
        region=report.region,
        selection=" ".join(map(str, terms)),
        items=items,
        level_counts=Counter(item.row.level for item in items),
        failures=[*unread, *dict.fromkeys(map(str, merge_alike(report.failures))), *unreadable],
        notes=[
            *(describe_hold(hold, report.now_s) for hold in report.holds if hold.volume_id is None),
            *remarks,
            *(
                f"no permission to list {kind.noun}s: {action}"
                for kind, action in report.excused_kinds.items()
            ),
        ],
        data_age_s=report.newest_datapoint_age_s,
        usd=report.metrics_requested * USD_PER_METRIC,
    )


def _make_item(decision: Decision, report: PassReport) -> Item:
    resource, history = decision.assessment.resource, describe_balance_history(decision.assessment.balance)
    # what a row keeps of the decision needs no samples, and those of a large fleet are many
    assessment = replace(decision.assessment, balance=Series(), served_iops=Series())
    row = row_of(replace(decision, assessment=assessment), report)
    tags = (f"tag:{key}={value}" for key, value in resource.tags.items())
    return Item(
        row=row,
        sparkline=draw_sparkline(history["pct"]) if history else "",
        search_text="\n".join([row.resource_id, row.name(None), row.place, *tags]).casefold(),
        tags=resource.tags,
    )


def begin_read(view: View, now_s: float) -> View:
    """A read has started."""
    return replace(view, reading_since_s=now_s, next_read_at_s=now_s + view.every_s)


def end_read(view: View, reading: FleetReading | Problem, now_s: float) -> View:
    """A read has ended; if it failed, what was read before stays, and the next try comes soon."""
    view = replace(view, reading_since_s=None)
    if isinstance(reading, Problem):
        return replace(
            view, error=reading, next_read_at_s=min(now_s + _RETRY_S, max(now_s, view.next_read_at_s))
        )
    return _narrow(replace(view, reading=reading, read_at_s=now_s, error=None))


def press(view: View, key: str, *, page_rows: int, now_s: float) -> tuple[View, Action | None]:
    """The state after a key, and what the terminal has to do.

    ``page_rows`` is how many resources the terminal shows.
    """
    view = replace(view, key_at_s=now_s, message="")
    if key == "ctrl-c":
        return view, Action.QUIT
    if view.is_typing:
        return _type(view, key), None
    if view.is_help_shown and key != "q":
        return replace(view, is_help_shown=False), None
    if key in _ACTIONS:
        return _request(view, _ACTIONS[key])
    return _change(view, key, page_rows), None


def _change(view: View, key: str, page_rows: int) -> View:
    """What a key does to the view alone."""
    match key:
        case "?":
            return replace(view, is_help_shown=True)
        case "/":
            return replace(view, is_typing=True)
        case "tab":
            return _narrow(replace(view, kind=_next_kind(view)))
        case "escape":
            return _narrow(replace(view, kind=None, filter_text=""))
        case _:
            return _move(view, key, page_rows)


def _request(view: View, action: Action) -> tuple[View, Action | None]:
    if action in (Action.QUIT, Action.READ):
        return view, action
    item = view.selected
    if item is None:
        return replace(view, message="nothing is selected"), None
    kind = type_of_id(item.row.resource_id)
    if action is Action.PLAN and kind is not ResourceType.EBS:
        return replace(view, message=f"flip changes volumes only: e shows what helps this {kind.noun}"), None
    return replace(view, selected_id=item.row.resource_id), action


def _move(view: View, key: str, page_rows: int) -> View:
    steps = {
        "j": 1,
        "down": 1,
        "k": -1,
        "up": -1,
        "page down": page_rows,
        " ": page_rows,
        "page up": -page_rows,
        "home": -len(view.items),
        "g": -len(view.items),
        "end": len(view.items),
        "G": len(view.items),
    }
    if key not in steps or not view.items:
        return view
    position = max(0, min(len(view.items) - 1, view.position + steps[key]))
    return replace(view, position=position, selected_id=view.items[position].row.resource_id)


def _type(view: View, key: str) -> View:
    """The filter, one key longer or shorter; every key narrows the list at once."""
    match key:
        case "enter":
            return _narrow(replace(view, is_typing=False))
        case "escape":
            return _narrow(replace(view, is_typing=False, filter_text=""))
        case "backspace":
            return _narrow(replace(view, filter_text=view.filter_text[:-1]))
        case _ if len(key) == 1 and key.isprintable():
            return _narrow(replace(view, filter_text=view.filter_text + key))
        case _:
            return view


def _next_kind(view: View) -> ResourceType | None:
    """The next kind of which there are resources; after the last one, all kinds."""
    present = {item.row.kind for item in view.reading.items} if view.reading else set()
    kinds = [None, *(kind for kind in ResourceType if kind in present)]
    return kinds[(kinds.index(view.kind) + 1) % len(kinds)] if view.kind in kinds else None


def _narrow(view: View) -> View:
    """The items that the kind and the filter let through; the selected one stays so if it is among them.

    A filter in the language of --where means the same as there, once it is typed.
    """
    items = view.reading.items if view.reading else ()
    text, term = view.filter_text.casefold(), None if view.is_typing else parse_term(view.filter_text)
    if view.kind is not None or text:
        items = [
            item
            for item in items
            if view.kind in (None, item.row.kind)
            and (text in item.search_text if term is None else term.is_in(item.tags))
        ]
    positions = (index for index, item in enumerate(items) if item.row.resource_id == view.selected_id)
    return replace(view, items=items, position=next(positions, 0))
