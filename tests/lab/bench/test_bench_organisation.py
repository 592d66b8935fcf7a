"""The organisation on paper: its arithmetic, worked by hand."""

import pytest


def test_every_volume_is_in_one_fleet_and_skewed_accounts_differ(organisation_model):
    organisation = organisation_model.Organisation(accounts=4, volumes=1_000, shares=(0.75, 0.25), skew=1.0)
    fleets = organisation.fleets()
    # weights 1, 1/2, 1/3, 1/4 sum to 25/12: the largest account has 480 volumes, 360 of them in one region
    assert len(fleets) == 8
    assert sum(fleets) == pytest.approx(1_000)
    assert fleets[:2] == pytest.approx([360, 180])


def test_equal_accounts_have_equal_fleets(organisation_model):
    assert set(
        organisation_model.Organisation(accounts=10, volumes=100, shares=(1.0,), skew=0.0).fleets()
    ) == {10}


def test_what_is_due_and_what_it_costs_follow_from_the_cadence(organisation_model):
    small = organisation_model.Organisation(sizes_gib=(100,))
    assert small.due == pytest.approx(300 / 900)  # every 15 minutes
    assert small.usd_per_calm_volume == pytest.approx(30 * 24 * 4 * 0.01 / 1_000)


def test_few_operations_need_less_than_one_call(organisation_model):
    assert [organisation_model.count_batches(operations, 500) for operations in (0, 0.2, 1, 400, 750)] == [
        0,
        0.2,
        1,
        1,
        1.5,
    ]


def test_a_stack_requests_pages_at_each_sweep_and_for_volumes_in_focus_each_minute(organisation_model):
    calls = organisation_model.estimate_calls(
        3_000, organisation_model.Organisation(sizes_gib=(100,), in_focus=0.0)
    )
    assert calls == {
        "DescribeVolumes": 8_640 * 6,
        "DescribeVolumesModifications": 8_640,
        "GetMetricData": 8_640 * 2,  # 1,000 volumes are due
    }
    busy = organisation_model.estimate_calls(
        3_000, organisation_model.Organisation(sizes_gib=(100,), in_focus=0.01)
    )
    assert busy["DescribeVolumes"] - calls["DescribeVolumes"] == 43_200  # 30 in focus, 6 of them a minute
    assert busy["GetMetricData"] - calls["GetMetricData"] == 2 * 43_200


def test_the_total_is_the_sum_of_its_lines_and_mostly_reading(organisation_model, stack):
    organisation = organisation_model.Organisation(
        accounts=10, volumes=100_000, in_focus=0.0, sizes_gib=(100,)
    )
    bill = organisation_model.estimate_costs(organisation, stack, 13)
    total = bill.pop("total")
    assert total == pytest.approx(sum(bill.values()))
    assert bill["reading calm volumes"] == pytest.approx(100_000 * 0.0288)
    assert bill["17 alarms"] == pytest.approx(30 * 1.70)
    assert bill["reading volumes in focus"] == 0


def test_a_sweep_waits_for_pages_then_for_the_pace_of_datapoints(organisation_model, monkeypatch):
    monkeypatch.setattr(organisation_model, "LIST_CPU_S", 0.0)
    monkeypatch.setattr(organisation_model, "ASSESS_CPU_S", 0.0)
    # 200 pages of 30 ms; 31 datapoints of 100,000 volumes at 150,000 a second
    assert organisation_model.sweep_wall_s(100_000, 1.0) == pytest.approx(200 * 0.03 + 3_100_000 / 150_000)


def test_limits_are_listed_in_the_order_they_bind(organisation_model, stack):
    result = organisation_model.list_limits(organisation_model.Organisation(), stack)
    volumes = [limit.volumes for limit in result]
    assert volumes == sorted(volumes)
    our_limits = [limit.volumes for limit in result if limit.is_configured]
    by_what = {limit.description.split(":")[0]: limit.volumes for limit in result if not limit.is_configured}
    assert min(our_limits) > 50_000
    assert by_what["EC2"] == 20 * 300 * 500
    assert by_what["EC2"] > max(our_limits)


def test_the_tables_are_printed(organisation_model, stack, monkeypatch, capsys):
    monkeypatch.setattr(organisation_model, "read_stack", lambda: stack)
    organisation_model.main()
    printed = capsys.readouterr().out
    assert "| as said | 3,000 | 12,000 |" in printed
    assert "| total |" in printed
