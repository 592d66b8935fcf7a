"""Which volumes the table shows, in how many rows, and what is left of a row on a narrow terminal."""

from dataclasses import replace

import pytest

from burstctl.render.resource_rows import MAX_UNREAD_ROWS, select_rows
from burstctl.render.table import narrow_table, render_plain
from burstwatch.core.alerts.alert import describe_reading
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.efs.efs_bucket import EFS_BYTES
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.text import display_width
from burstwatch.core.watch.pass_report import PassReport
from support.builders.core_values import a_decision, a_volume, an_assessment, at, balances, draining_to
from support.builders.storage import a_file_system


def a_report(*decisions):
    return PassReport(
        now_s=at("12:00"), region="us-east-1", ledger="", decisions=decisions, cadence=Policy().cadence
    )


def a_decision_for(number, balance=None, *, tags=None, is_critical=False, mode=Mode.PROPOSE, **evidence):
    volume = a_volume(volume_id=f"vol-{number:017x}", tags=tags or {})
    assessment = an_assessment(balance, volume=volume, **evidence)
    return a_decision(assessment, mode=mode, is_critical=is_critical)


def an_unread(number):
    return a_decision_for(number, read_error="cloudwatch:GetMetricData failed")


def render(*decisions, shows_all=False, width=80, other_region=()):
    reports = [
        a_report(*decisions),
        *(replace(a_report(decision), region="eu-west-1") for decision in other_region),
    ]
    selection = select_rows(reports, shows_all=shows_all)
    return render_plain(narrow_table(*selection, width=width, bar=None)).splitlines()


def test_a_few_volumes_that_could_not_be_read_have_rows():
    lines = render(*map(an_unread, range(MAX_UNREAD_ROWS)))
    assert len([line for line in lines if "could not be read" in line]) == MAX_UNREAD_ROWS


@pytest.mark.parametrize(("gib", "rate"), [(0, "1 MiB/s"), (10, "1 MiB/s"), (58, "2.8 MiB/s")])
def test_a_file_system_without_credits_is_throttled_to_what_efs_leaves_it(gib, rate):
    reading = BucketReading(balance=balances(*[0.0] * 20))
    assessment = assess_resource(
        a_file_system(gib), EFS_BYTES, reading, now_s=at("12:00"), telemetry=Policy().telemetry
    )
    row = " ".join(render(a_decision(assessment)))
    assert f"throttled to baseline {rate}" in row
    alert = describe_reading(assessment)
    assert format_limit(alert["baseline"], alert["baseline_unit"]) == rate


def test_many_volumes_that_could_not_be_read_are_counted_and_the_others_shown():
    lines = render(*map(an_unread, range(12)), a_decision_for(50, draining_to(20, 3)))
    assert lines[1].startswith(f"critical  vol-{50:017x}")
    assert lines[3:] == ["and 12 volumes that could not be read"]


def test_without_a_row_there_are_no_titles():
    assert render(*map(an_unread, range(12))) == ["and 12 volumes that could not be read"]


def test_all_shows_every_volume_that_could_not_be_read():
    assert len([line for line in render(*map(an_unread, range(12)), shows_all=True) if "vol-" in line]) == 12


@pytest.mark.parametrize(("width", "end"), [(80, "not draining (ci-7)"), (55, "ci-7"), (40, "ci-7")])
def test_a_calm_volume_keeps_its_name_on_a_narrow_terminal(width, end):
    _, line = render(a_decision_for(1, balances(100, 100, 100, 100), tags={"Name": "ci-7"}), width=width)
    assert line.endswith(f"100.0 %  {end}")


@pytest.mark.parametrize(
    "name", ["ci-7", "a-rather-long-name-of-a-volume", "日本語のとても長い名前のディスク"]
)
@pytest.mark.parametrize("is_critical", [False, True])
@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.AUTO])
@pytest.mark.parametrize("balance", [balances(100, 100, 100), draining_to(20, 3)])
def test_a_row_fits_sixty_columns(name, is_critical, mode, balance):
    decision = a_decision_for(1, balance, tags={"Name": name}, is_critical=is_critical, mode=mode)
    assert max(map(display_width, render(decision, width=60))) <= 60


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("balance", [balances(100, 100, 100), draining_to(90, 0.02), draining_to(20, 3)])
def test_a_critical_volume_shows_its_name_and_that_it_is_critical(width, balance):
    decision = a_decision_for(1, balance, tags={"Name": "etcd-0"}, is_critical=True)
    text = "\n".join(render(decision, width=width))
    assert "etcd-0" in text
    assert "critical, propose" in text


@pytest.mark.parametrize("width", [60, 80])
def test_a_critical_volume_in_one_of_several_regions_shows_the_same(width):
    decision = a_decision_for(1, draining_to(90, 0.02), tags={"Name": "etcd-0"}, is_critical=True)
    text = "\n".join(render(decision, width=width, other_region=[a_decision_for(2, draining_to(20, 3))]))
    assert all(word in text for word in ("etcd-0", "us-east-1", "critical, propose"))


def test_a_calm_volume_gives_up_the_clock_for_its_name_and_its_mode():
    decision = a_decision_for(1, draining_to(90, 0.02), tags={"Name": "kafka-0"}, mode=Mode.AUTO)
    decision = replace(decision, level=Level.OK)
    _, line = render(decision, width=65)
    assert line.endswith("in 3 d (kafka-0, auto)")


def test_what_does_not_fit_beside_the_mode_is_left_out_and_not_cut():
    decision = a_decision_for(1, draining_to(20, 3), tags={"Name": "ci-7"}, mode=Mode.AUTO)
    assert render(decision, width=60)[-1].endswith("auto")
    assert render(decision, width=80)[-1].endswith("auto, drains 2,700/s, baseline 300")
