"""The picture of a demo: balance, IOPS and alerts of every volume, on one sheet."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates as mdates
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from burstlab.demo import Role
from burstwatch.core.alerts import AlertKind
from burstwatch.core.volume import BURST_IOPS, baseline_iops
from burstwatch.core.words import format_duration

COLUMNS: Final = 3
BALANCE: Final = "#1f6fb2"
SERVED: Final = "#2f7d4f"
DEMAND: Final = "#b9bec5"
DRY: Final = "#c62828"

# Letters as well as colours: the picture must read in black and white.
MARKS: Final = {
    "warning": ("W", "#d9822b"),
    "critical": ("C", "#c62828"),
    "exhausted": ("E", "#6a1b1b"),
    "recovered": ("R", "#2f7d4f"),
    "gap": ("?", "#5f6b7a"),
}


def draw(roles: Sequence[Role], path: Path) -> None:
    """Write the sheet as a PNG; volumes that ran dry come first, calm ones last."""
    ordered = sorted(roles, key=lambda role: (role.dry_at_s or float("inf"), -len(role.alerts)))
    rows = -(-len(ordered) // COLUMNS)
    with mpl.rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(5.2 * COLUMNS, 2.75 * rows + 1.3), dpi=110, layout="constrained")
        figure.suptitle(_headline(ordered), fontsize=13, x=0.01, ha="left")
        panels = figure.subfigures(rows + 1, COLUMNS, height_ratios=[1.0] * rows + [0.16], squeeze=False)
        for panel, role in zip(panels[:rows].flat, ordered, strict=False):
            _draw_volume(panel, role)
        _draw_legend(figure)
        figure.savefig(path)


def _headline(roles: Sequence[Role]) -> str:
    dry = [role for role in roles if role.dry_at_s]
    leads = [role.lead_s for role in dry if role.lead_s is not None]
    notice = f", the shortest notice {format_duration(min(leads))}" if leads else ""
    hours = len(roles[0].moments) / 60
    fleet = f"{hours:g} hours of {len(roles)} gp2 volumes"
    return f"{fleet}: {len(dry)} ran dry, {len(leads)} of them announced before{notice}"


def _draw_volume(panel: Any, role: Role) -> None:
    balance, iops = panel.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    times = [datetime.fromtimestamp(moment.at_s, tz=UTC) for moment in role.moments]
    actor = role.actor
    balance.set_title(f"{actor.name}  ·  {actor.size_gib:,} GiB  ·  {actor.story}", loc="left", fontsize=9)
    balance.fill_between(times, [m.balance_pct for m in role.moments], color=BALANCE, alpha=0.18, lw=0)
    balance.plot(times, [m.balance_pct for m in role.moments], color=BALANCE, lw=1.4)
    balance.set_ylim(0, 128)
    balance.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    _draw_dry_spells(balance, role, times)
    _draw_alerts(balance, role)
    demand = [m.demand_iops for m in role.moments]
    iops.fill_between(times, demand, color=DEMAND, lw=0, step="post")
    iops.plot(times, [m.served_iops for m in role.moments], color=SERVED, lw=1.1, drawstyle="steps-post")
    iops.axhline(baseline_iops(actor.size_gib), color="black", lw=0.8, ls="--")
    iops.set_ylim(0, max(BURST_IOPS, *demand) * 1.08)
    iops.set_yticks([0, BURST_IOPS], ["0", "3,000"])
    iops.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M", tz=UTC))
    iops.xaxis.set_major_locator(mdates.HourLocator())
    _draw_note(balance, role, times)


def _draw_dry_spells(axes: Any, role: Role, times: Sequence[datetime]) -> None:
    axes.fill_between(
        times,
        0,
        100,
        where=[m.balance_pct <= 0 for m in role.moments],
        color=DRY,
        alpha=0.15,
        lw=0,
        step="mid",
    )


def _draw_alerts(axes: Any, role: Role) -> None:
    last_x = None
    for alert in role.alerts:
        letter, color = MARKS[_mark(alert.kind, str(alert.level))]
        at = datetime.fromtimestamp(alert.time_s, tz=UTC)
        axes.axvline(at, ymax=0.8, color=color, lw=0.9)
        raised = last_x is not None and (at - last_x).total_seconds() < 600  # noqa: PLR2004 - ten minutes
        style = {"boxstyle": "circle,pad=0.18", "fc": "white" if alert.is_reminder else color, "ec": color}
        axes.text(
            at, 120 if raised else 107, letter, color=color if alert.is_reminder else "white", fontsize=6.5,
            ha="center", va="center", weight="bold", bbox=style,
        )  # fmt: skip
        last_x = None if raised else at


def _mark(kind: AlertKind, level: str) -> str:
    if kind is AlertKind.RECOVERED:
        return "recovered"
    return "gap" if kind is AlertKind.TELEMETRY_GAP else level


def _draw_note(axes: Any, role: Role, times: Sequence[datetime]) -> None:
    if role.dry_at_s is None:
        return
    at = datetime.fromtimestamp(role.dry_at_s, tz=UTC)
    lead = "not announced" if role.lead_s is None else f"announced {format_duration(role.lead_s)} before"
    is_late = at > times[len(times) * 2 // 3]
    axes.annotate(
        f"dry at {at:%H:%M}\n{lead}", (at, 50), xytext=(-6 if is_late else 6, 0), textcoords="offset points",
        ha="right" if is_late else "left", va="center", color=DRY, weight="bold", fontsize=8.5,
        bbox={"fc": "white", "ec": "none", "alpha": 0.75, "pad": 1.5},
    )  # fmt: skip


def _draw_legend(figure: Figure) -> None:
    said = {"warning": "warning", "critical": "critical", "exhausted": "exhausted", "recovered": "recovered"}
    said["gap"] = "no data"
    marks = [
        Line2D([], [], marker=f"${MARKS[key][0]}$", color=MARKS[key][1], lw=0, ms=7, label=f"alert: {text}")
        for key, text in said.items()
    ]
    lines = [
        Line2D([], [], color=BALANCE, label="burst balance"),
        Patch(color=DEMAND, label="IOPS wanted"),
        Line2D([], [], color=SERVED, label="IOPS served"),
        Line2D([], [], color="black", ls="--", lw=0.8, label="baseline IOPS"),
        Patch(color=DRY, alpha=0.15, label="bucket empty"),
    ]
    figure.legend(handles=[*lines, *marks], loc="lower center", ncols=10, frameon=False, fontsize=8.5)
