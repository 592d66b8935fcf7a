"""A region whose volumes are listed page by page."""

from boto3.session import Session

from burstlab.fake_aws.server import ACCESS_KEY
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_services
from support.lab.lab_start import START

START_S = int(START.timestamp())


class Region:
    """Pages of one volume; ``on_page`` may let time pass, or do what another process does at that time."""

    def __init__(self, endpoint, ledger):
        self.fleet, self.ledger = endpoint.fleet, ledger
        session = Session(
            aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1"
        )
        self.shell = build_services(
            session,
            endpoint_url=endpoint.url,
            policy=Policy(),
            ledger=ledger,
            channels=(),
            account="123456789012",
        )
        self.time_s = float(START_S)
        self.per_page_s = 0.0
        self.on_page = lambda: None
        volumes = self.shell.ec2.volumes

        def slow_volumes(filters, *, report_failure, on_page):
            def turn_page():
                self.time_s += self.per_page_s
                self.on_page()
                on_page()

            return volumes(filters, report_failure=report_failure, on_page=turn_page)

        self.shell.ec2.volumes = slow_volumes

    def tick(self, kind, minute=None):
        now_s = self.time_s if minute is None else START_S + 60 * minute
        self.time_s = max(self.time_s, now_s)
        return run_tick(self.shell, tick_at_s=int(now_s // 60) * 60, now_s=now_s, kind=kind)
