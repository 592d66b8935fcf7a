"""The organisation on paper: its arithmetic, worked by hand."""

import pytest
from benches import load_bench


@pytest.fixture(scope="module")
def paper():
    return load_bench("organisation")


@pytest.fixture
def stack():
    return load_bench("bill").Stack(
        alarms=17,
        dashboards=1,
        keys=1,
        functions=4,
        watch_gib=1769 / 1024,
        watch_timeout_s=300,
        event_queues=2,
    )


def test_every_volume_is_in_one_fleet_and_skewed_accounts_differ(paper):
    organisation = paper.Organisation(accounts=4, volumes=1_000, shares=(0.75, 0.25), skew=1.0)
    fleets = organisation.fleets()
    # weights 1, 1/2, 1/3, 1/4 sum to 25/12: the largest account has 480 volumes, 360 of them in one region
    assert len(fleets) == 8
    assert sum(fleets) == pytest.approx(1_000)
    assert fleets[:2] == pytest.approx([360, 180])


def test_alike_accounts_have_alike_fleets(paper):
    assert set(paper.Organisation(accounts=10, volumes=100, shares=(1.0,), skew=0.0).fleets()) == {10}


def test_what_is_due_and_what_it_costs_follow_from_the_cadence(paper):
    small = paper.Organisation(sizes_gib=(100,))
    assert small.due == pytest.approx(300 / 900)  # every 15 minutes
    assert small.usd_idle == pytest.approx(30 * 24 * 4 * 0.01 / 1_000)


def test_few_things_need_less_than_one_call(paper):
    assert [paper.batches(things, 500) for things in (0, 0.2, 1, 400, 750)] == [0, 0.2, 1, 1, 1.5]


def test_a_stack_asks_for_pages_at_each_sweep_and_for_volumes_in_focus_each_minute(paper):
    calls = paper.calls_of(3_000, paper.Organisation(sizes_gib=(100,), in_focus=0.0))
    assert calls == {
        "DescribeVolumes": 8_640 * 6,
        "DescribeVolumesModifications": 8_640,
        "GetMetricData": 8_640 * 2,  # 1,000 volumes are due
    }
    busy = paper.calls_of(3_000, paper.Organisation(sizes_gib=(100,), in_focus=0.01))
    assert busy["DescribeVolumes"] - calls["DescribeVolumes"] == 43_200  # 30 in focus, 6 of them a minute
    assert busy["GetMetricData"] - calls["GetMetricData"] == 2 * 43_200


def test_the_total_is_the_sum_of_its_lines_and_mostly_reading(paper, stack):
    organisation = paper.Organisation(accounts=10, volumes=100_000, in_focus=0.0, sizes_gib=(100,))
    bill = paper.bill_of(organisation, stack, 13)
    total = bill.pop("total")
    assert total == pytest.approx(sum(bill.values()))
    assert bill["reading calm volumes"] == pytest.approx(100_000 * 0.0288)
    assert bill["17 alarms"] == pytest.approx(30 * 1.70)
    assert bill["reading volumes in focus"] == 0


def test_a_sweep_waits_for_pages_then_for_the_pace_of_datapoints(paper, monkeypatch):
    monkeypatch.setattr(paper, "LIST_S", 0.0)
    monkeypatch.setattr(paper, "LOOK_S", 0.0)
    # 200 pages of 30 ms; 31 datapoints of 100,000 volumes at 150,000 a second
    assert paper.sweep_wall_s(100_000, 1.0) == pytest.approx(200 * 0.03 + 3_100_000 / 150_000)


def test_what_binds_first_comes_first_and_aws_binds_long_after_us(paper, stack):
    found = paper.limits(paper.Organisation(), stack)
    volumes = [limit.volumes for limit in found]
    assert volumes == sorted(volumes)
    ours = [limit.volumes for limit in found if limit.is_ours]
    by_what = {limit.what.split(":")[0]: limit.volumes for limit in found if not limit.is_ours}
    assert min(ours) > 50_000
    assert by_what["EC2"] == 20 * 300 * 500
    assert by_what["EC2"] > max(ours)


def test_the_tables_are_printed(paper, stack, monkeypatch, capsys):
    monkeypatch.setattr(paper, "read_stack", lambda: stack)
    paper.main()
    told = capsys.readouterr().out
    assert "| as said | 3,000 | 12,000 |" in told
    assert "| total |" in told
