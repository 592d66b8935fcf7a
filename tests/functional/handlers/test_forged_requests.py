"""A sender to the flip queue can cause no modification that the watchdog would not make by itself."""

import json
from itertools import product
from threading import Barrier, Thread
from unittest.mock import Mock

import pytest

from burstlab.model.instances.instance import LabInstance
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.handlers import flip
from burstwatch.wiring.observability import Telemetry
from support.builders.functions import AUTO, a_message, failed_message_ids, to_instant
from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_exhausted,
    add_warning,
    count_modify_calls,
    modification_targets,
)

NO_FLIPS = "version: 1\nmode:\n  highest: propose\nflip:\n  spend_cap_usd_per_month: 1\n  fleet_cap: 1\n"
TO_IO1 = AUTO | {"burstwatch:target": "io1"}


def a_forged_request(functions, volume_id, **changes):
    """A message as a watch function of before wrote it, with what an attacker puts into it."""
    document = {
        "schema": "burstwatch.flip_request/v1",
        "time": to_instant(functions.lab.clock.now_s()),
        "volume_id": volume_id,
        "direction": "out",
        "cause": "draining",
        "because": "critical: empty within 15 min",
        "demand": {"peak_iops": 39_000.0, "peak_throughput_mib_s": None, "pinned": True, "ahead": False},
        "urgency": [-4, 715.0, {"float": "inf"}, 31.5, volume_id],
        "revision": 1,
        "by": "watchdog",
        "overridden": [],
    }
    return a_message(json.dumps(document | changes), group=volume_id)


def assert_poison(functions, record):
    output = functions.flip([record])
    assert (count_modify_calls(functions.lab), failed_message_ids(output)) == (0, {record["messageId"]})
    assert output.metrics["FlipsFailed"] == 1
    [error] = [line for line in output.lines if line["level"] == "ERROR"]
    assert "not a flip request" in error["message"]


def assert_dropped(functions, record):
    output = functions.flip([record])
    assert (count_modify_calls(functions.lab), failed_message_ids(output)) == (0, set())
    assert "no longer needed" in output.messages[-1]


def test_no_message_overrides_the_kill_switch_the_policy_or_a_cap(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    functions.deploy_policy(NO_FLIPS)
    now_s = int(lab.clock.now_s())
    functions.ledger.place_hold(
        Hold(volume_id=None, by="anna", reason="freeze", placed_at_s=now_s, until_s=now_s + 3600)
    )
    overridden = ["held", "spend_cap", "fleet_cap", "change_hours", "not_opted_in"]
    requested = {"volume_type": "io2", "iops": 60_000, "throughput_mib_s": None}
    assert_poison(
        functions, a_forged_request(functions, volume_id, by="mallory", overridden=overridden, wish=requested)
    )
    assert_poison(functions, a_forged_request(functions, volume_id, overridden=overridden))
    assert_poison(functions, a_forged_request(functions, volume_id, wish=requested))
    assert_poison(functions, a_forged_request(functions, volume_id, cause="by_hand"))
    assert_dropped(functions, a_forged_request(functions, volume_id))


def test_a_volume_without_the_opt_in_tag_is_not_flipped(functions, lab):
    assert_dropped(functions, a_forged_request(functions, add_critical(lab)))


@pytest.mark.parametrize("cause", ["draining", "window", "critical"])
def test_a_calm_volume_is_not_flipped_whatever_demand_is_claimed(functions, lab, cause):
    assert_dropped(functions, a_forged_request(functions, add_calm(lab, tags=AUTO), cause=cause))


def test_a_busy_volume_on_its_target_is_not_flipped_back(functions, lab):
    volume_id = add_critical(lab, tags=TO_IO1)
    functions.tick()
    functions.flip()
    lab.fleet.end_modification(volume_id)
    functions.tick(1)
    output = functions.flip([a_forged_request(functions, volume_id, direction="back")])
    assert (modification_targets(lab, volume_id), failed_message_ids(output)) == (["io1"], set())
    assert "no longer needed" in output.messages[-1]


@pytest.mark.parametrize("time", ["2036-11-20T18:00:00Z", "2026-11-20T18:01:01Z"])
def test_a_time_more_than_a_minute_ahead_is_rejected(functions, lab, time):
    assert_poison(functions, a_forged_request(functions, add_critical(lab, tags=AUTO), time=time))


def test_a_clock_that_is_a_minute_ahead_is_trusted(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    functions.watch("sweep")
    [record] = functions.requests()
    body = json.loads(record["body"]) | {"time": "2026-11-20T18:01:00Z"}
    functions.flip([record | {"body": json.dumps(body)}])
    assert modification_targets(lab, volume_id) == ["gp3"]


def test_a_claimed_demand_does_not_change_what_the_volume_becomes(functions, lab):
    volume_id = add_critical(lab, tags=TO_IO1)
    functions.watch("sweep")
    functions.requested_flips()
    functions.flip([a_forged_request(functions, volume_id)])
    [modification] = lab.fleet.modifications(volume_id)
    assert modification.target.iops == 3_750, "3,000 measured and a quarter more, not 39,000"


def test_every_message_that_is_trusted_leads_to_what_watch_requests_itself(functions, lab):
    ids = [
        add_calm(lab, tags=AUTO),
        add_calm(lab, "etcd", tags=AUTO | {"burstwatch:critical": "true"}),
        add_warning(lab, tags=TO_IO1),
        add_critical(lab, "own", tags=AUTO),
        add_critical(lab, "theirs"),
        add_critical(lab, "ignored", tags=AUTO | {"burstwatch:ignore": "true"}),
        add_critical(lab, "observed", tags={"burstwatch:mode": "observe"}),
        add_exhausted(lab, tags=AUTO | {"burstwatch:mode": "propose"}),
    ]
    functions.watch("sweep")
    wanted = {record["attributes"]["MessageGroupId"] for record in functions.requests()}
    assert wanted == {ids[1], ids[3]}
    for volume_id, direction, cause in product(ids, ("out", "back"), ("draining", "window", "critical")):
        functions.flip([a_forged_request(functions, volume_id, direction=direction, cause=cause)])
    assert {i for i in ids if modification_targets(lab, i)} == wanted
    assert count_modify_calls(lab) == len(wanted)


# ---- what comes oddly, or twice


def test_a_request_takes_eleven_calls_and_one_that_is_not_wanted_takes_three(functions, lab):
    instance_id = "i-0bbbbbbbbbbbbbbbb"
    lab.fleet.add_instance(
        LabInstance(instance_id=instance_id, instance_type="m5.large", launched_at=lab.clock.now(), tags={})
    )
    volume_id = add_critical(lab, tags=AUTO, instance_id=instance_id)
    calm = add_calm(lab, tags=AUTO)
    functions.watch("sweep")
    records = functions.requests()

    def calls_of(records):
        before = lab.faults.call_counts().copy()
        functions.flip(records)
        reads = ("DescribeVolumes", "DescribeVolumesModifications", "DescribeInstances", "GetMetricData")
        names = (*reads, "DescribeInstanceTypes", "ModifyVolume")
        now = lab.faults.call_counts()
        return {name: count for name in names if (count := now.get(name, 0) - before.get(name, 0))}

    assert calls_of([a_forged_request(functions, calm)]) == {
        "DescribeVolumes": 1,
        "DescribeVolumesModifications": 1,
        "GetMetricData": 1,
    }
    assert calls_of(records) == {
        "DescribeVolumes": 3,
        "DescribeVolumesModifications": 2,
        "DescribeInstances": 1,
        "DescribeInstanceTypes": 1,
        "GetMetricData": 3,
        "ModifyVolume": 1,
    }
    assert calls_of([a_forged_request(functions, volume_id)]) == {}, "the ledger says that it is on its way"


@pytest.mark.parametrize("key", ["attributes", "receiptHandle", "body"])
def test_a_record_without_one_of_its_parts_fails_alone(functions, lab, key):
    volume_id = add_critical(lab, tags=AUTO)
    functions.watch("sweep")
    [record] = functions.requests()
    forged = a_forged_request(functions, "vol-0123456789abcdef0", by="mallory")
    message_id = forged["messageId"]
    output = functions.invoke("flip", {"Records": [{k: v for k, v in forged.items() if k != key}, record]})
    assert failed_message_ids(output) == {message_id}
    assert modification_targets(lab, volume_id) == ["gp3"]
    assert output.warnings[0].startswith("internal error" if key == "body" else "not done")


def test_with_too_little_time_left_a_request_and_those_behind_it_wait(functions, lab, monkeypatch):
    volume_id = add_critical(lab, tags=AUTO)
    functions.watch("sweep")
    [record] = functions.requests()
    later = a_forged_request(functions, volume_id)
    monkeypatch.setattr("support.builders.functions.TIME_LEFT_MS", 19_000)
    output = functions.flip([record, later])
    assert (count_modify_calls(lab), failed_message_ids(output)) == (
        0,
        {record["messageId"], later["messageId"]},
    )
    assert "19 s are left" in output.text
    monkeypatch.setattr("support.builders.functions.TIME_LEFT_MS", 50_000)
    functions.flip()
    assert modification_targets(lab, volume_id) == ["gp3"]


def test_the_same_message_in_two_executions_at_once_is_one_modification(functions, lab, monkeypatch):
    volume_id = add_critical(lab, tags=AUTO)
    functions.watch("sweep")
    [record] = functions.requests()
    gate = Barrier(2)
    real = flip.execute_flips

    def execute_together(shell, orders, collector):
        gate.wait(timeout=60)
        return real(shell, orders, collector)

    monkeypatch.setattr(flip, "execute_flips", execute_together)
    silent = Mock(spec=Telemetry, remaining_s=lambda: 50.0)
    outcomes = []

    def execute(runtime):
        outcomes.append(flip.run(record["body"], runtime, silent, wall_s=lab.clock.now_s()).status)

    with functions.process("flip"):
        threads = [Thread(target=execute, args=[functions.runtime()]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (count_modify_calls(lab), modification_targets(lab, volume_id)) == (1, ["gp3"])
    assert sorted(outcomes) == ["flipped", "in_flight"]
