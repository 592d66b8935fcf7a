"""Passes of a machine whose clock is wrong."""

from datetime import UTC, datetime
from types import SimpleNamespace

from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from support.builders.functions import AUTO
from support.cli.cli_session import add_calm

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


FAST_POLICY = {
    "flip": {"cooldown": "4m"},
    "flip_back": {"dwell": "5m", "calm_for": "5m", "return": "always"},
    "lead": {"least": "5m", "reserve": "10m", "per_tib": "10m"},
}


VOLUME = "vol-00000000000000001"


class ClockScenario:
    """A fleet, the watchdog that watches it, and its alerts; the lab's clock is AWS's."""

    def __init__(self, ledger, begins_at=NOON, **policy):
        quick = LabSettings(lag_s=60, modifying_s=20, modify_minutes_per_tib=1, modify_spread=0)
        self.fleet = LabFleet(LabClock.manual(begins_at), quick)
        self.alerts = []
        ec2 = InProcessEc2(self.fleet)
        self.shell = Services(
            ec2=Ec2Reader(ec2),
            cloudwatch=InProcessCloudWatch(self.fleet),
            ledger=ledger,
            calls=CallCounter(),
            policy=Policy.from_mapping({"version": "1", **FAST_POLICY, **policy}),
            location=AwsLocation(region="us-east-1"),
            channels=[SimpleNamespace(name="people", send=self.alerts.append)],
            modifier=Ec2Modifier(ec2),
        )

    def add(self, volume_id=VOLUME, load="idle", size_gib=100, balance_pct=100.0, **tags):
        volume_tags = {f"burstwatch:{key}": value for key, value in tags.items()}
        self.fleet.add(
            LabVolume(
                volume_id=volume_id, size_gib=size_gib, load=load, balance_pct=balance_pct, tags=volume_tags
            )
        )

    def advance(self, seconds=60.0):
        self.fleet.clock.advance(seconds)

    def tick(self, off_s=0.0, *, shell=None):
        """What the loop of a watch does whose machine's clock is off by so much."""
        now_s = self.fleet.clock.now_s() + off_s
        return run_tick(shell or self.shell, tick_at_s=int(now_s // 60) * 60, now_s=now_s)

    def ticks(self, minutes):
        for _ in range(minutes):
            self.advance()
            self.tick()

    def kinds(self, volume_id=VOLUME):
        return [alert.kind for alert in self.alerts if alert.volume_id == volume_id]

    def modification_targets(self, volume_id=VOLUME):
        return [
            (modification.target.volume_type, modification.started_at)
            for modification in self.fleet.modifications(volume_id)
        ]

    def evaluated_volumes(self, report):
        return {decision.volume_id for decision in report.decisions} if report else set()


def add_flip_candidate(lab):
    """A volume that must off its credits at once, whatever its balance."""
    return add_calm(lab, tags=AUTO | {"burstwatch:critical": "true"})
