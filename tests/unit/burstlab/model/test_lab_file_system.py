from datetime import timedelta

import pytest

from burstlab.model.aws_error import AwsError
from burstlab.model.clock import LabClock
from burstlab.model.file_system import FileSystemError, LabFileSystem
from burstlab.model.fleet import LabFleet, LabSettings
from support.lab.lab_start import START

MIB, TIB = 2**20, 2**40
FULL_BURST = "steady:400@256%0"  # 100 MiB/s written


def a_fleet(**chosen):
    return LabFleet(LabClock.manual(START), LabSettings(**chosen))


def add(fleet, size_gib=58, **changes):
    file_system_id = fleet.file_systems.add(LabFileSystem(size_gib=size_gib, **changes))
    return lambda: fleet.file_systems.find(file_system_id)


@pytest.mark.parametrize(("gib", "hours"), [(1, 6.1), (100, 6.4), (512, 8.2), (1_024, 12.2)])
def test_a_full_bucket_lasts_as_long_as_in_the_documentation(gib, hours):
    fleet = a_fleet()
    file_system = add(fleet, gib, load=FULL_BURST if gib <= 1_024 else "idle")
    fleet.clock.advance((hours - 0.1) * 3_600)
    assert file_system().balance_bytes > 0
    fleet.clock.advance(0.2 * 3_600)
    assert file_system().balance_bytes == 0
    assert file_system().served_per_s * 0.25 == pytest.approx(max(1.0, gib * 50 / 1_024))


def test_nine_idle_days_refill_58_gib():
    fleet = a_fleet()
    file_system = add(fleet, balance_pct=0)
    fleet.clock.advance(8.9 * 86_400)
    assert file_system().balance_bytes < 2.1 * TIB
    fleet.clock.advance(0.2 * 86_400)
    assert round(file_system().balance_bytes) == 2_308_974_418_330


def test_reads_last_three_times_as_long():
    fleet = a_fleet()
    writer, reader = add(fleet, load="steady:400@256%0"), add(fleet, load="steady:1200@256%100")
    fleet.clock.advance(3_600)
    assert writer().balance_bytes == pytest.approx(reader().balance_bytes, rel=1e-9)


def test_an_empty_file_system_neither_earns_nor_falls_below_1_mib_s():
    fleet = a_fleet()
    file_system = add(fleet, 0, balance_pct=0, load=FULL_BURST)
    fleet.clock.advance(3_600)
    assert file_system().served_per_s == 4  # operations of 256 KiB
    assert file_system().balance_bytes == 0


def test_a_change_of_mode_takes_effect_after_updating_and_keeps_the_balance():
    fleet = a_fleet(efs_updating_s=60)
    file_system = add(fleet, load=FULL_BURST, balance_pct=0)
    file_system().update("elastic", None)
    assert (file_system().state, file_system().mode) == ("updating", "elastic")
    fleet.clock.advance(59)
    assert file_system().served_per_s == pytest.approx(2.832 * 4, abs=0.01)
    fleet.clock.advance(2)
    assert file_system().state == "available"
    assert file_system().served_per_s == 400
    assert file_system().balance_bytes == 0


def test_provisioned_throughput_is_what_is_served_or_the_baseline_if_that_is_higher():
    fleet = a_fleet()
    small = add(fleet, 58, load=FULL_BURST, throughput_mode="provisioned", provisioned_mib_s=20.0)
    large = add(fleet, 1_024, load=FULL_BURST, throughput_mode="provisioned", provisioned_mib_s=20.0)
    fleet.clock.advance(60)
    assert (small().served_per_s, large().served_per_s) == (80, 200)


def refusal(file_system, mode, mib_s=None):
    with pytest.raises(AwsError) as raised:
        file_system().update(mode, mib_s)
    return raised.value


def test_leaving_a_mode_within_24_hours_is_refused_with_the_time_from_which_it_is_possible():
    fleet = a_fleet()
    file_system = add(fleet)
    file_system().update("provisioned", 20.0)
    fleet.clock.advance(3_600)
    error = refusal(file_system, "bursting")
    assert (error.code, error.status) == ("TooManyRequests", 429)
    assert error.message == (
        "You have reached the maximum number of throughput mode changes or provisioned throughput value"
        " decreases. Wait until 2026-11-21T18:00:00Z UTC and try again."
    )
    fleet.clock.advance(23 * 3_600)
    file_system().update("bursting", None)
    assert file_system().mode == "bursting"


def test_provisioned_throughput_may_be_raised_at_any_time_and_lowered_after_24_hours():
    fleet = a_fleet()
    file_system = add(fleet)
    file_system().update("provisioned", 20.0)
    fleet.clock.advance(3_600)
    file_system().update(None, 40.0)
    assert file_system().provisioned_mib_s == 40
    fleet.clock.advance(23.5 * 3_600)  # 24.5 h after the change, 23.5 h after the raise
    assert refusal(file_system, None, 30.0).code == "TooManyRequests"


def test_the_rule_of_24_hours_can_be_that_of_provisioned_mode_only():
    fleet = a_fleet(efs_mode_rule="provisioned")
    file_system = add(fleet)
    file_system().update("elastic", None)
    fleet.clock.advance(3_600)
    file_system().update("bursting", None)
    assert file_system().mode == "bursting"


@pytest.mark.parametrize(
    ("mode", "mib_s", "code"),
    [
        (None, None, "BadRequest"),
        ("provisioned", None, "BadRequest"),
        ("provisioned", 0.5, "BadRequest"),
        ("provisioned", 2_000.0, "ThroughputLimitExceeded"),
        ("elastic", 20.0, "BadRequest"),
    ],
)
def test_requests_that_cannot_be_are_refused(mode, mib_s, code):
    fleet = a_fleet()
    assert refusal(add(fleet), mode, mib_s).code == code


def test_max_io_file_systems_cannot_be_elastic():
    fleet = a_fleet()
    assert refusal(add(fleet, performance_mode="maxIO"), "elastic").code == "BadRequest"


def test_a_change_while_updating_is_refused_and_the_same_mode_is_no_change():
    fleet = a_fleet()
    file_system = add(fleet)
    file_system().update("bursting", None)
    assert file_system().state == "available"
    file_system().update("elastic", None)
    assert refusal(file_system, "bursting").code == "IncorrectFileSystemLifeCycleState"


def test_a_larger_file_system_earns_more_and_keeps_its_credits():
    fleet = a_fleet()
    file_system = add(fleet, 58, balance_pct=50)
    before = file_system().balance_bytes
    fleet.file_systems.set_size(file_system().resource_id, 4_096)
    assert file_system().balance_bytes == before
    fleet.clock.advance(60)
    assert file_system().balance_bytes - before == pytest.approx(60 * 200 * MIB)


def test_a_load_can_be_planned_and_a_balance_be_set():
    fleet = a_fleet()
    file_system = add(fleet)
    fleet.file_systems.set_balance(file_system().resource_id, 50)
    fleet.file_systems.set_load(file_system().resource_id, FULL_BURST, START + timedelta(seconds=60))
    fleet.clock.advance(120)
    assert file_system().balance_bytes == pytest.approx(
        1.05 * TIB + 60 * 2.832 * MIB - 60 * (100 - 2.832) * MIB, rel=1e-6
    )


def test_ids_are_those_of_aws_and_the_same_in_every_run():
    first, second = add(a_fleet())().resource_id, add(a_fleet())().resource_id
    assert first == second
    assert first.startswith("fs-0")
    assert len(first) == 20


def test_what_does_not_exist_and_what_exists_already_is_an_error():
    fleet = a_fleet()
    add(fleet, file_system_id="fs-0123456789abcdef0")
    with pytest.raises(FileSystemError, match="exists already"):
        add(fleet, file_system_id="fs-0123456789abcdef0")
    fleet.file_systems.remove("fs-0123456789abcdef0")
    with pytest.raises(FileSystemError, match="is not one of the lab's 0 file systems"):
        fleet.file_systems.find("fs-0123456789abcdef0")


@pytest.mark.parametrize(
    "changes",
    [
        {"size_gib": -1},
        {"balance_pct": 101},
        {"throughput_mode": "fast"},
        {"throughput_mode": "provisioned"},
        {"provisioned_mib_s": 5.0},
    ],
)
def test_a_definition_that_cannot_be_is_refused(changes):
    with pytest.raises(ValueError, match="give"):
        LabFileSystem(**{"size_gib": 1} | changes)
