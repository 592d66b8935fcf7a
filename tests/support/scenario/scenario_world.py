"""The world of a scenario: one volume of the lab, AWS's clients in front of it, and people who act on it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from burstlab.fake_aws.in_process_clients import InProcessEc2, client_error
from burstlab.fault_injection import fault_models
from burstlab.fault_injection.clients import CloudWatch
from burstlab.fault_injection.effects import FaultInjector
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.instances.instance import LabInstance
from burstlab.model.volume import LabVolume
from burstwatch.core.ebs.volume import baseline_iops

VOLUME_ID = "vol-0a1"
INSTANCE_ID = "i-0a1"
SETTINGS = LabSettings(lag_s=120)
"""CloudWatch shows a minute three minutes after it began."""

_FAR_FUTURE_S = datetime(2030, 1, 1, tzinfo=UTC).timestamp()


@dataclass
class ScenarioWorld:
    """The volume as it really is, and how AWS behaves."""

    fleet: LabFleet
    size_gib: int
    read_error: str | None = None
    has_ticks: bool = True
    lists_modifications: bool = True
    next_answer_is_lost: bool = False
    next_modification_fails: bool = False
    shown_state: str | None = None
    is_empty: bool = False

    @classmethod
    def create(
        cls,
        *,
        starts_at: datetime,
        size_gib: int,
        tags: dict[str, str],
        balance_pct: float,
        instance: tuple[str, float] | None = None,
    ) -> "ScenarioWorld":
        """A volume that serves its baseline from ``starts_at`` on, so that its balance stays as it is.

        ``instance`` is the type of its instance with the balance of that bucket of I/O.
        """
        fleet = LabFleet(LabClock.manual(starts_at), SETTINGS)
        world = cls(fleet, size_gib)
        if instance is not None:
            instance_type, io_pct = instance
            fleet.add_instance(
                LabInstance(
                    instance_id=INSTANCE_ID,
                    launched_at=starts_at,
                    instance_type=instance_type,
                    tags={"Name": "build-host"},
                    io_pct=io_pct,
                )
            )
        fleet.add(
            LabVolume(
                volume_id=VOLUME_ID,
                size_gib=size_gib,
                tags=tags,
                balance_pct=balance_pct,
                instance_id=INSTANCE_ID,
                load=_writes(baseline_iops(size_gib)),
            )
        )
        return world

    @property
    def now_s(self) -> int:
        return self.fleet.now_s()

    def apply_event(self, event: str) -> None:
        """Let something happen to the volume or to AWS.

        Raises:
            ValueError: there is no such event.
        """
        for pattern, apply in _EVENTS.items():
            if match := re.fullmatch(pattern, event):
                apply(self, *match.groups())
                return
        raise ValueError(f"{event!r} is not an event; see tests/scenarios/README.md")

    def stop_telemetry(self) -> None:
        self.fleet.find(VOLUME_ID).gaps.append((self.now_s, _FAR_FUTURE_S))

    def resume_telemetry(self) -> None:
        gaps = self.fleet.find(VOLUME_ID).gaps
        gaps.append((gaps.pop()[0], self.now_s))

    def modify(self, volume_type: str, iops: str | None) -> None:
        """Make a modification that is not burstwatch's."""
        self.fleet.modify(VOLUME_ID, volume_type=volume_type, iops=int(iops) if iops else None)

    def pass_minute(self) -> Iterator[tuple[float, str]]:
        """Let a minute pass; yields what happens to the volume, and when, in seconds since 1970."""
        self.fleet.clock.advance(60)
        truth = self.fleet.truth(VOLUME_ID)
        if truth.dry_since is not None and not self.is_empty:
            served = baseline_iops(self.size_gib)
            yield truth.dry_since.timestamp(), f"the bucket is empty: {served} IOPS are served from here"
        self.is_empty = truth.dry_since is not None or (self.is_empty and truth.burst_balance_pct < 1)
        modification = self.fleet.find(VOLUME_ID).modification
        if modification is not None and modification.state != self.shown_state:
            self.shown_state = modification.state
            yield self.now_s, f"AWS: change to {modification.target.volume_type} {modification.state}"


def _writes(iops: object) -> str:
    return f"steady:{iops}%0"


_EVENTS: dict[str, Callable[..., object]] = {
    r"load (\d+) IOPS": lambda world, iops: world.fleet.set_load(VOLUME_ID, _writes(iops)),
    r"telemetry stops": ScenarioWorld.stop_telemetry,
    r"telemetry returns": ScenarioWorld.resume_telemetry,
    r"reads fail: (.+)": lambda world, error: setattr(world, "read_error", error),
    r"reads work": lambda world: setattr(world, "read_error", None),
    r"ticks (stop|return)": lambda world, action: setattr(world, "has_ticks", action == "return"),
    r"the instance stops": lambda world: world.fleet.stop_instance(INSTANCE_ID),
    r"the instance starts": lambda world: world.fleet.start_instance(INSTANCE_ID),
    r"the volume is detached": lambda world: world.fleet.detach(VOLUME_ID),
    r"the volume is attached to (\S+)": lambda world, instance: world.fleet.attach(VOLUME_ID, instance),
    r"\w+ makes it (\w+)(?: with (\d+) IOPS)?": ScenarioWorld.modify,
    r"the next ModifyVolume gets no answer": lambda world: setattr(world, "next_answer_is_lost", True),
    r"the next modification fails": lambda world: setattr(world, "next_modification_fails", True),
    r"AWS lists (no )?modifications": lambda world, no: setattr(world, "lists_modifications", not no),
    r"the end": lambda _: None,
}


class ScenarioEc2(InProcessEc2):
    """EC2; ``before_call`` is called before each ModifyVolume, ``record`` with the call and its answer."""

    def __init__(self, world: ScenarioWorld, before_call: Callable[[], None], record: Callable[[str], None]):
        super().__init__(world.fleet)
        self._world = world
        self._before_call = before_call
        self._record = record

    def describe_volumes_modifications(self, **request: Any) -> dict[str, Any]:
        if not self._world.lists_modifications:
            return {"VolumesModifications": []}
        return super().describe_volumes_modifications(**request)

    def modify_volume(self, **request: Any) -> dict[str, Any]:
        world = self._world
        self._before_call()
        outcome = "failed_early" if world.next_modification_fails else "completed"
        is_lost, world.next_answer_is_lost = world.next_answer_is_lost, False
        world.fleet.change_settings(modify_outcome=outcome)
        world.next_modification_fails = False
        parameters = [request["VolumeType"]]
        parameters += [f"{request['Iops']:,} IOPS"] if "Iops" in request else []
        parameters += [f"{request['Throughput']} MiB/s"] if "Throughput" in request else []
        call = f"ModifyVolume {', '.join(parameters)}"
        try:
            answer = super().modify_volume(**request)
        except ClientError as error:
            self._record(f"{call}: {error.response['Error']['Message']}")
            raise
        finally:
            world.fleet.change_settings(modify_outcome="completed")
        if is_lost:
            self._record(f"{call}: no answer")
            raise ReadTimeoutError(endpoint_url="https://ec2.us-east-1.amazonaws.com")
        state = answer["VolumeModification"]["ModificationState"]
        world.shown_state = state
        self._record(f"{call}: {state}")
        return answer


class ScenarioCloudWatch(CloudWatch):
    """CloudWatch, which may refuse to answer."""

    def __init__(self, world: ScenarioWorld) -> None:
        super().__init__(world.fleet, FaultInjector(world.fleet.clock), fault_models.GET_METRICS)
        self._world = world

    def get_metric_data(self, **request: Any) -> dict[str, Any]:
        if self._world.read_error is not None:
            code, _, message = self._world.read_error.partition(": ")
            raise client_error(code, message, 400, "GetMetricData")
        return super().get_metric_data(**request)
