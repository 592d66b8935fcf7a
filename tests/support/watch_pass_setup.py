"""Watch passes against the lab, tick by tick."""

from datetime import timedelta

from boto3.session import Session

from burstlab.fake_aws.server import ACCESS_KEY
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_services

PAST = timedelta(hours=1)


class RecordingChannel:
    """A channel that keeps what it is sent, and fails on demand."""

    name = "recorder"

    def __init__(self):
        self.alerts = []
        self.is_broken = False

    def send(self, alert):
        if self.is_broken:
            raise ChannelError("the line is dead; wait", is_permanent=False)
        self.alerts.append(alert)

    @property
    def alert_kinds(self):
        return [alert.kind for alert in self.alerts]


def services_with(lab, ledger, *channels, policy=None):
    session = Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1")
    return build_services(
        session,
        endpoint_url=lab.url,
        policy=policy or Policy(),
        ledger=ledger,
        channels=channels,
        account="123456789012",
    )


def warm_up(lab):
    lab.clock.advance(PAST.total_seconds())


def tick(shell, lab, minutes=0):
    lab.clock.advance(60 * minutes)
    now_s = lab.fleet.now_s()
    return run_tick(shell, tick_at_s=now_s, now_s=now_s)
