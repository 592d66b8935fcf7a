"""A way to run the watchdog, and its services on the simulated clock."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from burstlab.fault_injection import fault_models
from burstlab.fault_injection.clients import CloudWatch, Ec2
from burstlab.fault_injection.effects import FaultModel
from burstlab.fault_injection.world import POLICY, FaultWorld
from burstlab.harness.deterministic import SimulatedServices, parse_policy_once
from burstlab.harness.effects import ProcessKilled
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.drain_metrics import DrainMetricsReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.location import AwsLocation

REGION: Final = "us-east-1"
ACCOUNT: Final = "123456789012"


class Deployment(ABC):
    """A way to run; ``ledger`` is for who judges, and none of what it does is an effect."""

    name: str
    ledger: Ledger

    def __init__(self, world: FaultWorld) -> None:
        self._world = world

    @abstractmethod
    def run_minute(self, tick_s: int) -> None:
        """Do what is due at a whole minute."""

    @abstractmethod
    def run_operator_change(self, change: Callable[[Any], object]) -> bool:
        """A person changes the ledger; False if that failed and must be repeated."""

    @abstractmethod
    def deliver_event(self, event: Mapping[str, Any]) -> None:
        """An event comes from EventBridge."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits between its parts."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Close everything that is open."""

    def run_process(
        self, work: Callable[[], object], *, restart: Callable[[], object] = lambda: None
    ) -> bool:
        """Whether a process did its work to the end."""
        try:
            work()
        except ProcessKilled:
            restart()
        except BurstwatchError:
            self._world.failed_passes += 1
        except Exception as error:  # noqa: BLE001 - judged as a mistake of the product's
            self._world.internal_errors.append(f"{type(error).__name__}: {error}")
        else:
            return True
        return False

    def make_services(self, ledger: Ledger, ec2: Any, channels: Any, **extra: Any) -> SimulatedServices:
        """The services of a process, whose clients can be made to fail."""
        return SimulatedServices(
            ec2=Ec2Reader(ec2),
            cloudwatch=CloudWatchReader(
                self._cloudwatch(fault_models.GET_METRICS), workers=1, sleep=skip_sleep
            ),
            drain_metrics_reader=DrainMetricsReader(self._cloudwatch(fault_models.GET_DRAIN_METRICS)),
            ledger=ledger,
            calls=CallCounter(),
            policy=parse_policy_once(POLICY.encode(), source="the campaign's policy"),
            location=AwsLocation(region=REGION, account=ACCOUNT),
            channels=channels,
            clock=self._world.fleet.clock.now_s,
            **extra,
        )

    def make_ec2(self) -> Any:
        return Ec2(self._world.fleet, self._world.injector, self._world.record_modify)

    def _cloudwatch(self, model: FaultModel) -> Any:
        return CloudWatch(self._world.fleet, self._world.injector, model)


def skip_sleep(_: float) -> None:
    """Simulated time does not go by in pauses of milliseconds."""
