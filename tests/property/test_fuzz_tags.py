"""Tags on volumes, which anybody may write, through to every place where they are shown."""

import csv
import html
import json
import random
import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from burstctl.cli.output import to_json
from burstctl.context.on_demand_pass import evaluate_fleet
from burstctl.render.resource_rows import select_rows
from burstctl.render.table import narrow_table, render_plain, wide_table
from burstctl.render.terminal_channel import TerminalChannel, render
from burstctl.watch.exporter_collector import FleetCollector
from burstctl.watch.exporter_http_server import _MetricsCollector
from burstctl.watch.loop import FinishedPass, PassStatus
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify import amazon_q, slack, sns
from burstwatch.adapters.notify.message import message_from_alert
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Mode, ModePolicy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.text import display_width
from support.aws.in_memory_aws import (
    DRAINING,
    GOOD_VOLUMES,
    NOW_S,
    CannedAws,
    a_described_volume,
    services_with,
)
from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_exhausted,
    add_lab_volume,
    add_warning,
    start_lab,
)
from support.delivery.fake_slack import assert_no_active_markup, assert_within_slacks_limits
from support.hostile_input import (
    HOSTILE_TEXTS,
    KNOWN_TAGS,
    OWN_TAGS,
    TIMES,
    assert_message,
    fuzz,
    is_plain,
    texts,
    within,
)

BAR = "░▏▎▍▌▋▊▉█"
PLACE = AwsLocation(region="us-east-1", account="123456789012")

keys = st.sampled_from(KNOWN_TAGS) | st.sampled_from(["CSIVolumeName", "kubernetes.io/cluster/x"]) | texts
tag_values = (
    st.sampled_from(HOSTILE_TEXTS) | texts | st.lists(st.sampled_from(HOSTILE_TEXTS), max_size=3).map("".join)
)
tags = st.dictionaries(keys, tag_values, max_size=6)
own_tags = st.dictionaries(
    st.sampled_from(OWN_TAGS) | texts,
    st.sampled_from(["auto", "observe", "true", "gp3", "io2", "16000"]) | tag_values,
)


@fuzz(75)
@given(
    tags | own_tags,
    st.sampled_from([*Mode]),
    st.none() | st.frozensets(st.from_regex(r"[a-z][a-z0-9-]{0,62}", fullmatch=True), max_size=9),
)
def test_tags_become_settings_within_the_policy_and_every_bad_one_a_short_fault(
    volume_tags, highest, windows
):
    settings = read_tags(volume_tags, ModePolicy(highest=highest), known_windows=windows)
    assert settings.mode.rank <= highest.rank
    assert settings.mode is not Mode.AUTO or volume_tags.get("burstwatch:mode") == "auto"
    assert settings.target_override.iops is None or 0 < settings.target_override.iops < 1_000_000
    for fault in settings.faults:
        assert_message(fault)


class RecordingChannel:
    """A channel that keeps what it is sent."""

    name = "kept"

    def __init__(self):
        self.alerts = []

    def send(self, alert):
        self.alerts.append(alert)


def report_for_tags(result):
    """A pass over a fleet in which one draining volume carries these tags, and what people were sent."""
    reported = [{"Key": key, "Value": value} for key, value in result.items()]
    aws, channel = (
        CannedAws(volumes=[a_described_volume(DRAINING, Tags=reported), *GOOD_VOLUMES[1:]]),
        RecordingChannel(),
    )
    with SqliteLedger.in_memory() as ledger:
        report = evaluate_fleet(services_with(aws, ledger, channels=[channel]), now_s=NOW_S)
    assert report.internal_errors == []
    return report, channel.alerts


@fuzz(30)
@given(tags | own_tags)
def test_tags_are_inert_wherever_shown(volume_tags):
    with within(5):
        report, alerts = report_for_tags(volume_tags)
    if volume_tags.get("burstwatch:ignore") != "true":
        assert alerts
    for alert in alerts:
        assert_alert_is_inert(alert)
    selection = select_rows([report], shows_all=True)
    for table in (wide_table(*selection, width=120, bar=BAR), narrow_table(*selection, bar=None)):
        visible = render_plain(table)
        assert is_plain(visible)
        assert all(display_width(line) <= 120 for line in visible.splitlines())
    standing = FleetCollector(version="1")
    standing.start_watch(PLACE, acts=False)
    standing.record_pass(
        FinishedPass(status=PassStatus.COMPLETE, started_at_s=NOW_S, duration_s=1.0, report=report)
    )
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(standing))
    exposed = generate_latest(registry).decode()
    families = {family.name: family for family in text_string_to_metric_families(exposed)}
    for sample in families["burstwatch_volume_info"].samples if "burstwatch_volume_info" in families else ():
        assert all(is_plain(label) and len(label) < 300 for label in sample.labels.values())


def assert_alert_is_inert(alert: Alert) -> None:
    lines = render(alert)
    assert all(is_plain(line) for line in lines)
    assert len("\n".join(lines)) < 20_000
    out = StringIO()
    TerminalChannel(out, environ={}).send(alert)
    assert is_plain(out.getvalue())
    payload = slack.render(alert)
    assert_within_slacks_limits(payload)
    assert_no_active_markup(payload)
    assert is_plain(
        json.dumps(amazon_q.render_custom_notification(message_from_alert(alert)), ensure_ascii=False)
    )
    assert is_plain(sns.render(alert))
    subject = sns._subject(alert)
    assert subject.isascii()
    assert subject.isprintable()
    assert 0 < len(subject) <= 100
    size = len(sns._message(alert, 200_000).encode())
    assert size <= 200_000
    repeated = Alert.from_document(json.loads(to_json(alert.to_document())))
    assert repeated == alert
    assert to_json(alert.to_document()).isascii()


# ---- from the CLI


FORMULA = re.compile(r"^[=+\-@\t\r]")


def some_tags(chance: random.Random) -> dict[str, str]:
    """What AWS takes as tags: no control characters, 256 long at most."""
    visible = [
        text
        for text in HOSTILE_TEXTS
        if all(c >= " " for c in text) and "\ud800" not in text and text.strip()
    ]
    named = chance.sample(["Name", *KNOWN_TAGS], 4)
    return {"Name": chance.choice(visible)[:256]} | {key: chance.choice(visible)[:256] for key in named}


@pytest.mark.parametrize("seed", range(min(TIMES, 20)))
def test_every_command_shows_hostile_tags_safely(cli, tmp_path, seed):
    chance = random.Random(seed)
    page = tmp_path / "fleet.html"
    with start_lab(cli) as lab:
        makers = [add_calm, add_warning, add_critical, add_exhausted]
        ids = [make(lab, "x", tags=some_tags(chance)) for make in makers]
        ids += [
            add_lab_volume(lab, text[:256], tags={})
            for text in ("=1+1", "<script>alert(1)</script>", "\u202egpj.exe")
        ]
        runs = {
            name: cli.run(*arguments)
            for name, arguments in {
                "assess": ["assess", "--all"],
                "watch": ["watch", "--once"],
                "json": ["assess", "--json"],
                "explain": ["explain", ids[2]],
                "advise": ["advise"],
                "csv": ["advise", "--csv"],
                "flip": ["flip", ids[2], "--dry-run"],
                "page": ["report", "--html", page, "--yes"],
            }.items()
        }
    for name, result in runs.items():
        assert "unexpected" not in result.err, f"{name}: {result.err}"
        assert "Traceback" not in result.err
        assert is_plain(result.out), name
        assert is_plain(result.err), name
    assert runs["json"].out.isascii()
    cells = [cell for row in csv.reader(StringIO(runs["csv"].out)) for cell in row]
    assert not [cell for cell in cells if FORMULA.match(cell) and not re.fullmatch(r"-?[\d.]+", cell)]
    assert_page_is_inert(page.read_text(encoding="utf-8"))


def assert_page_is_inert(text):
    """What is ours is allowed by its hash; no text of others makes an element, an attribute or an address."""
    assert "<script>alert" not in text
    assert "<img" not in text
    assert not re.search(r"<[^>]*\sonerror=", text)
    assert len(re.findall(r"<script\b", text)) == text.count("</script>") == 2
    assert "evil.example" not in "".join(re.findall(r"(?:href|src)=\"[^\"]*\"", text))
    visible = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert is_plain(html.unescape(visible).replace("\t", " "))
