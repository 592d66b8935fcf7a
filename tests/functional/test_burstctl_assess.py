"""burstctl assess: what it shows, to whom, and what its exit code says."""

import json
from datetime import timedelta

import pytest
from operators_desk import OperatorsDesk, a_lab, add, add_calm, add_critical, add_warning

from burstlab.model.volume import MetricFault


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


def test_volumes_are_shown_most_urgent_first_with_the_estimate_and_the_bound(desk, lab):
    add_calm(lab, "web-1")
    warning, critical = add_warning(lab), add_critical(lab)

    ran = desk.run("assess")

    header, first, second, third = ran.out.splitlines()
    assert " ".join(header.split()) == "LEVEL VOLUME NAME BALANCE DRY (UTC) DRAIN/S BASELINE GIB INSTANCE"
    assert first.split()[:3] == ["critical", critical, "ci-7"]
    assert "33.0 %  in 10 min (18:10), not before 18:10    2,700       300  100  i-0" in first
    assert second.split()[:3] == ["warning", warning, "build-3"]
    assert "41.0 %  in 40 min (18:40), not before 18:12      900       300  100  i-0" in second
    assert third.split()[:1] == ["ok"]
    assert "100.0 %  not draining" in third
    assert ran.code == 3


def test_where_it_leads_to_a_pipe_there_is_no_colour_and_no_trailing_space(desk, lab):
    add_critical(lab)

    ran = desk.run("assess")

    assert "\x1b" not in ran.out
    assert all(line == line.rstrip() for line in ran.out.splitlines())


def test_words_go_to_stderr_policy_ledger_totals_calls_dollars_and_the_age_of_the_data(desk, lab):
    add_critical(lab)
    add_calm(lab)

    ran = desk.run("assess")

    policy, ledger, totals, effort = ran.err.splitlines()
    assert policy == "policy: built-in defaults (no --policy, BURSTWATCH_POLICY or ./policy.yaml)"
    assert ledger == f"ledger: sqlite:{desk.ledger_path} (none yet)"
    assert totals == "2 volumes in us-east-1 at 2026-11-20T18:00:00Z: 1 critical, 1 ok"
    # two balances and the operations of the critical one; $0.01 a thousand
    # every 15 min: 2,880 looks in 30 days, $0.0288 each; critical: every minute, three metrics, $1.296
    assert effort == (
        "newest datapoint 60 s old; 4 calls to AWS, 4 metrics read for $0.00004;"
        " watching costs $0.06 a month while all are calm,"
        " $1.32 as they are now"
    )


def test_json_is_one_object_with_every_key_of_the_contract(desk, lab):
    critical = add_critical(lab, tags={"burstwatch:mode": "auto"})

    ran = desk.run("assess", "--json")

    report = ran.document
    assert report["schema"] == "burstwatch.report/v1"
    assert report["generated_at"] == "2026-11-20T18:00:00Z"
    assert report["ledger"] == f"sqlite:{desk.ledger_path}"
    assert {"region", "totals", "cost", "api_calls", "volumes", "missing", "failures"} <= set(report)
    (volume,) = report["volumes"]
    assert volume | {"instance_id": "i-1"} == volume | {
        "volume_id": critical, "name": "ci-7", "volume_type": "gp2", "size_gib": 100, "instance_id": "i-1",
        "baseline_iops": 300, "burst_balance_pct": 33.0, "credits": 1_782_000, "drain_per_s": 2700.0,
        "time_to_empty_s": 600, "soonest_empty_s": 600, "datapoint_age_s": 60, "level": "critical",
        "unknown_reason": None, "fault": False, "mode": "auto",
    }  # fmt: skip
    assert volume["decision"]["action"] == "flip", "it says what it would do"
    assert volume["outcome"] == {
        "action": "none", "because": None, "error_code": None, "refusal": None, "retry_at": None,
    }  # fmt: skip
    assert report["totals"]["by_level"] == {"critical": 1}
    assert report["api_calls"]["ec2:DescribeVolumes"] == 1


def test_json_may_be_asked_for_before_the_command_as_well(desk, lab):
    add_calm(lab)

    assert desk.run("--json", "assess").document["totals"]["volumes"] == 1
    assert desk.run("--region", "eu-west-1", "assess", "--json").document["region"] == "eu-west-1"


def test_nothing_is_written_anywhere(desk, lab):
    add_critical(lab)

    desk.run("assess")

    assert not desk.ledger_path.parent.exists()
    assert "ModifyVolume" not in lab.faults.calls()


def test_what_the_watchdog_remembers_counts_and_stays_as_it_was(desk, lab):
    volume_id = add_warning(lab)
    desk.run("watch", "--once")
    lab.fleet.set_load(volume_id, "steady:300")
    lab.clock.advance(300)
    before = desk.ledger_path.read_bytes()

    ran = desk.run("assess", "--json")

    assert ran.document["volumes"][0]["level"] == "warning", "a level is kept until its leaving rule holds"
    assert ran.document["volumes"][0]["decision"]["action"] == "none", "people know already"
    assert desk.ledger_path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["assess"], 3), (["assess", "--exit-zero"], 0), (["--exit-zero", "assess"], 0)],
)
def test_a_volume_at_warning_is_attention_and_exit_zero_excuses_it(desk, lab, arguments, code):
    add_warning(lab)

    assert desk.run(*arguments).code == code


def test_a_calm_fleet_is_fine_and_so_is_an_empty_one(desk, lab):
    assert desk.run("assess").code == 0
    assert "0 volumes in us-east-1" in desk.run("assess").err
    add_calm(lab)
    add(lab, "lake", size_gib=1200)
    add(lab, "spare", attached=False)

    assert desk.run("assess").code == 0


def test_missing_data_is_attention_and_stands_before_what_is_only_watched(desk, lab):
    add(lab, "low", balance_pct=80)
    silent = add(lab, "silent", "steady:50", minutes=90, created_at=lab.clock.now().replace(year=2025))
    lab.fleet.hide_metrics(
        silent, from_at=lab.clock.now() - timedelta(hours=2), to_at=lab.clock.now(), only_balance=True
    )

    ran = desk.run("assess")

    assert ran.code == 3
    assert [line.split()[0] for line in ran.out.splitlines()] == ["LEVEL", "unknown", "watch"]
    assert (
        f"fault: {silent} (silent): no datapoint for 30 min while attached to a running instance" in ran.err
    )


def test_an_unread_volume_is_a_failure_that_exit_zero_does_not_excuse(desk, lab):
    add_critical(lab)
    unread = add_calm(lab, "secret")
    lab.fleet.set_metric_fault(unread, MetricFault(status_code="Forbidden", message="not yours"))

    ran = desk.run("assess", "--exit-zero")

    assert ran.code == 1
    assert "critical" in ran.out, "the others are shown"
    assert f"fault: {unread} (secret): cloudwatch:GetMetricData failed (Forbidden)" in ran.err


def test_only_the_volumes_asked_for_are_looked_at(desk, lab):
    add_critical(lab)
    asked = add_calm(lab, "web-1")

    ran = desk.run("assess", asked, asked, "--json")

    assert [volume["volume_id"] for volume in ran.document["volumes"]] == [asked]
    assert ran.code == 0


def test_each_unknown_volume_is_named_and_the_others_are_shown(desk, lab):
    known = add_calm(lab)
    gone = "vol-0123456789abcdef0", "vol-12345678"

    ran = desk.run("assess", *gone, known)

    assert ran.code == 1
    assert known in ran.out
    assert ran.complaints == [
        f"burstctl: there is no volume {volume_id} in us-east-1: check the id, the region, the account"
        for volume_id in gone
    ]
    assert desk.run("assess", *gone, "--json").document["missing"] == list(gone)


@pytest.mark.parametrize(
    "volume_id",
    ["vol-123", "vol-0123456789ABCDEF0", "i-0123456789abcdef0", "vol-012345678", "", "vol-0123456\n8"],
)
def test_what_can_be_no_volume_id_is_misuse_before_any_call(desk, lab, volume_id):
    ran = desk.run("assess", "vol-0123456789abcdef0", volume_id)

    assert ran.code == 2
    assert f"{volume_id!r} is no volume id: vol- and 17 (or 8) digits from 0-9a-f" in " ".join(
        ran.err.split()
    )
    assert lab.faults.calls() == {}


def test_hostile_names_and_tags_are_inert(desk, lab):
    tags = {"burstwatch:mode": "auto\u202e\u2028oops"}
    add_warning(lab, "evil\u0085name\u202e[red]x[/red] \u200b:smile:\tend", tags=tags)

    ran = desk.run("assess")

    row = ran.out.splitlines()[1]
    assert "evil name?[red]x[/red] ?:smile: end" in row
    assert len(ran.out.splitlines()) == 2
    for text in (ran.out, ran.err):
        assert not {"\u202e", "\u200b", "\u2028", "\u0085", "\x1b", "\t"} & set(text)
    assert "(evil name?[red]x[/red] ?:smile: end): burstwatch:mode='auto??oops' is not observe" in ran.err
    as_json = desk.run("assess", "--json").out
    assert as_json.isascii()
    assert json.loads(as_json)["volumes"][0]["name"].startswith("evil\u0085name\u202e")


def test_ignored_volumes_are_named_on_stderr_and_not_judged(desk, lab):
    ignored = add_critical(lab, tags={"burstwatch:ignore": "true"})

    ran = desk.run("assess")

    assert ran.code == 0
    assert ran.out == ""
    assert f"ignored by tag: {ignored}" in ran.err


def test_of_a_large_fleet_the_urgent_are_shown_and_the_calm_are_counted(desk, lab):
    for number in range(25):
        add_calm(lab, f"web-{number}")
    add(lab, "nearly", balance_pct=96.2, minutes=2)
    add(lab, "lake", size_gib=1200)
    add_warning(lab)

    ran = desk.run("assess")

    assert [line.split()[0] for line in ran.out.splitlines()[:2]] == ["LEVEL", "warning"]
    assert ran.out.splitlines()[2:] == [
        "and 26 calm volumes, lowest 96.2 %",
        "and 1 unwatched volume: 1 cannot run dry",
        "(--all shows everything)",
    ]
    assert len(desk.run("assess", "--all").out.splitlines()) == 1 + 28


def test_a_pass_takes_few_calls(desk, lab):
    for number in range(30):
        add_calm(lab, f"web-{number}")

    desk.run("assess")

    named = {action: count for action, count in lab.faults.calls().items() if not action.endswith("unnamed")}
    assert named == {
        "GetParametersByPath": 1,  # is a stack deployed here?
        "DescribeVolumes": 1,
        "DescribeVolumesModifications": 1,
        "GetMetricData": 1,
    }
