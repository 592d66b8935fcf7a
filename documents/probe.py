"""What ddprobe writes; it does not import these types, and the tests compare its output with the schemas."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from documents.shared import Positive, VolumeId

Milliseconds = list[float]
PreciseInstant = TypeAliasType(
    "PreciseInstant",
    Annotated[
        str,
        Field(
            pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z$",
            description="ISO 8601 in UTC, to the millisecond.",
        ),
    ],
)


class StuckTaskDocument(TypedDict):
    comm: str
    wchan: str
    count: Positive


class StallDocument(TypedDict):
    """A stall that a host reports.

    The detail of ddprobe's EventBridge event, source burstwatch.ddprobe, detail-type stall; at most 4 KB.
    """

    schema: Literal["burstwatch.probe/v1"]
    instance_id: Annotated[str, Field(pattern="^i-([0-9a-f]{8}|[0-9a-f]{17})$")]
    volume_id: VolumeId
    verdict: str
    cause: str
    total_s: Annotated[float, Field(ge=0)] | None
    started_at: str
    top: list[StuckTaskDocument]


class DiskDocument(TypedDict):
    """What one disk did in a span of time."""

    disk: str
    seconds: float
    done: int
    writes: int
    flushes: int
    written_kib: float
    await_ms: float | None
    in_flight: int
    in_flight_max: int
    queue: float
    busy_pct: float
    quiet_s: float
    per_s: float


class WaitingTaskDocument(TypedDict):
    comm: str
    wchan: str
    unit: str
    here: bool
    count: int


class TasksDocument(TypedDict):
    """What passes over all threads saw of state D."""

    passes: int
    pass_ms: float
    hidden: bool
    most: int
    most_here: int
    distinct: int
    main_only: int
    stuck: int
    stuck_here: int
    stuck_wchan: str
    slow: int
    unattributed: int
    own_seen: int
    own_in_d: int
    own_wchan: str
    top: list[WaitingTaskDocument]


class ProbeCostDocument(TypedDict):
    writes: float
    flushes: float
    credits: float


class ReadingDocument(TypedDict):
    """One reading of ddprobe.

    Each line that ddprobe writes with --json. Absent numbers are null, keys never disappear.
    """

    schema: Literal["burstwatch.reading/v1"]
    time: PreciseInstant
    host: str
    instance_id: str | None
    volume_id: str | None
    volume_ids: list[str]
    path: str
    mount: str
    fs: str
    device: str
    disks: list[str]
    level: Literal["lite", "classic", "ladder", "passive"]
    reached: Literal["lite", "classic", "passive"]
    engine: Literal["inproc", "dd"]
    verdict: Literal["ok", "warn", "crit", "unknown"]
    cause: Literal[
        "ok",
        "throttled",
        "exhausted_idle",
        "stalled",
        "frozen_or_lock",
        "io_error",
        "not_this_disk",
        "not_measured",
        "unknown",
    ]
    reason: str
    completed: bool
    started_at: PreciseInstant
    stuck_since: PreciseInstant | None
    total_s: float | None
    dd_s: float | None
    dd_measured: bool
    dd_at_least: bool
    io_delay_ms: float | None
    healthy_s: float | None
    ratio: float | None
    open_ms: float | None
    write_ms: Milliseconds
    lite_ms: Milliseconds
    bulk_ms: Milliseconds
    append_ms: Milliseconds
    close_ms: float | None
    cpu_wait_ms: float
    startup_ms: float
    error: str | None
    disk: DiskDocument | None
    before: DiskDocument | None
    pressure_ms: dict[str, float] | None
    nvme: dict[str, float] | None
    dstate: TasksDocument | None
    observer_hung: bool
    cost: ProbeCostDocument
    credits_total: float
    skipped: list[str]
    state_in_memory: bool
    version: str
