"""The plan of an experiment as ``--json`` prints it where none was begun."""

from typing import Any, Final

from burstctl.context.context import Desk
from burstctl.experiment.credit_reset import alike
from burstctl.experiment.preflight import Examined, Outlined
from burstctl.render.plan_json import plan_document
from burstwatch.core.text import format_instant

SCHEMA: Final = "burstwatch.experiment-plan/v1"


def outline_document(desk: Desk, examined: Examined) -> dict[str, Any]:
    """What would be done and what refuses it; absent values are null, keys never disappear."""
    newest = examined.newest
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(desk.shell.clock()),
        "region": desk.shell.place.region,
        "ledger": desk.ledger,
        "volume_id": examined.volume.volume_id,
        "burst_balance_pct": newest.value if newest else None,
        "burst_balance_at": format_instant(newest.start_s) if newest else None,
        "consumed_iops": round(examined.iops, 3),
        "quickest": _outlined_document(examined, examined.quickest),
        "reckoned": _outlined_document(examined, examined.reckoned),
        "objections": [{"name": each.name, "reason": each.reason} for each in examined.objections],
        "plan": plan_document(examined.planned),
        "failures": list(examined.datapoints.failures),
    }


def _outlined_document(examined: Examined, outlined: Outlined | None) -> dict[str, Any] | None:
    if outlined is None:
        return None
    return {
        "away_s": outlined.away_s,
        "modify_s": outlined.modify_s,
        "usd_more": round(examined.usd_more(outlined), 4),
        "allowed_pct": {str(fate): list(band) for fate, band in outlined.bands.items()},
        "not_told_apart": [[str(one), str(other)] for one, other in alike(outlined.bands)],
    }
