"""File systems and databases in a fleet file, behind `burstlab serve`, and on the lab's control surface."""

import json
import urllib.error
import urllib.request

import pytest

from burstlab.model.fleet_file import FleetFileError, read_fleet
from burstlab.model.storage_file import read_storage
from support.lab.lab_start import START

EXAMPLE = """
file_systems:
  - {size_gib: 58, load: "steady:400@256%0", balance_pct: 60, tags: {Name: home}}
  - {size_gib: 200.5, throughput_mode: provisioned, provisioned_mib_s: 20, count: 5}
databases:
  - {identifier: orders, allocated_gib: 100, load: nightly-batch, free_gib: 20}
  - {identifier: shop, engine: oracle-ee, instance_class: db.t3.large, count: 3}
"""


def storage_of(tmp_path, text):
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return read_storage(path, START), path


def test_a_fleet_file_may_have_file_systems_and_databases_and_no_volumes(tmp_path):
    storage, path = storage_of(tmp_path, EXAMPLE)
    assert [definition.size_gib for definition in storage.file_systems] == [58, *[200.5] * 5]
    assert storage.file_systems[0].tags == {"Name": "home"}
    assert [definition.identifier for definition in storage.databases] == [
        "orders",
        "shop-0",
        "shop-1",
        "shop-2",
    ]
    assert {definition.starts_at for definition in storage.databases} == {START}
    assert read_fleet(path, START) == ([], [])


def test_a_fleet_file_without_them_has_none(tmp_path):
    storage, _ = storage_of(tmp_path, "volumes: [{size_gib: 8}]")
    assert storage == ([], [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file_systems: 5", "file_systems is 5; it must be a list"),
        ("databases: [7]", "databases[0] is 7; it must be a mapping"),
        ("file_systems: [{size: 5}]", "file_systems[0].size: no such key; there are size_gib, load"),
        ("file_systems: [{size_gib: many}]", "file_systems[0].size_gib is 'many'; it must be a number"),
        ("file_systems: [{size_gib: 1, load: fast}]", "file_systems[0]: load 'fast'"),
        ("file_systems: [{size_gib: 1, load: [1]}]", "file_systems[0].load is a list; it must be text"),
        ("file_systems: [{load: idle}]", "size_gib"),
        ("file_systems: [{size_gib: 1, count: 0}]", "file_systems[0].count is 0; it must be 1 to 10,000"),
        (
            "file_systems: [{size_gib: 1, file_system_id: fs-12345678, count: 2}]",
            "count is 2 with one file_system_id",
        ),
        ("databases: [{identifier: Orders}]", "databases[0]: identifier is 'Orders'"),
        ("databases: [{identifier: a, multi_az: 1}]", "databases[0].multi_az is 1; it must be true or false"),
        ("databases: [{identifier: a, tags: {b: 1}}]", "databases[0].tags.b is 1; it must be text"),
        ("databases: [{identifier: a, starts_at: 1}]", "databases[0].starts_at: no such key"),
    ],
)
def test_a_faulty_entry_is_named_with_what_is_accepted(tmp_path, text, message):
    with pytest.raises(FleetFileError) as raised:
        storage_of(tmp_path, text)
    assert message in str(raised.value)


def control(lab, path, **body):
    request = urllib.request.Request(
        f"{lab.url}/_lab/{path}", data=json.dumps(body).encode() if body else None
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def test_a_file_system_is_changed_and_shown_by_the_control_surface(lab):
    changed = control(
        lab,
        "file-system",
        file_system_id="fs-0123456789abcdef0",
        load="steady:400@256%0",
        balance_pct=50,
        size_gib=100,
        hide_s=60,
    )
    assert changed["buckets"]["efs-bytes"]["balance_pct"] == 50
    assert changed["standard_bytes"] == 100 * 2**30
    lab.fleet.clock.advance(4 * 3_600)
    [document] = control(lab, "file-systems")
    # 95.1 MiB/s empty the half of 2,202,010 MiB in 3.2 h
    assert document["balance_bytes"] == 0
    assert document["buckets"]["efs-bytes"]["first_empty_at"].startswith("2026-11-20T21:12:")
    assert document["served_per_s"] == pytest.approx(100 * 50 / 1_024 * 4)


def test_a_database_is_changed_and_shown_by_the_control_surface(lab):
    control(
        lab,
        "database",
        identifier="orders",
        load="steady:3000",
        free_gib=5,
        new_identifier="orders-old",
    )
    lab.fleet.clock.advance(60)
    [document] = control(lab, "databases")
    assert document["identifier"] == "orders-old"
    assert document["buckets"]["rds-io"]["balance_pct"] == pytest.approx(97)
    assert control(lab, "database", identifier="orders-old", running=False)["status"] == "stopped"


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("file-system", {"file_system_id": "fs-1"}, "fs-1 is not one of the lab's 1 file systems"),
        ("file-system", {"load": "idle"}, "needs 'file_system_id'"),
        ("database", {"identifier": "orders", "colour": 1}, "colour cannot be changed: give some of load"),
        ("database", {"identifier": "orders", "balance_pct": 200}, "give 0 to 100"),
    ],
)
def test_a_request_that_cannot_be_done_is_answered_with_what_is_accepted(lab, path, body, message):
    with pytest.raises(urllib.error.HTTPError) as raised:
        control(lab, path, **body)
    with raised.value as response:
        assert message in json.load(response)["error"]
