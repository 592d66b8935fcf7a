"""What can be chosen about the lab, because AWS does not say it or because accounts differ."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, get_args, get_origin

from burstlab.model.minute_history import MINUTE_S
from burstlab.model.modification import STATES

MOMENTS: Final = ("accepted", "optimizing", "completed")
"""When something about a modification happens: with the answer, with its second state, or at its end."""

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "modify_outcome": ("completed", "failed", "failed_early", "stuck"),
    "modify_rule": ("four_per_day", "six_hours"),
    "rate_text": ("wait_until", "six_hours"),
    "uplift": ("accepted", "linear", "completed"),
    "target_shown_from": MOMENTS,
    "balance_switches": MOMENTS,
    "balance_after": ("kept", "refilled", "reset", "emptied"),
    "balance_after_resize": ("kept", "reset", "emptied"),
    "gp3_defaults": ("matched", "least"),
    "dry_run_checks": ("permission", "parameters", "state", "request"),
    "tag_condition": ("enforced", "ignored", "always refused"),
    "type_condition": ("current", "requested", "ignored", "absent"),
    "efs_mode_rule": ("any", "provisioned"),
    "exceeded_limit": ("ceiling", "baseline"),
}
_HOURS: Final = 24
_FIXED_SETTINGS: Final = frozenset(
    (
        "region",
        "account_id",
        "lag_s",
        "lag_most_s",
        "open_minute",
        "large_publish",
        "idle_publishes",
        "balance_every_s",
        "publishes_bytes",
        "queued",
        "seed",
        "exceeded_limit",
        "instance_reset_hour",
        "detailed_hides_balance",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSettings:
    """What is not established about AWS, or differs between accounts, and so can be chosen.

    Metrics. ``lag_s`` is how long after its minute a datapoint appears; with ``lag_most_s``, each delay is
    between the two, by ``seed``. ``open_minute`` shows the minute that is still filling. With
    ``balance_every_s``, only one minute in this many seconds has a balance (300: every five minutes).
    ``large_publish`` lets gp2 volumes that cannot burst (1,000 GiB and more) publish a balance of 100.
    ``idle_publishes=False`` publishes nothing for seconds without operations; ``publishes_bytes=False``
    leaves the bytes of operations to callers of PutMetricData. ``queued`` serves demand later that could
    not be served, instead of losing it. ``exceeded_limit`` is what the exceeded checks of a volume that lives
    on credits compare with: what it serves now, or its baseline.

    Instances. ``instance_reset_hour`` (UTC) is when their buckets are filled each day, if ever.
    ``detailed_hides_balance``: with detailed monitoring, no balances are published.

    Listings. ``filter_after_page`` cuts a page of all volumes and then filters it, as EC2 may: pages come
    short or empty, with a token. The filters named in ``filters_before_page`` (``tag:*`` for all tags) are
    still applied before the cut. Each page of a listing takes ``page_latency_s``.

    Course of a modification. It is ``modifying`` for at most ``modifying_s``, then ``optimizing`` for at most
    ``modify_minutes_per_tib`` (AWS: "up to 6 hours" for 1 TiB). Sizes below 16 GiB and above 4 TiB count as
    those. Both are shortened by up to the share ``modify_spread``, by ``seed``. ``modify_outcome``:
    ``failed`` half-way through optimizing, ``failed_early`` before it, ``stuck`` in it until
    ``LabFleet.end_modification``. ``uplift`` is when the new performance is effective. ``target_shown_from``
    is when DescribeVolumes shows the new type and rates (a new size always from optimizing on).
    ``balance_switches`` is when BurstBalance stops or starts. ``balance_after`` is the bucket on the return
    to gp2: as it was, ``refilled`` at the baseline in the meantime, ``reset`` to full, or ``emptied``.

    What is refused. ``modify_rule``: four starts in 24 hours, or the older one in six; ``failed_counts`` and
    ``no_op_counts`` say what is counted, ``rate_text`` how the refusal is worded. ``modify_needs_tag`` (key
    and value) plays an IAM condition on the caller of the API. ``gp3_defaults``: what a change to gp3 has
    that names no rates, as the gp2 had or the least. ``io1_iops_quota`` and so on are the account's quotas.
    ``rate_code`` and ``rate_message`` replace the words of the refusal (``{volume}`` and ``{until}`` are
    filled in), ``attach_code`` and ``attach_message`` are those of an attachment while ``modifying``, which
    ``attach_refused=False`` allows. ``no_op_code`` refuses a modification that changes nothing.

    Conditions. ``tag_condition`` and ``type_condition`` are what ec2:ResourceTag and ec2:VolumeType do in the
    policy of an assumed role. ``alarms_deliver`` lets alarms publish to topics with a customer key.

    Read-back and events. ``record_days`` is how long a finished modification is remembered (None: for ever).
    ``modify_event_results`` are the states that raise an event. Every n-th event is lost
    (``lose_event_every``), duplicated, or delayed until after its successor, by one setting each.
    ``has_trail``: a detach raises an event as well.

    EFS and RDS. A file system is ``updating`` for ``efs_updating_s``. ``efs_mode_rule``: the 24 hours after a
    change hold for every mode, or only for provisioned mode. The storage of a database is changed within the
    same times as a volume. RDS-EVENT-0189 is sent ``rds_event_delay_s`` after the balance of gp2 storage
    fell to ``rds_event_below_pct``. With ``double_datapoint_every``, CloudWatch returns every n-th datapoint
    of these services twice.
    """

    region: str = "us-east-1"
    account_id: str = "123456789012"
    lag_s: float = 0.0
    lag_most_s: float | None = None
    open_minute: bool = False
    large_publish: bool = False
    idle_publishes: bool = True
    publishes_bytes: bool = True
    balance_every_s: int = 60
    queued: bool = False
    seed: int = 0
    exceeded_limit: str = "ceiling"

    instance_reset_hour: int | None = None
    detailed_hides_balance: bool = False

    filter_after_page: bool = False
    filters_before_page: tuple[str, ...] = ()
    page_latency_s: float = 0.0

    modifying_s: float = 60.0
    modify_minutes_per_tib: float = 360.0
    modify_spread: float = 0.5
    modify_outcome: str = "completed"
    uplift: str = "linear"
    target_shown_from: str = "optimizing"
    balance_switches: str = "completed"
    balance_after: str = "kept"
    balance_after_resize: str = "kept"

    modify_rule: str = "four_per_day"
    rate_text: str = "wait_until"
    rate_code: str = "VolumeModificationRateExceeded"
    rate_message: str | None = None
    failed_counts: bool = True
    no_op_counts: bool = True
    no_op_code: str | None = None
    attach_refused: bool = True
    attach_code: str = "OperationNotPermitted"
    attach_message: str = "Cannot attach volume {volume} when it is in modification state: MODIFYING"
    gp3_defaults: str = "matched"
    dry_run_checks: str = "permission"
    modify_needs_tag: tuple[str, str] | None = None
    tag_condition: str = "enforced"
    type_condition: str = "current"
    alarms_deliver: bool = True
    managed_code: str = "UnsupportedOperation"
    ratio_code: str = "InvalidParameterValue"
    io1_iops_quota: int = 300_000
    io2_iops_quota: int = 100_000
    io1_modify_iops_quota: int = 500_000
    io2_modify_iops_quota: int = 100_000
    modify_storage_quota_gib: int = 500 * 1024
    io2_modify_storage_quota_gib: int = 20 * 1024

    record_days: float | None = None
    modify_event_results: tuple[str, ...] = STATES
    has_trail: bool = True
    lose_event_every: int | None = None
    double_event_every: int | None = None
    swap_event_every: int | None = None

    efs_updating_s: float = 30.0
    efs_mode_rule: str = "any"
    rds_event_below_pct: float = 10.0
    rds_event_delay_s: float = 900.0
    double_datapoint_every: int | None = None

    def __post_init__(self) -> None:
        self._check_metrics()
        for name, choices in _CHOICES.items():
            _check_choice(name, getattr(self, name), choices)
        for result in self.modify_event_results:
            _check_choice("modify_event_results", result, STATES)
        for name in (
            "modifying_s", "modify_minutes_per_tib", "page_latency_s", "efs_updating_s",
            "rds_event_below_pct", "rds_event_delay_s",
        ):  # fmt: skip
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}: give a number, 0 or more")
        if not 0 <= self.modify_spread <= 1:
            raise ValueError(f"modify_spread is {self.modify_spread}: give a share, 0 to 1")
        for name in (
            "lose_event_every", "double_event_every", "swap_event_every", "double_datapoint_every",
        ):  # fmt: skip
            interval = getattr(self, name)
            if interval is not None and interval < 1:
                raise ValueError(f"{name} is {interval}: give 1 (every event) or more, or none")

    def _check_metrics(self) -> None:
        if self.lag_s < 0 or (self.lag_most_s is not None and self.lag_most_s < self.lag_s):
            raise ValueError(
                f"lag_s is {self.lag_s}, lag_most_s {self.lag_most_s}: give 0 <= lag_s <= lag_most_s"
            )
        if self.instance_reset_hour is not None and not 0 <= self.instance_reset_hour < _HOURS:
            raise ValueError(
                f"instance_reset_hour is {self.instance_reset_hour}: give an hour, 0 to 23, or none"
            )
        if self.balance_every_s < MINUTE_S or self.balance_every_s % MINUTE_S:
            raise ValueError(f"balance_every_s is {self.balance_every_s}: give whole minutes, such as 300")


def changeable_settings() -> list[str]:
    """The settings that can be changed in a running fleet."""
    return [field.name for field in fields(LabSettings) if field.name not in _FIXED_SETTINGS]


def with_changes(settings: LabSettings, changes: Mapping[str, Any]) -> LabSettings:
    """The settings with some of them changed, as JSON gives them.

    Raises:
    ValueError: with the setting that is unknown, cannot change in a running fleet, or has a wrong value.
    """
    changeable: dict[str, Any] = {
        field.name: field.type for field in fields(settings) if field.name not in _FIXED_SETTINGS
    }
    for name, value in changes.items():
        if name in _FIXED_SETTINGS:
            raise ValueError(f"{name} cannot be changed while the fleet lives: start another one with it")
        if name not in changeable:
            raise ValueError(f"there is no setting {name}: give some of {', '.join(changeable)}")
        if not _matches_type(value, changeable[name]):
            type_name = changeable[name].__name__ if isinstance(changeable[name], type) else changeable[name]
            raise ValueError(f"{name} is {value!r}: it must be {type_name}")
    new_values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()
    }
    return replace(settings, **new_values)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}: give one of {', '.join(choices)}")


def _matches_type(value: object, annotation: Any) -> bool:
    """Whether a JSON value has the type of ``annotation``."""
    if get_origin(annotation) is tuple:
        length = None if Ellipsis in get_args(annotation) else len(get_args(annotation))
        return (
            isinstance(value, list | tuple)
            and all(isinstance(part, str) for part in value)
            and length in (None, len(value))
        )
    if get_args(annotation):
        return any(_matches_type(value, part) for part in get_args(annotation))
    return type(value) in ((int, float) if annotation is float else (annotation,))
