"""What the first version stored is read, continued and written so that it can go back to that version.

The first version is a commit of this repository: its code runs in a process of its own. A copy of what it
stored is kept as well, so that reading is tested in a clone without history, too.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.flip_request import FlipRequest
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.dynamodb_notes import DynamoKeyValueStore
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.policy.deployments import find_deployments, flip_authority, write_origin
from burstwatch.adapters.policy.parameter_store import PolicyParameter
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.engine.alert_delivery import deliver
from support.aws.fake_stack import deploy_stack
from support.cli.cli_session import CliResult, CliSession, modification_targets
from support.first_version.old_process import FIRST_VERSION, SUPPORT, TABLE, FirstVersion

RECORDING = SUPPORT / "ledgers.json"

TOPIC_ARN = "arn:aws:sns:us-east-1:123456789012:alerts"
CHANNEL = "sns"
CHANNELS = ["terminal", CHANNEL]
ANNA = "anna (user/moto)"
HOST = "i-0123456789abcdef0"
AUTO = {"burstwatch:mode": "auto"}
PAID = AUTO | {"burstwatch:target": "io1"}

VOLUME_IDS = [f"vol-{number:017x}" for number in range(1, 11)]
ON_TARGET, RETURNING, UNSENT, HELD, STALLED, IN_WINDOW, CHANGING, SENT, NEVER_SENT, SILENT = VOLUME_IDS


@dataclass
class Past:
    """A lab, a ledger in it, and what happens to both while the first version watches.

    Without that version its modifications are taken from a recording, so that the lab is the same.
    """

    lab: Any
    location: str
    policy_path: Path
    first_version: FirstVersion | None = None
    modifications: Sequence[Sequence[Any]] = ()

    @property
    def now_s(self) -> int:
        return self.lab.fleet.now_s()

    def add(self, volume_id: str, load: str, *, balance_pct: float, minutes: int, tags=None) -> None:
        """A gp2 of 100 GiB that has been living for this many minutes."""
        starts_at = self.lab.clock.now() - timedelta(minutes=minutes)
        volume = LabVolume(
            volume_id=volume_id,
            size_gib=100,
            load=load,
            balance_pct=balance_pct,
            starts_at=starts_at,
            tags=tags or {},
            instance_id=HOST,
        )
        self.lab.fleet.add(volume)

    def add_critical(self, volume_id: str, tags=None) -> None:
        self.add(volume_id, "steady:3000", balance_pct=96, minutes=22, tags=tags or AUTO)

    def fail_modify(self, volume_id: str, *, after_effect: bool) -> None:
        """Break the connection of the next request to modify a volume, before or after AWS took it."""
        fault = Fault(
            action="ModifyVolume", kind="reset", times=1, volume_ids=[volume_id], after_effect=after_effect
        )
        self.lab.faults.add(fault)

    def end_modifications(self, *volume_ids: str) -> None:
        for volume_id in volume_ids:
            self.lab.fleet.end_modification(volume_id)

    def burstctl(self, *arguments: str) -> None:
        """What somebody does with the first version's command."""
        if self.first_version is not None:
            result = self.first_version("burstctl", arguments=self.with_options(arguments))
            assert result["code"] in (0, 3, 4), result
        else:
            self._replay()

    def watch(self, minutes: int = 0) -> None:
        """A pass of the first version, this many minutes later; no one gets its alerts."""
        self.lab.clock.advance(60 * minutes)
        if self.first_version is None:
            self._replay()
            return
        arguments = self.with_options(["watch", "--act", "--passes", "1", "--topic-arn", TOPIC_ARN])
        result = self.first_version("burstctl", arguments=arguments)
        assert result["out"].startswith("LEVEL "), result

    def with_options(self, arguments) -> list[str]:
        """With the ledger and the policy of this story."""
        policy = ["--policy", str(self.policy_path)] if arguments[0] != "policy" else []
        return [*arguments, "--ledger", self.location, *policy]

    def _replay(self) -> None:
        """Modify what the first version modified by now."""
        due = [row for row in self.modifications if row[0] <= self.now_s]
        self.modifications = self.modifications[len(due) :]
        for _, volume_id, *target in due:
            rates = dict(zip(("volume_type", "iops", "throughput_mib_s"), target, strict=True))
            self.lab.fleet.modify(volume_id, **rates)


def live_with_first_version(past: Past) -> None:
    """Leave a flip in each status, holds, windows by hand, a stall, and an outbox that is half delivered."""
    past.lab.faults.add(Fault(action="Publish"))
    past.add_critical(ON_TARGET, PAID)
    past.add_critical(RETURNING, PAID)
    past.add_critical(UNSENT)
    past.add_critical(HELD)
    past.add(STALLED, "steady:1200", balance_pct=60, minutes=20)
    past.add(SILENT, "idle", balance_pct=100, minutes=30)
    past.add(IN_WINDOW, "idle", balance_pct=100, minutes=30, tags=PAID | {"burstwatch:window": "release"})
    past.burstctl("hold", HELD, "--for", "6h", "--reason", "restore test")
    past.fail_modify(UNSENT, after_effect=False)
    past.watch()
    past.burstctl("hold", UNSENT, "--for", "1d", "--reason", "INC-7")
    past.watch(5)
    past.end_modifications(ON_TARGET, RETURNING)
    past.watch(5)
    past.burstctl("flip-back", RETURNING, "--yes")
    past.burstctl("window", "start", "release", "--for", "2h", "--yes")
    past.burstctl("window", "stop", "nightly")
    past.add_critical(CHANGING)
    past.add_critical(SENT)
    past.add_critical(NEVER_SENT)
    past.fail_modify(SENT, after_effect=True)
    past.fail_modify(NEVER_SENT, after_effect=False)
    past.watch(5)
    if past.first_version is not None:
        stop_halfway(past)
    past.lab.faults.clear()


def stop_halfway(past: Past) -> None:
    """What a process leaves behind that dies: an alert that it was sending, and a claimed tick."""
    first_version, common = past.first_version, {"location": past.location, "now_s": past.now_s}
    detail = {
        "schema": "burstwatch.probe/v1",
        "instance_id": HOST,
        "volume_id": STALLED,
        "verdict": "crit",
        "cause": "throttled",
        "total_s": 8.25,
        "started_at": (past.lab.clock.now() - timedelta(seconds=10)).isoformat(),
        "top": [{"comm": "kworker/u8:1", "wchan": "blk_mq_get_tag", "count": 3}],
    }
    assert first_version("report_stall", detail=detail, **common) == []
    first_version("claim_delivery", channel=CHANNEL, lease_s=60, **common)
    assert first_version("claim_tick", kind="focus", tick_s=past.now_s + 60, lease_s=50, **common)
    past.burstctl("hold", "--all", "--for", "1h", "--reason", "INC-42")


@contextmanager
def opened_ledger(past: Past) -> Iterator[Any]:
    """As today's code opens it; it finds nothing that cannot be read."""
    kind, _, place = past.location.partition(":")
    with ExitStack() as stack:
        if kind == "sqlite":
            ledger = stack.enter_context(SqliteLedger.open(Path(place)))
        else:
            client = past.lab.client("dynamodb")
            stack.callback(client.close)
            ledger = DynamoLedger(client, place)
        yield ledger
        assert ledger.take_unreadable() == []


def read_ledger(past: Past) -> dict[str, Any]:
    """All that the ledger holds, as today's code understands it, in the form that the first version gives."""
    with opened_ledger(past) as ledger:
        return _read(ledger, past.now_s)


def _read(ledger: Any, now_s: float) -> dict[str, Any]:
    snapshot = ledger.fleet_snapshot()
    contents = {
        "states": {volume_id: state.to_document() for volume_id, state in ledger.states().items()},
        "holds": sorted(
            [hold.volume_id or "*", hold.by, hold.reason, hold.placed_at_s, hold.until_s]
            for hold in ledger.holds(now_s)
        ),
        "windows": {
            name: [override.is_start, override.by, override.at_s, override.until_s]
            for name, override in ledger.manual_overrides().items()
        },
        "waiting": [
            [delivery.channel, delivery.attempts, without_additions(delivery.alert.to_document())]
            for delivery in ledger.pending_deliveries(channels=CHANNELS)
        ],
        "entries": {
            volume_id: [
                [entry.revision, entry.kind, entry.at_s, entry.body] for entry in ledger.entries(volume_id)
            ]
            for volume_id in VOLUME_IDS
        },
        "roster": [snapshot.tick_at_s, sorted(snapshot.fingerprints)] if snapshot else None,
    }
    return json.loads(json.dumps(contents))


def without_additions(document: dict[str, Any]) -> dict[str, Any]:
    """An alert without what the first version does not write."""
    added = ("unit", "baseline", "baseline_unit")
    reading = {key: value for key, value in document["reading"].items() if key not in added}
    return {key: value for key, value in document.items() if key != "resource"} | {"reading": reading}


def read_with_first_version(past: Past) -> dict[str, Any]:
    contents = past.first_version(
        "read_ledger",
        location=past.location,
        volume_ids=VOLUME_IDS,
        now_s=past.now_s,
        channels=CHANNELS,
    )
    # it keeps what it does not know of a reading
    waiting = [[*delivery, without_additions(alert)] for *delivery, alert in contents["waiting"]]
    return contents | {"waiting": waiting}


def deliver_today(past: Past) -> list[str]:
    """What today's code sends of what waits for people, by its id."""
    sent: list[str] = []
    channel = SimpleNamespace(name=CHANNEL, send=lambda alert: sent.append(alert.alert_id))
    with opened_ledger(past) as ledger:
        deliver(
            ledger,
            [channel],
            digest_above=1000,
            location=AwsLocation(region="us-east-1", account="123456789012"),
            runbooks_url="https://example.com/runbooks",
            now_s=past.now_s,
        )
    return sent


def watch_today(cli: CliSession, past: Past, minutes: int = 5) -> CliResult:
    past.lab.clock.advance(60 * minutes)
    result = cli.run(*past.with_options(["watch", "--act", "--passes", "1"]))
    assert "cannot be read" not in result.err
    return result


def read_states(past: Past) -> dict[str, ResourceState]:
    with opened_ledger(past) as ledger:
        return ledger.states()


def flip_steps(past: Past) -> dict[str, str]:
    """How far each flip is, in the words that are stored, by volume id."""
    states = read_states(past)
    return {
        volume_id: f"{state.flip.direction} {state.flip.status}"
        for volume_id, state in states.items()
        if state.flip is not None
    }


def entry_kinds(past: Past, volume_id: str) -> list[str]:
    """The kinds of the ledger's entries on a volume, without alerts."""
    with opened_ledger(past) as ledger:
        kinds = [str(entry.kind) for entry in ledger.entries(volume_id)]
    return [kind for kind in kinds if kind not in ("level_changed", "alert", "delivered")]


def waiting_ids(past: Past) -> list[str]:
    """The alerts that wait for people."""
    with opened_ledger(past) as ledger:
        return [delivery.alert.alert_id for delivery in ledger.pending_deliveries(channels=[CHANNEL])]


def check_handover(cli: CliSession, past: Past) -> None:
    """Today's code finds all that the first version left behind, and says so to people."""
    assert flip_steps(past) == {
        ON_TARGET: "out on_target",
        RETURNING: "back changing",
        IN_WINDOW: "out changing",
        CHANGING: "out changing",
        SENT: "out asked",
        NEVER_SENT: "out asked",
    }
    with opened_ledger(past) as ledger:
        states = ledger.states()
        assert states[UNSENT].modifications.unsent_intent.status == "asked"
        assert (states[UNSENT].modifications.failure_count, states[UNSENT].alerts.refusal) == (1, "held")
        assert [use.by for use in states[RETURNING].modifications.used] == ["watchdog", ANNA]
        assert states[RETURNING].flip.previous.status == "on_target"
        assert states[STALLED].stall.received_at_s == past.now_s
        assert {hold.volume_id: hold.by for hold in ledger.holds(past.now_s)} == dict.fromkeys(
            (None, UNSENT, HELD), ANNA
        )
        overrides = ledger.manual_overrides()
        assert (overrides["release"].is_start, overrides["nightly"].is_start) == (True, False)
        assert ledger.fleet_snapshot().tick_at_s == past.now_s
        next_tick = {"now_s": past.now_s + 1, "lease_s": 50}
        assert not ledger.claim_tick(TickKind.FOCUS, past.now_s + 60, **next_tick), "another has claimed it"
    history = cli.run(*past.with_options(["history", RETURNING])).out
    assert "asked for by" in history.lower() or ANNA in history
    explanation = cli.run(*past.with_options(["explain", HELD, "--json"])).document
    assert "restore test" in json.dumps(explanation)
    windows = cli.run(*past.with_options(["window", "list"])).out
    assert "release" in windows


def continue_today(cli: CliSession, past: Past) -> None:
    """Today's code settles the flips, keeps the holds, empties the outbox once and ends the window."""
    waiting = waiting_ids(past)
    sent = deliver_today(past)
    assert len(waiting) == len(sent) + 1 > 1, "another process is sending one of them"
    past.lab.clock.advance(61)
    sent += deliver_today(past)
    assert sorted(sent) == sorted(waiting)
    assert waiting_ids(past) == []

    past.end_modifications(RETURNING, IN_WINDOW, CHANGING, SENT)
    past.lab.clock.advance(-past.now_s % 300)
    watch_today(cli, past, 0)
    watch_today(cli, past)
    settled = (ON_TARGET, IN_WINDOW, CHANGING, SENT)
    assert flip_steps(past) == dict.fromkeys(settled, "out on_target")
    assert "restored" in entry_kinds(past, RETURNING)
    assert entry_kinds(past, SENT) == ["intent", "unclear", "accepted", "reached"]
    assert entry_kinds(past, NEVER_SENT)[:3] == ["intent", "unclear", "not_done"]
    assert modification_targets(past.lab, NEVER_SENT) == [], "everything is held"

    assert cli.run(*past.with_options(["release", "--all"])).code == 0
    assert cli.run(*past.with_options(["window", "stop", "release"])).code == 0
    watch_today(cli, past)
    watch_today(cli, past)
    assert modification_targets(past.lab, NEVER_SENT) == ["gp3"]
    assert modification_targets(past.lab, IN_WINDOW) == ["io1", "gp2"]
    assert [modification_targets(past.lab, i) for i in (UNSENT, HELD)] == [[], []], "these are held"


def write_today(cli: CliSession, past: Past) -> None:
    """Today's code leaves a hold, a window, flips under way, and volumes that nothing uses."""
    assert cli.run(*past.with_options(["hold", STALLED, "--for", "6h", "--reason", "INC-8"])).code == 0
    assert cli.run(*past.with_options(["window", "start", "nightly", "--for", "2h", "--yes"])).code == 0
    now, horizon = past.lab.clock.now(), timedelta(days=1)
    past.lab.fleet.hide_metrics(SILENT, from_at=now, to_at=now + horizon)
    past.lab.fleet.detach(ON_TARGET)
    for _ in range(2):
        watch_today(cli, past, 20)
    states, steps = read_states(past), flip_steps(past)
    assert states[SILENT].reading.unknown_reason is UnknownReason.IDLE
    assert states[ON_TARGET].presence.unused_since_s is not None
    assert (steps[NEVER_SENT], steps[IN_WINDOW]) == ("out changing", "back changing")


def go_back(past: Past) -> None:
    """The first version reads what today's code wrote, word for word, and goes on with it."""
    contents = read_ledger(past)
    for state in contents["states"].values():
        for use in state.get("spent", ()):
            use.pop("added", None)  # what that version does not know, where it overlooks it
    assert read_with_first_version(past) == contents
    past.end_modifications(NEVER_SENT, IN_WINDOW)
    past.watch(5)
    steps = flip_steps(past)
    assert (steps[NEVER_SENT], steps.get(IN_WINDOW)) == ("out on_target", None)
    assert entry_kinds(past, IN_WINDOW)[-1] == "restored"
    assert modification_targets(past.lab, STALLED) == [], "it is held"
    waiting = waiting_ids(past)
    sent = past.first_version("deliver", location=past.location, channel=CHANNEL, now_s=past.now_s + 61)
    assert waiting
    assert sorted(sent) == sorted(waiting)


def take_recording(past: Past) -> Any:
    """The content of the ledger, with only a few of the alerts that wait, as each is long."""
    kind, _, place = past.location.partition(":")
    if kind == "dynamodb":
        items = {
            pk: {sk: item for sk, item in partition.items() if not _is_alert(item)}
            for pk, partition in past.lab.tables[place].items.items()
        }
        waiting = items[f"waiting {CHANNEL}"]
        selected = {sk for sk, item in waiting.items() if {"claimed_until_s", "bundle"} & item.keys()}
        selected.add(min(sk for sk, item in waiting.items() if "sent_as" in item))
        items[f"waiting {CHANNEL}"] = {sk: waiting[sk] for sk in selected}
        return {pk: partition for pk, partition in items.items() if partition}
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DELETE FROM entries WHERE kind IN ('alert', 'delivered')")
        connection.execute(
            "DELETE FROM deliveries WHERE claimed_until_s IS NULL AND NOT revision = 0 AND alert_id !="
            " (SELECT min(alert_id) FROM deliveries WHERE sent_as != alert_id)"
        )
        pragmas = [
            f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};"
            for name in ("application_id", "user_version")
        ]
        return [*connection.iterdump(), *pragmas]


def _is_alert(item: Any) -> bool:
    return item.get("kind", {}).get("S") in ("alert", "delivered")


def write_recording(past: Past) -> None:
    """Keep what the first version wrote, in place of what was kept before."""
    recording = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    modifications = [
        [int(m.started_at.timestamp()), volume_id, m.target.volume_type, *rates(m)]
        for volume_id in VOLUME_IDS
        for m in past.lab.fleet.modifications(volume_id)
    ]
    recording["first_version"] = FIRST_VERSION
    recording["modifications"] = sorted(modifications)
    recording[past.location.partition(":")[0]] = take_recording(past)
    RECORDING.write_text(format_recording(recording))


def format_recording(recording: dict[str, Any]) -> str:
    return json.dumps(recording, indent=1, sort_keys=True) + "\n"


def rates(modification: Any) -> list[int | None]:
    target = modification.target
    return [None if target.volume_type == "gp2" else target.iops, target.throughput_mib_s]


def restore_recording(past: Past) -> None:
    """A ledger as the first version left it."""
    kind, _, place = past.location.partition(":")
    recorded = json.loads(RECORDING.read_text())[kind]
    if kind == "dynamodb":
        past.lab.tables[place].items.update(recorded)
        return
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript("\n".join(recorded))
        connection.execute("PRAGMA journal_mode = WAL")


def test_a_recorded_ledger_of_the_first_version_is_continued(cli, lab, location, policy_path):
    past = Past(
        lab,
        location,
        policy_path,
        modifications=json.loads(RECORDING.read_text())["modifications"],
    )
    live_with_first_version(past)
    restore_recording(past)
    check_handover(cli, past)
    continue_today(cli, past)


def without_pace(document):
    """A document without what depends on how fast the machine was: instants, revisions and intents' ids."""
    if not isinstance(document, dict):
        return document
    return {
        key: without_pace(value)
        for key, value in document.items()
        if not key.endswith("_s") and key not in ("revision", "intent_id")
    }


def test_today_continues_and_the_first_version_takes_over_again(
    cli, lab, location, policy_path, first_version, pytestconfig
):
    first_version("connect", environment=lab.environment)
    past = Past(lab, location, policy_path, first_version)
    live_with_first_version(past)
    assert read_ledger(past) == read_with_first_version(past)
    if pytestconfig.getoption("--rewrite"):
        write_recording(past)
    states = without_pace(read_ledger(past)["states"])
    recorded = {state["volume_id"]: state for state in recorded_states()}
    assert without_pace(recorded) == states, "the recording is not true"
    check_handover(cli, past)
    continue_today(cli, past)
    write_today(cli, past)
    go_back(past)


NEWS = {"unknown_reason": "idle", "unknown_since_s": 80, "unused_since_s": 90}
"""A reason and a key that the first version does not know."""


def test_news_in_a_state_are_where_the_first_version_overlooks_them():
    document = ResourceState.from_document({"volume_id": IN_WINDOW, "revision": 100} | NEWS).to_document()
    carrier = {"at_s": 0, "by": "watchdog", "direction": None}
    assert document == {
        "volume_id": IN_WINDOW,
        "revision": 100,
        "unknown_since_s": 80,
        "spent": [carrier | {"added": {"unknown_reason": "idle", "unused_since_s": 90}}],
    }


@pytest.mark.parametrize("used", [{}, {"spent": [{"at_s": 50, "by": "others", "direction": None}]}])
def test_news_in_a_state_are_read_where_they_are_kept_and_where_they_were_kept_before(used):
    before = {"volume_id": IN_WINDOW, "revision": 100} | NEWS | used
    state = ResourceState.from_document(before)
    assert (state.reading.unknown_reason, state.presence.unused_since_s) == (UnknownReason.IDLE, 90)
    assert [use.at_s for use in state.modifications.used] == [50] * bool(used)
    assert ResourceState.from_document(json.loads(json.dumps(state.to_document()))) == state


def test_a_state_without_news_is_kept_as_the_first_version_keeps_it():
    for document in recorded_states():
        assert ResourceState.from_document(document).to_document() == document


def recorded_states() -> list[dict[str, Any]]:
    items = json.loads(RECORDING.read_text())["dynamodb"]
    partitions = (partition for pk, partition in items.items() if pk.startswith("states "))
    return [json.loads(item["body"]["S"]) for partition in partitions for item in partition.values()]


REQUESTS = [
    {"volume_id": CHANGING, "direction": "out", "cause": cause, "because": because, "time_s": 1_795_197_600}
    for cause, because in (
        ("draining", "critical: at this pace it is dry within 15 min"),
        ("window", "window release begins at 20:00"),
        ("critical", "it is tagged critical"),
    )
] + [
    {
        "volume_id": RETURNING,
        "direction": "back",
        "cause": "by_hand",
        "because": "calm for 30 min",
        "time_s": 1_795_197_600,
    }
]
CARD = "/burstwatch/deployments/burstwatch"
PARAMETER = "/burstwatch/burstwatch/policy"
PUSHED = "version: 1\nlevels: {warning_within: 45m}\nflip: {fleet_cap: 7}\n"


def read_recording() -> dict[str, Any]:
    return json.loads(RECORDING.read_text())


def read_request(body: str) -> dict[str, Any]:
    request = FlipRequest.from_body(body)
    return {
        "volume_id": request.volume_id,
        "direction": str(request.direction),
        "cause": str(request.cause),
        "because": request.because,
        "time_s": request.requested_at_s,
    }


def write_request(facts: dict[str, Any]) -> str:
    return FlipRequest(
        volume_id=facts["volume_id"],
        direction=Direction(facts["direction"]),
        cause=FlipCause(facts["cause"]),
        because=facts["because"],
        requested_at_s=facts["time_s"],
    ).to_body()


def test_recorded_flip_requests_of_the_first_version_are_read():
    assert [read_request(body) for body in read_recording()["requests"]] == REQUESTS


def test_flip_requests_are_read_by_the_other_version(first_version, pytestconfig):
    bodies = [first_version("write_request", **request) for request in REQUESTS]
    if pytestconfig.getoption("--rewrite"):
        RECORDING.write_text(format_recording(read_recording() | {"requests": bodies}))
    assert bodies == read_recording()["requests"]
    assert [read_request(body) for body in bodies] == REQUESTS
    for request in REQUESTS:
        assert first_version("read_request", body=write_request(request)) == list(request.values())


def active_policy(lab) -> tuple[str, dict[str, Any]]:
    """Where today's watchdog has its policy from, after a cold start, and what it says."""
    clients = [lab.client("ssm"), lab.client("dynamodb")]
    try:
        store = DynamoKeyValueStore(clients[1], TABLE)
        active = PolicyParameter(clients[0], PARAMETER, deployment="burstwatch", store=store).get_active()
    finally:
        for client in clients:
            client.close()
    return active.source, active.policy.to_mapping()


def active_policy_of_first_version(first_version) -> tuple[str, dict[str, Any]]:
    active_policy = first_version("read_policy", table=TABLE, name=PARAMETER, deployment="burstwatch")
    return active_policy["source"], active_policy["policy"]


def assert_pushed(source: str, policy: dict[str, Any]) -> None:
    assert source.startswith(f"{PARAMETER}-pushed as of 2026-11-20T18:00:00Z")
    assert policy["levels"]["warning_within"] == "45m"
    assert str(policy["flip"]["fleet_cap"]) == "7"


def forget_parameters(lab) -> None:
    """Somebody deletes both policies: what the ledger's table remembers stays in force."""
    ssm = lab.client("ssm")
    for parameter in ssm.get_parameters(Names=[PARAMETER, f"{PARAMETER}-pushed"])["Parameters"]:
        ssm.delete_parameter(Name=parameter["Name"])
    ssm.close()


def test_a_recorded_note_of_the_first_version_stays_in_force(lab):
    deploy_stack(lab)
    lab.tables[TABLE].items["notes"] = read_recording()["notes"]
    forget_parameters(lab)
    assert_pushed(*active_policy(lab))


def test_what_the_first_version_pushed_and_remembers_is_in_force(lab, tmp_path, first_version, pytestconfig):
    deploy_stack(lab)
    (tmp_path / "pushed.yaml").write_text(PUSHED)
    first_version("connect", environment=lab.environment)
    pushed = first_version("burstctl", arguments=["policy", "push", str(tmp_path / "pushed.yaml"), "--yes"])
    assert pushed["code"] == 0
    assert_pushed(*active_policy_of_first_version(first_version))
    if pytestconfig.getoption("--rewrite"):
        notes = lab.tables[TABLE].items["notes"]
        RECORDING.write_text(format_recording(read_recording() | {"notes": notes}))
    assert_pushed(*active_policy(lab))
    forget_parameters(lab)
    assert_pushed(*active_policy(lab))


def test_what_today_pushes_and_remembers_is_in_force_in_the_first_version(cli, lab, tmp_path, first_version):
    deploy_stack(lab)
    (tmp_path / "pushed.yaml").write_text(PUSHED)
    assert cli.run("policy", "push", str(tmp_path / "pushed.yaml"), "--yes").code == 0
    assert_pushed(*active_policy(lab))
    first_version("connect", environment=lab.environment)
    assert_pushed(*active_policy_of_first_version(first_version))
    forget_parameters(lab)
    assert_pushed(*active_policy_of_first_version(first_version))


def test_the_record_of_a_deployment_is_read_by_both_versions(lab, first_version):
    """``origin``, and the parameter that it names, are what later versions add."""
    first_version("connect", environment=lab.environment)
    deploy_stack(lab)
    lab.clock.advance(60)
    since = f"{CARD}/0123/since"
    deploy_stack(lab, "second", origin=f"{CARD.removesuffix('burstwatch')}second/4567/since")
    ssm = lab.client("ssm")
    first, second = find_deployments(ssm)
    write_origin(ssm, second)
    assert [record.name for record in find_deployments(ssm)] == ["burstwatch", "second"]
    assert [flip_authority(name, [first, second]).may_flip for name in ("burstwatch", "second")] == [
        True,
        False,
    ]
    deploy_stack(lab, origin=since)
    write_origin(ssm, find_deployments(ssm)[0])
    ssm.close()

    response = first_version("read_deployments", name="second")

    assert sorted(name for name, *_ in response["deployments"]) == ["burstwatch", "second"]
    assert {tuple(tag) for *_, tag in response["deployments"]} == {first.read().opt_in_tag}
