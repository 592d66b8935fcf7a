"""When to change each setting of the policy, and what that does to the price and to the guarantee.

Only the page needs these texts, so they are not shipped with the functions. The meaning of a setting, its
unit and its default stand beside it in ``core/policy``.
"""

from typing import Final, NamedTuple

_ALERT_ONLY: Final = "beyond it, a volume is alerted and not flipped"
_TARGET_LONGER: Final = "the higher it is, the longer a target that costs more than gp2 is paid for"
_PERSON_LEAD: Final = (
    "this is the time that it leaves people to act; a bucket that is empty sooner is reported with less"
)
_SHORTER_SWEEPS: Final = "each minute more may shorten the sweep intervals ([table](#what-the-cadence-costs))"


class Advice(NamedTuple):
    """When to change a setting, and what a change does."""

    change: str
    price: str = "no effect"
    guarantee: str = "no effect"


ADVICE: Final = {
    "mode.default": Advice(
        "`observe`, while only tagged volumes should cause alerts",
        guarantee="polling stays the same, but no one is alerted in `observe`",
    ),
    "mode.highest": Advice(
        "`propose`, to stop every automatic flip and return; `observe`, to silence all alerts",
        "a volume that is on a more expensive target stays there, which is reported daily",
        "polling stays the same, but a person has to act in time",
    ),
    "mode.opt_in_tag": Advice(
        "if another tag says which volumes may be modified. The stack's permission is made from it: deploy"
        " the change"
    ),
    "cadence.watch_below_pct": Advice(
        "raise it to make room for a longer lag or lead; lower it if many volumes rest just below it",
        "a higher value makes sweep intervals longer, but keeps more volumes in focus",
        "the credits at this balance are what the rule divides; a value that breaks the rule is rejected",
    ),
    "cadence.calm_from_pct": Advice(
        "lower it towards `watch_below_pct`, if volumes stay in focus long after a small drain",
        "the higher it is, the longer volumes stay in focus",
    ),
    "cadence.metric_lag": Advice(
        "raise it if `burstctl doctor` or the alarm DatapointsTooOld reports older datapoints",
        _SHORTER_SWEEPS,
        "it holds only while CloudWatch shows each minute within this time",
    ),
    "cadence.tick_slack": Advice(
        "raise it if ticks come later, such as from cron on a busy host",
        _SHORTER_SWEEPS,
        "it holds only while ticks come within this time of their schedule",
    ),
    "cadence.act_lead": Advice(
        "raise it if people need longer to read an alert and react. A flip itself may take longer: see"
        " `lead`",
        _SHORTER_SWEEPS,
        "this is the time that it leaves between the first close look and an empty bucket",
    ),
    "cadence.sweep_tick": Advice(
        "rarely. A deployed stack makes its schedule from it: deploy the change",
        "every tick runs the watch function; on a coarser grid, sweep intervals are shorter",
        "one tick is part of the rule, and must fit into the time of the smallest volume",
    ),
    "cadence.sweep_at_most": Advice(
        "lower it to see large calm volumes more often; more than an hour saves next to nothing",
        "half of it doubles the price of the volumes that wait this long now",
    ),
    "cadence.focus_at_most": Advice(
        "lower it to see sooner how a slow drain goes on",
        "the balance of a volume in focus costs up to $0.09 a month at 5m, and $0.43 at 1m. A bucket that"
        " stays empty is read every ten minutes, or for each reminder, unless it is that of a gp2 volume",
    ),
    "telemetry.too_new": Advice(
        "raise it if new volumes are often reported without data",
        "a new volume is in focus for this time",
        "a volume without a datapoint is not covered yet",
    ),
    "telemetry.gap_after": Advice(
        "lower it to hear of missing data sooner; raise it if CloudWatch has gaps that end by themselves",
        guarantee="a volume without datapoints is not covered, and this is how long that goes unreported",
    ),
    "levels.exhausted_pct": Advice("raise it if a volume with a few credits left should count as empty"),
    "levels.exhausted_leave_pct": Advice(
        "raise it if volumes are reported as recovered and are soon empty again",
        "the higher it is, the longer volumes stay in focus",
    ),
    "levels.critical_within": Advice(
        "raise it for an earlier page or flip; lower it if drains that end by themselves page people",
        "the higher it is, the more volumes are flipped, of those that wait for this level",
    ),
    "levels.critical_leave": Advice("raise it if volumes enter and leave the level repeatedly"),
    "levels.warning_within": Advice(
        "raise it to hear of slow drains earlier; lower it if too many warnings need no action",
        "a drain that would end within twice this time is polled every minute",
    ),
    "levels.warning_leave": Advice("raise it if volumes enter and leave the level repeatedly"),
    "levels.refilling_for": Advice(
        "raise it if a load with pauses ends alerts too early",
        "the higher it is, the longer volumes stay in focus",
    ),
    "alerts.remind_every": Advice("raise it if reminders are ignored; lower it if alerts are forgotten"),
    "alerts.digest_above": Advice("raise it if each alert should arrive by itself even in a large incident"),
    "alerts.runbooks_url": Advice(
        "to the address where your people can open the pages of `runbooks/`. Each page is expected there as"
        " `NAME.md`, unless the address says otherwise with `{page}` for the name: for the site of"
        " `make docs`, `https://docs.example.com/runbooks/{page}.html`. The alarms take it when the stack is"
        " deployed"
    ),
    "flip.target": Advice(
        "`io1` if gp3 does not exist in your zone; `io2` for its durability",
        "gp3 usually costs less than gp2; io1 with 3,000 IOPS adds $198 a month to 100 GiB",
    ),
    "flip.headroom_pct": Advice(
        "raise it if the load has peaks within a minute; lower it to save on io1 and io2",
        "on io1, 25 % of 3,000 IOPS is $48.75 a month",
    ),
    "flip.act_at": Advice(
        "`warning` gains minutes for every flip; `critical` flips as few volumes as possible",
        "at `warning`, drains that would end by themselves cause flips too",
        "polling stays the same, and an earlier flip is more likely to be ready in time",
    ),
    "flip.cooldown": Advice(
        "lower it if volumes must be flipped soon after a person changed them",
        guarantee="within this time, a volume is alerted and not flipped",
    ),
    "flip.quota_rule": Advice(
        "`six_hours` if AWS refuses a second modification within six hours",
        guarantee="with `six_hours`, a volume is flipped at most once in that time",
    ),
    "flip.fleet_cap": Advice(
        "raise it if refusals name `fleet_cap` and more flips are intended",
        "it limits how many volumes can add to the bill at once",
        _ALERT_ONLY,
    ),
    "flip.spend_cap_usd_per_month": Advice(
        "raise it if refusals name `spend_cap`; lower it to the most that a mistake may cost",
        "it limits what all flips under way can add to the bill",
        _ALERT_ONLY,
    ),
    "flip.draining_reserve_pct": Advice(
        "raise it if windows and critical tags use up the caps; lower it to give them more room",
        guarantee="it keeps room in the caps for volumes that drain",
    ),
    "flip.tag_cap_usd_per_month": Advice(
        "lower it if many people may set tags; raise it if a tagged volume needs more IOPS",
        "it limits what the tags of one volume can add to the bill",
        _ALERT_ONLY,
    ),
    "flip.change_hours": Advice(
        "if changes are allowed at certain hours only. People and windows are not bound by it",
        guarantee="at other hours, a volume is alerted and not flipped",
    ),
    "flip.io1_iops_limit": Advice(
        "to the account's quota at Service Quotas; `burstctl doctor` compares the two", guarantee=_ALERT_ONLY
    ),
    "flip.io2_iops_limit": Advice(
        "to the account's quota at Service Quotas; `burstctl doctor` compares the two", guarantee=_ALERT_ONLY
    ),
    "flip_back.return": Advice(
        "`always` if infrastructure code expects gp2; `never` to return volumes by hand only",
        "with `never`, io1 and io2 are paid for until a person returns them",
    ),
    "flip_back.calm_for": Advice(
        "raise it if volumes return between two jobs and drain again", _TARGET_LONGER
    ),
    "flip_back.calm_below_pct": Advice(
        "raise it if volumes with a steady load never return; lower it if they drain soon after a return",
        "the lower it is, the longer a target that costs more than gp2 is paid for",
        "at less than 100, a bucket that returns empty refills under the load that counted as calm",
    ),
    "flip_back.dwell": Advice("raise it to use fewer of AWS's four modifications a day", _TARGET_LONGER),
    "lead.least": Advice("to what `burstctl history` shows of small volumes", _TARGET_LONGER),
    "lead.per_tib": Advice("to what `burstctl history` shows of large volumes", _TARGET_LONGER),
    "lead.reserve": Advice("raise it if WindowMissed reports minutes", _TARGET_LONGER),
    "lead.at_most": Advice(
        "lower it if a weekly window keeps large volumes flipped for most of the week", _TARGET_LONGER
    ),
    "resources.ebs.watch": Advice(
        "`false`, to watch other kinds only",
        "volumes are no longer read",
        "volumes are not covered",
    ),
    "resources.ebs.types": Advice(
        "add `st1` and `sc1` if you have such volumes of less than 12.5 TiB",
        "a calm st1 volume of 1 TiB costs some $0.01 a month, less than a gp2 volume",
        "it holds for each type from its own highest drain",
    ),
    "resources.ebs.act_lead": Advice(
        "raise it if people need longer to move a volume to another type", _SHORTER_SWEEPS, _PERSON_LEAD
    ),
    "resources.instance.watch": Advice(
        "`true`, if instances have types that burst (most of up to `4xlarge`). The stage file must permit it",
        "nothing for a bucket that its volumes cannot drain, else up to $0.17 a month for an instance",
        "the buckets of instances are covered, except from a second load that begins within five minutes",
    ),
    "resources.instance.metric_lag": Advice(
        "raise it if `burstctl doctor` reports older datapoints",
        _SHORTER_SWEEPS,
        "it holds only while CloudWatch shows each period within this time",
    ),
    "resources.instance.act_lead": Advice(
        "raise it if people need longer to change an instance, lower it if many are in focus",
        _SHORTER_SWEEPS,
        _PERSON_LEAD,
    ),
    "resources.instance.critical_within": Advice("raise it for an earlier page"),
    "resources.instance.warning_within": Advice(
        "raise it to hear of slow drains earlier; lower it if too many warnings need no action"
    ),
    "resources.efs.watch": Advice(
        "`true`, if file systems are in bursting mode. The stage file must permit it",
        "$0.01 a month for a calm file system, nothing for one in another mode",
        "file systems in bursting mode are covered",
    ),
    "resources.efs.metric_lag": Advice(
        "raise it if `burstctl doctor` reports older datapoints",
        _SHORTER_SWEEPS,
        "it holds only while CloudWatch shows each period within this time",
    ),
    "resources.efs.act_lead": Advice(
        "raise it if people need longer to change a throughput mode", _SHORTER_SWEEPS, _PERSON_LEAD
    ),
    "resources.efs.critical_within": Advice("raise it for an earlier page"),
    "resources.efs.warning_within": Advice(
        "raise it to hear of slow drains earlier; lower it if too many warnings need no action"
    ),
    "resources.rds.watch": Advice(
        "`true`, if databases have gp2 storage, or classes that burst. The stage file must permit it",
        "up to $0.09 a month for the storage of a database, and up to $0.17 for a class that bursts",
        "the storage of databases and the buckets of their classes are covered",
    ),
    "resources.rds.act_lead": Advice(
        "raise it if people need longer to change a database", _SHORTER_SWEEPS, _PERSON_LEAD
    ),
}

WINDOW_KEYS: Final = {
    "cron": ("when it starts, as in cron(5): minute, hour, day, month, weekday", "`0 22 * * fri`"),
    "duration": ("how long it lasts, from `1m` to `28d`", "`8h`"),
    "zone": ("the time zone of `cron`, and of `from` and `to` without an offset", "`Europe/Berlin`"),
    "from": ("the start of a window with a date", "`2026-11-20T18:00`"),
    "to": ("its end, at most 366 days later", "`2026-11-21T06:00`"),
    "where": ("the tags of its volumes; all of them must match", "`tag:role=ci, tag:team`"),
    "size_gib": ("the sizes of its volumes", "`100-500`"),
}
"""What the settings of a window mean, with an example."""
