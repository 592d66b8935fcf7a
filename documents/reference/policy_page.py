"""policy.md: every setting of the policy."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from burstctl.policy.settings import Setting, list_settings, section_meanings
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.policy.policy import CadencePolicy, Policy
from burstwatch.core.policy.windows import SETTING_KEYS
from burstwatch.core.watch.api_cost import metric_usd_per_month
from burstwatch.core.watch.polling.cadence import sweep_interval_s
from documents.reference.allowed_values import describe_allowed
from documents.reference.markdown import bullet, page, paragraph, require_same_keys, table
from documents.reference.policy_advice import ADVICE, WINDOW_KEYS

_INTRODUCTION = (
    "The policy is one YAML file of at most 8 KB. Every setting may be left out. `burstctl policy show`"
    " prints the policy in force with a comment above each setting, and `burstctl policy check FILE` prints"
    " every fault of a file. How it gets into a deployed stack:"
    " [Deploying](../deploying.md#change-the-policy)."
)
_CONVENTIONS = (
    "A duration is a whole number with `s`, `m`, `h` or `d`, such as `90m`. *Allowed* is what is accepted"
    " while every other setting has its default. *Price* is that of watching and of flips, and *guarantee*"
    " is [what the watchdog promises](../guarantee.md)."
)
_SIZES_GIB = (8, 100, 500, 900)
_CADENCES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("the defaults", {}),
    ("`watch_below_pct: 90`", {"watch_below_pct": 90.0}),
    ("`act_lead: 12m`", {"act_lead": timedelta(minutes=12)}),
    ("`act_lead: 18m`", {"act_lead": timedelta(minutes=18)}),
    ("`metric_lag: 10m`", {"metric_lag": timedelta(minutes=10)}),
    ("`sweep_at_most: 30m`", {"sweep_at_most": timedelta(minutes=30)}),
)


def policy_page() -> str:
    """The page."""
    settings = list(list_settings(Policy()))
    require_same_keys(ADVICE, [setting.path for setting in settings], "settings")
    return page(
        "# Policy",
        paragraph(_INTRODUCTION),
        paragraph(_CONVENTIONS),
        table(
            ("Setting", "Default", "Meaning"),
            [
                (f"[`{setting.path}`](#{_anchor(setting.path)})", f"`{setting.default}`", setting.meaning)
                for setting in settings
            ],
        ),
        *_section_blocks(settings),
        *_window_blocks(),
        *_cadence_blocks(),
    )


def _section_blocks(settings: list[Setting]) -> Iterator[str]:
    for section, meaning in section_meanings().items():
        yield f"## {section}"
        yield paragraph(meaning)
        for setting in settings:
            if setting.section == section:
                yield from _setting_blocks(setting)


def _setting_blocks(setting: Setting) -> Iterator[str]:
    advice = ADVICE[setting.path]
    yield f"### {setting.path}"
    yield paragraph(f"{setting.meaning[:1].upper()}{setting.meaning[1:]}.")
    allowed = describe_allowed(setting)
    unit = "" if setting.unit == allowed else f" Unit: {setting.unit}."
    texts = [f"Default: `{setting.default}`. Allowed: {allowed}.{unit}", f"Change it: {advice.change}."]
    if advice.price == advice.guarantee:
        texts.append(f"Price and guarantee: {advice.price}.")
    else:
        texts += [f"Price: {advice.price}.", f"Guarantee: {advice.guarantee}."]
    yield "\n".join(map(bullet, texts))


def _window_blocks() -> Iterator[str]:
    require_same_keys(WINDOW_KEYS, SETTING_KEYS, "settings of a window")
    yield "## windows"
    yield paragraph(
        "Named critical periods, in which volumes are kept flipped. A window recurs (`cron`, `duration`,"
        " `zone`), has a date (`from`, `to`), or is only started by hand: `burstctl window start NAME`. It"
        " applies to the volumes whose tag `burstwatch:window` names it, and to those that match `where`"
        " and `size_gib`. While a window lasts, its volumes are paid for as targets; the guarantee is not"
        " affected."
    )
    yield table(
        ("Setting", "Meaning", "Example"),
        [(f"`{key}`", *WINDOW_KEYS[key]) for key in SETTING_KEYS],
    )
    yield (
        "```yaml\nwindows:\n  backup:\n    cron: 0 22 * * fri\n    duration: 8h\n    zone: Europe/Berlin\n"
        '    where: "tag:role=ci"\n  migration: {}   # by hand: burstctl window start migration\n```'
    )


def _cadence_blocks() -> Iterator[str]:
    yield "## What the cadence costs"
    yield paragraph(
        "The sweep interval of a calm volume, and the price of reading the balances of 1,000 such volumes"
        " for 30 days, at $0.01 for 1,000 metrics:"
    )
    yield table(
        ("Policy", *(f"{size} GiB" for size in _SIZES_GIB)),
        [
            (name, *(_cadence_cell(size, replace(CadencePolicy(), **changes)) for size in _SIZES_GIB))
            for name, changes in _CADENCES
        ],
    )


def _cadence_cell(size_gib: int, cadence: CadencePolicy) -> str:
    assert not list(cadence.faults())
    interval_s = sweep_interval_s(gp2_bucket(baseline_iops(size_gib)), cadence)
    return f"{interval_s // 60} min, ${1_000 * metric_usd_per_month(interval_s):.2f}"


def _anchor(path: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return path.replace(".", "")
