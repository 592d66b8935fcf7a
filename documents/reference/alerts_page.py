"""alerts.md: every kind of alert."""

import re
from pathlib import Path
from typing import Final

from burstwatch.core.alerts.alert import Alert, AlertKind, alert_urgency
from burstwatch.core.assessment.severity import Level
from documents.reference.markdown import page, paragraph, table

_INDEX: Final = Path(__file__).parents[2] / "runbooks" / "README.md"
_ROW: Final = re.compile(r"\| \[(\w+)\]\(\w+\.md\) \| (.+) \| (`[^|]+`) \|")
_LEVELS: Final = {
    AlertKind.DRAINING: "`warning` or `critical`",
    AlertKind.EXHAUSTED: "`exhausted`",
    AlertKind.RECOVERED: "`ok` or `watch`",
    AlertKind.TELEMETRY_GAP: "`unknown`",
    AlertKind.POLICY_REJECTED: "`warning`",
    AlertKind.DIGEST: "the highest of its alerts",
}
"""The levels of alerts that are not about an event."""


def alerts_page() -> str:
    """The page; what an alert means is written in the index of the runbooks."""
    index = {kind: (when, command) for kind, when, command in _ROW.findall(_INDEX.read_text())}
    rows = [
        (f"[{kind}](../../runbooks/{kind}.md)", index[kind][0], _level_text(kind), index[kind][1])
        for kind in AlertKind
    ]
    return page(
        "# Alerts",
        paragraph(
            "Each kind has a page of the same name. The level decides the colour in Slack and the order in a"
            " digest; in JSON, `level` is always that of the volume. An alert about a level is repeated"
            " every [`alerts.remind_every`](policy.md#alertsremind_every) while the level lasts. In mode"
            " `observe`, no alert is sent."
        ),
        table(("Alert", "When", "Level", "First command"), rows),
        paragraph(
            "The fields of an alert are in [alert.v1.schema.json](../schemas/alert.v1.schema.json). SNS"
            " message attributes to filter by: `kind`, `level`, `volume_id`, `region`, `account`."
            " CloudWatch alarms report on the watchdog itself: [the"
            " alarms](../../runbooks/README.md#the-alarms)."
        ),
    )


def _level_text(kind: AlertKind) -> str:
    if kind in _LEVELS:
        return _LEVELS[kind]
    example = Alert(alert_id="", kind=kind, level=Level.OK, previous_level=Level.OK, volume_id=None, at_s=0)
    urgency = alert_urgency(example)
    return f"`{urgency}`" if urgency is Level.OK else f"`{urgency}`, or the volume's level if that is higher"
