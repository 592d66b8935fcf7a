"""The money of a report in sentences, and the stays behind it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from burstctl.render.flip_status import short_configuration
from burstctl.report.collect import Reported
from burstctl.report.costs import PRICES, Money, PaidStay
from burstctl.report.format import instant_words, names_of, span_words, usd_words, volumes_words
from burstwatch.core.watch.api_cost import usd_per_month_now

MOST_STAYS: Final = 100


def money_context(reported: Reported, last: timedelta) -> dict[str, Any]:
    """What the template says of it."""
    money, names = reported.money, names_of(reported)
    stays = sorted(money.stays, key=lambda stay: -abs(stay.usd_within(money.start_s, money.end_s)))
    return {
        "prices": f"{PRICES}; of other regions they differ",
        "money_lines": _money_lines(reported, last),
        "stays": [_stay(stay, money, names) for stay in stays[:MOST_STAYS]],
    }


def _money_lines(reported: Reported, last: timedelta) -> list[str]:
    money, span = reported.money, span_words(last)
    lines = [_flips_line(money, span)]
    if money.cheaper_usd:
        lines.append(
            f"Saved {usd_words(money.cheaper_usd)} in that time: targets that cost less, most often gp3."
        )
    if money.returned_usd:
        lines.append(
            f"Saved {usd_words(money.returned_usd)} in that time by returning: what volumes that came back in"
            " it would have cost more since, left on their target until now or until they went again."
        )
    lines.append(
        f"{volumes_words(money.away)} away of {money.fleet_cap:,} that the policy allows, for"
        f" {usd_words(money.away_usd_per_month)} a month more of {usd_words(money.spend_cap_usd)}."
    )
    idle, now = reported.report.usd_per_month_idle, usd_per_month_now(reported.decisions)
    lines.append(
        f"Watching costs {usd_words(now)} a month as it is now, {usd_words(idle)} while all are calm."
    )
    lines.append(_gp3_line(money))
    return lines


def _flips_line(money: Money, span: str) -> str:
    cost = f"Flips cost {usd_words(money.flips_usd)} in the last {span}"
    return f"{cost}: what volumes cost more on their target than they did before."


def _gp3_line(money: Money) -> str:
    gp3 = money.gp3
    if not gp3.volumes:
        return "None of these volumes would cost less as gp3 with the same throughput."
    return (
        f"Not saved yet: {usd_words(gp3.usd_per_month)} a month, which {gp3.volumes:,} of"
        f" {volumes_words(gp3.gp2_volumes, 'gp2 ')} would cost less as gp3 with the same throughput and no"
        " fewer IOPS than their baseline: by size alone; burstctl advise tells it from what they serve."
    )


def _stay(stay: PaidStay, money: Money, names: Mapping[str, str]) -> dict[str, str]:
    usd = stay.usd_within(money.start_s, money.end_s)
    return {
        "volume_id": stay.volume_id,
        "name": names.get(stay.volume_id, stay.volume_id),
        "target": short_configuration(stay.target),
        "began": instant_words(stay.began_s),
        "ended": "still there" if stay.ended_s is None else instant_words(stay.ended_s),
        "usd_per_month": f"{stay.usd_per_month:+,.2f}",
        "usd": f"{usd:+,.4f}",
    }
