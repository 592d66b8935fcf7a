import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest

from burstctl.main import main
from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import Endpoint
from burstlab.fake_aws.slack import SlackReceiver
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from support.paths import ROOT
from support.runbooks.aws_command import serve_aws_command
from support.runbooks.checkout import Checkout, check_shown
from support.runbooks.fake_aws_cli import FakeAwsCli
from support.stack.deployed_scenario import MINUTE_S, TIMEOUT_S, effects
from support.waiting import wait_until

JSII_PACKAGES = Path.home() / ".cache" / "aws" / "jsii" / "package-cache"
"""Where jsii unpacks the CDK once for all who have this home; the story's home is new each time."""


BURSTCTL = [sys.executable, "-c", "import sys; from burstctl.main import main; sys.exit(main())"]


MIN_WAIT_S = 1.0
"""Wall seconds a simulated minute takes at least: no more than sixty times as fast as life."""


STARTED_AGO = timedelta(minutes=150)
"""How far in the past the story begins, so that its end is before now, where the schedule takes over."""


PAST = timedelta(minutes=40)


BUSY = "nab_c0d644*16+792300"
"""A recorded disk, sixteen times: 35 minutes at about 2,000 operations a second, then next to none."""


class DeployedScenario:
    """Who plays, and what was seen of them."""

    def __init__(self, aws, endpoint, slack, other_slack, folder):
        self.checkout = Checkout(folder, environment_of(aws))
        self.aws, self.endpoint, self.slack, self.other_slack = aws, endpoint, slack, other_slack
        self.fleet, self.clock = endpoint.fleet, endpoint.clock
        self.stage = None
        self.second = None
        self.began_at = self.clock.now()
        # 64 GiB: an io1 of 50 IOPS a GiB is as fast as the burst, so the policy's io1 is what it gets
        self.builds = self.add_volume("builds", 64, 50, {"burstwatch:mode": "auto"})
        self.cache = self.add_volume("cache", 33, 60, {"burstwatch:mode": "auto", "burstwatch:target": "gp3"})
        self.reports = self.add_volume("reports", 33, 45, {})
        self.frozen = self.add_volume("frozen", 33, 55, {"burstwatch:mode": "auto"})

    def add_volume(self, name, size_gib, balance_pct, tags):
        volume = LabVolume(
            size_gib=size_gib,
            balance_pct=balance_pct,
            load=f"steady:{max(100, 3 * size_gib)}",
            tags={"Name": name, **tags},
            starts_at=self.began_at - PAST,
        )
        volume_id = self.fleet.add(volume)
        self.fleet.set_load(volume_id, BUSY, self.began_at)
        return volume_id

    def paste(self, line):
        """Run a command as its page has it; its output must be the one below it."""
        code, text = self.checkout.paste(line, within_s=900)
        assert code == 0, "\n".join([f"$ {line.text}", *text[-30:]])
        check_shown(line, text)
        return "\n".join(text)

    def run_minute(self):
        """Where in the story we are."""
        return round((self.clock.now_s() - self.began_at.timestamp()) / MINUTE_S)

    def run_until(self, until, *, on_tick=lambda: None):
        """Let time pass up to this minute: the schedule ticks, EBS sends events, functions run."""
        while self.run_minute() < until:
            started_at_s = time.monotonic()
            self.clock.advance(MINUTE_S)
            for event in self.stage.forward_events():
                self.is_settled_at_once(event)
            self.stage.stuck_requests = 1 - self.stage.count_messages(self.stage.dead_letter_queue_url)
            self.stage.tick()
            on_tick()
            time.sleep(max(0.0, MIN_WAIT_S - (time.monotonic() - started_at_s)))

    def is_settled_at_once(self, event):
        """A modification that completed is in the ledger before any tick."""
        detail = event["detail"]
        if (detail["event"], detail["result"]) == ("modifyVolume", "completed"):
            volume_id = event["resources"][0].rpartition("/")[2]
            wanted = "restored" if self.fleet.find(volume_id).volume_type == "gp2" else "reached"
            wait_until(lambda: wanted in effects(self.history(volume_id)), failure=f"not {wanted}")

    def history(self, volume_id):
        """What burstctl says of a volume; in this process, because it is asked again and again."""
        options = ["--ledger", self.stage.ledger, "--policy", str(ROOT / "policy.yaml")]
        with (
            patch.dict(os.environ, self.stage.environment, clear=True),
            redirect_stdout(StringIO()) as output,
        ):
            assert main([*options, "history", volume_id, "--json"]) == 0
        return json.loads(output.getvalue())["entries"]

    def burstctl(self, *arguments, exits=(0,)):
        completed = subprocess.run(
            [*BURSTCTL, *arguments],
            env=self.stage.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert completed.returncode in exits, (
            f"burstctl {arguments}: {completed.returncode}\n{completed.stdout}{completed.stderr}"
        )
        return completed

    def volume_types(self, volume_id):
        """The final configuration of a volume, as AWS has it."""
        return [modification.target.volume_type for modification in self.fleet.modifications(volume_id)]

    def wait_for_slack(self, *arguments, within_s=TIMEOUT_S):
        """The message in Slack in which all these words stand, in whatever case."""
        message = self.slack.wait_for(
            lambda m: all(word.casefold() in m.full_text.casefold() for word in arguments), timeout_s=within_s
        )
        reported = "\n".join(m.text for m in self.slack.all_messages)
        assert message, f"no message with {arguments} among {len(self.slack.all_messages)}:\n{reported}"
        return message


@pytest.fixture
def scenario(tmp_path):
    now = datetime.now(UTC)
    began_at = (now - STARTED_AGO).replace(
        minute=(now - STARTED_AGO).minute // 5 * 5, second=0, microsecond=0
    )
    clock = LabClock.manual(began_at - PAST)
    with (
        LocalAws(directory=tmp_path / "aws") as aws,
        Endpoint(LabFleet(clock, LabSettings(lag_s=60, account_id=aws.account))) as endpoint,
        SlackReceiver() as slack,
        SlackReceiver() as other_slack,
    ):
        clock.advance(PAST.total_seconds())
        yield DeployedScenario(aws, endpoint, slack, other_slack, clone_repository(tmp_path))


def environment_of(aws):
    """What somebody has who deploys there, and a cdk that asks no one else."""
    silence = {"CDK_DISABLE_CLI_TELEMETRY": "true", "CDK_DISABLE_VERSION_CHECK": "true"}
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    silence["CDK_VALIDATION"] = "false"  # of the templates, which tests/infra looks at
    own = {"CDK_HOME": str(aws.directory), "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(JSII_PACKAGES)}
    return {**aws.environment, **silence, **own, "PATH": path}


def clone_repository(folder):
    """A folder to pull into: there is a commit above it that it has not."""
    upstream, clone = folder / "upstream", folder / "burstwatch"
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]

    def git(*arguments):
        subprocess.run(["git", *who, *arguments], check=True, capture_output=True, timeout=60)

    git("init", "--quiet", upstream)
    git("-C", upstream, "commit", "--quiet", "--allow-empty", "--message", "old")
    git("clone", "--quiet", upstream, clone)
    (upstream / "NEWS").write_text("what an upgrade brings\n")
    git("-C", upstream, "add", "NEWS")
    git("-C", upstream, "commit", "--quiet", "--message", "new")
    return clone


@pytest.fixture(scope="module")
def aws():
    with LocalAws() as running:
        yield running


def path_with(folder):
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="module")
def aws_command(aws, tmp_path_factory):
    """The folder of an ``aws`` command, for machines that have none; what it does is done in this process."""
    folder = tmp_path_factory.mktemp("bin")
    with serve_aws_command(FakeAwsCli(aws.client), folder):
        yield folder


@pytest.fixture
def shell(aws, aws_command, tmp_path):
    """Runs a command line with the credentials of the local AWS, and an ``aws`` command."""
    environment = {**os.environ, **aws.environment, "PATH": path_with(aws_command)}

    def run(line, code=0):
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run
