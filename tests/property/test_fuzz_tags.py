"""Tags on volumes, which anybody may write, through to every place where they are shown."""

import csv
import html
import json
import random
import re
from io import StringIO

import pytest
from fake_slack import assert_within_slacks_limits
from from_outside import KNOWN_TAGS, OWN_TAGS, TIMES, WEIRD, assert_tells, fuzz, is_plain, texts, within
from hypothesis import given
from hypothesis import strategies as st
from operators_desk import OperatorsDesk, a_lab, add, add_calm, add_critical, add_exhausted, add_warning
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from test_alert_slack import assert_inert

from burstctl.cli.output import to_json
from burstctl.render.table import narrow_table, render_plain, wide_table
from burstctl.watch.exporter_collector import Standing
from burstctl.watch.exporter_http_server import _Readings
from burstctl.watch.loop import PassEnded, PassResult
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify import amazon_q, slack, sns
from burstwatch.adapters.notify.message import notice_of
from burstwatch.adapters.notify.terminal import TerminalChannel, render
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import Mode, ModePolicy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.text import columns
from burstwatch.engine.watch_pass import look_at_everything
from telling_aws import DRAINING, GOOD, NOW_S, Telling, a_shell, a_told_volume

BAR = "░▏▎▍▌▋▊▉█"
PLACE = Place(region="us-east-1", account="123456789012")

keys = st.sampled_from(KNOWN_TAGS) | st.sampled_from(["CSIVolumeName", "kubernetes.io/cluster/x"]) | texts
tag_values = st.sampled_from(WEIRD) | texts | st.lists(st.sampled_from(WEIRD), max_size=3).map("".join)
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
def test_tags_are_wishes_within_the_policy_and_every_bad_one_is_a_short_fault(found, highest, windows):
    wishes = read_tags(found, ModePolicy(highest=highest), known_windows=windows)
    assert wishes.mode.rank <= highest.rank
    assert wishes.mode is not Mode.AUTO or found.get("burstwatch:mode") == "auto"
    assert wishes.target.iops is None or 0 < wishes.target.iops < 1_000_000
    for fault in wishes.faults:
        assert_tells(fault)


class Kept:
    """A channel that keeps what it is sent."""

    name = "kept"

    def __init__(self):
        self.alerts = []

    def send(self, alert):
        self.alerts.append(alert)


def looked_at(found):
    """A pass over a fleet in which one draining volume carries these tags, and what people were sent."""
    told = [{"Key": key, "Value": value} for key, value in found.items()]
    aws, kept = Telling(volumes=[a_told_volume(DRAINING, Tags=told), *GOOD[1:]]), Kept()
    with SqliteLedger.in_memory() as ledger:
        report = look_at_everything(a_shell(aws, ledger, channels=[kept]), now_s=NOW_S)
    assert report.bugs == []
    return report, kept.alerts


@fuzz(30)
@given(tags | own_tags)
def test_no_tag_does_anything_wherever_it_is_shown(found):
    with within(5):
        report, alerts = looked_at(found)
    if found.get("burstwatch:ignore") != "true":
        assert alerts
    for alert in alerts:
        assert_told_safely(alert)
    for table in (
        wide_table(report, width=120, everything=True, bar=BAR),
        narrow_table(report, everything=True, bar=None),
    ):
        shown = render_plain(table)
        assert is_plain(shown)
        assert all(columns(line) <= 120 for line in shown.splitlines())
    standing = Standing(version="1")
    standing.watch(PLACE, acts=False)
    standing.take(PassEnded(result=PassResult.COMPLETE, at_s=NOW_S, took_s=1.0, report=report))
    registry = CollectorRegistry()
    registry.register(_Readings(standing))
    exposed = generate_latest(registry).decode()
    families = {family.name: family for family in text_string_to_metric_families(exposed)}
    for sample in families["burstwatch_volume_info"].samples if "burstwatch_volume_info" in families else ():
        assert all(is_plain(label) and len(label) < 300 for label in sample.labels.values())


def assert_told_safely(alert: Alert) -> None:
    lines = render(alert)
    assert all(is_plain(line) for line in lines)
    assert len("\n".join(lines)) < 20_000
    out = StringIO()
    TerminalChannel(out, environ={}).send(alert)
    assert is_plain(out.getvalue())
    payload = slack.render(alert)
    assert_within_slacks_limits(payload)
    assert_inert(payload)
    assert is_plain(json.dumps(amazon_q.render_chat(notice_of(alert)), ensure_ascii=False))
    assert is_plain(sns.render(alert))
    subject = sns._subject(alert)
    assert subject.isascii()
    assert subject.isprintable()
    assert 0 < len(subject) <= 100
    size = len(sns._message(alert, 200_000).encode())
    assert size <= 200_000
    again = Alert.from_document(json.loads(to_json(alert.to_document())))
    assert again == alert
    assert to_json(alert.to_document()).isascii()


# ---- at an operator's desk


FORMULA = re.compile(r"^[=+\-@\t\r]")


def some_tags(chance: random.Random) -> dict[str, str]:
    """What AWS takes as tags: no control characters, 256 long at most."""
    shown = [text for text in WEIRD if all(c >= " " for c in text) and "\ud800" not in text and text.strip()]
    named = chance.sample(["Name", *KNOWN_TAGS], 4)
    return {"Name": chance.choice(shown)[:256]} | {key: chance.choice(shown)[:256] for key in named}


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("seed", range(min(TIMES, 20)))
def test_every_command_shows_hostile_tags_safely(desk, tmp_path, seed):
    chance = random.Random(seed)
    page = tmp_path / "fleet.html"
    with a_lab(desk) as lab:
        makers = [add_calm, add_warning, add_critical, add_exhausted]
        ids = [make(lab, "x", tags=some_tags(chance)) for make in makers]
        ids += [
            add(lab, text[:256], tags={}) for text in ("=1+1", "<script>alert(1)</script>", "\u202egpj.exe")
        ]
        runs = {
            name: desk.run(*arguments)
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
    for name, ran in runs.items():
        assert "unexpected" not in ran.err, f"{name}: {ran.err}"
        assert "Traceback" not in ran.err
        assert is_plain(ran.out), name
        assert is_plain(ran.err), name
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
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert is_plain(html.unescape(shown).replace("\t", " "))
