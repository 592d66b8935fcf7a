"""burstctl explain: every number behind a decision, each worked by hand."""

from html import unescape

import pytest

from burstlab.model.modification import Modification, VolumeSpec
from burstlab.model.volume import MetricFault
from burstwatch.core.ledger.flip_state import WATCHDOG, ModificationUse
from burstwatch.core.ledger.ledger import Change
from support.builders.states import build_state
from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_gp3,
    add_lab_instance,
    add_lab_volume,
    add_warning,
)


def lines_by_topic(result) -> dict[str, str]:
    """What is said on each topic, on one line."""
    text_by_topic: dict[str, str] = {}
    topic = ""
    lines = result.out.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("vol-")), 0)
    for line in lines[first:]:
        topic = line[:10].strip() or topic
        text_by_topic[topic] = f"{text_by_topic.get(topic, '')} {line[10:].strip()}".strip()
    return text_by_topic


def test_the_arithmetic_of_a_draining_volume(cli, lab):
    volume_id = add_warning(lab, instance_id="i-0123456789abcdef0")

    result = cli.run("explain", volume_id, "--verbose")
    by_topic = lines_by_topic(result)

    assert result.code == 0, "attention is for assess and watch"
    assert f"\n{volume_id} (build-3), gp2, 100 GiB, on i-0123456789abcdef0 as" in result.out
    assert by_topic["Level"] == "warning: at this pace it is empty within 60 min"
    assert by_topic["Baseline"] == "3 * 100 GiB = 300 IOPS; as many credits come back per second"
    assert by_topic["Balance"] == (
        "41.0 % of 5,400,000 = 2,214,000 credits, lowest of the minute that ended 17:59 UTC, 60 s ago"
    )
    assert by_topic["Bound"] == (
        "2,214,000 / (3,000 - 300) = 820 s, less the 60 s since the datapoint: not empty before 18:12 UTC"
    )
    assert by_topic["Estimate"].startswith(
        "2,214,000 / 900 = 2,460 s, less the 60 s: empty in 40 min (18:40 UTC)"
    )
    assert "over 5 min: 900 credits/s, empty in 41 min" in by_topic["Drains"]
    assert by_topic["Drains"].count("<-") == 1
    assert by_topic["Began"] == "The drain began at 17:41 UTC or earlier"
    assert by_topic["Served"] == "300 reads/s and 900 writes/s over the newest five minutes"
    assert by_topic["Look"] == (
        "every 60 s, in focus: 41.0 % lasts 820 s at worst, no longer than the 840 s reserved for lag,"
        " slack and acting, so it is polled as often as possible"
    )
    assert by_topic["Next step"] == "you: flip it (mode is propose; ok before, now warning)"
    assert by_topic["Ledger"] == "there is no flip, hold or alert of this volume"
    assert "warning ends when the estimate is beyond 90 min" in by_topic["Next"]


def test_an_estimate_sooner_than_the_bound_is_limited_by_it_in_words(cli, lab):
    """Put at 33 % three minutes ago: no workload drains a volume that fast."""
    volume_id = add_lab_volume(lab, "jumped")
    lab.fleet.set_balance(volume_id, 33)
    lab.clock.advance(180)
    by_topic = lines_by_topic(cli.run("explain", volume_id, "--verbose"))
    assert by_topic["Estimate"].startswith("1,80")
    assert (
        "s, less the 60 s; it cannot drain that fast, so the bound is used: empty in" in by_topic["Estimate"]
    )
    assert by_topic["Bound"].rpartition("before ")[2].removesuffix(" UTC") in by_topic["Estimate"]


def test_the_drain_that_decides_and_why(cli, lab):
    counted = cli.run("explain", add_critical(lab), "--json").document
    # 33 % last 660 s at 2,700/s: within three times five minutes, not within three times three
    assert [drain["span_s"] for drain in counted["drains"] if drain["speaks"]] == [300]
    assert [drain["counts"] for drain in counted["drains"]][:2] == [False, True]
    assert counted["is_believed"]

    believed = lines_by_topic(cli.run("explain", add_warning(lab), "--verbose"))["Drains"]
    # 41 % last 41 min at 900/s: only a drain that has lasted 14 min may say so
    assert "over 15 min: 900 credits/s, empty in 41 min <-" in believed
    assert believed.endswith("of those within it, the soonest to empty counts")


def test_a_drain_too_short_to_extrapolate_is_not_used(cli, lab):
    # since 17:54 at 900/s; 60 - 5 = 55 % last 55 min, five minutes are believed for fifteen
    result = cli.run(
        "explain", add_lab_volume(lab, "young", "steady:1200", balance_pct=60, minutes=6), "--verbose"
    )
    by_topic = lines_by_topic(result)

    assert by_topic["Level"].startswith("watch")
    assert "so the longest is shown and sets no level" in by_topic["Drains"]
    assert "longer than the drain allows, so it sets no level" in by_topic["Estimate"]


def test_a_refilling_volume_has_no_estimate(cli, lab):
    volume_id = add_lab_volume(lab, "resting", "steady:20", balance_pct=50)

    by_topic = lines_by_topic(cli.run("explain", volume_id, "--verbose"))

    assert by_topic["Estimate"] == "none: refilling, full in 2 h"
    assert "Began" not in by_topic
    assert "so no drain is used" in by_topic["Drains"]
    assert by_topic["Level"].startswith("watch: the balance is below 97 %")


def test_a_calm_volume_is_evaluated_in_the_sweep(cli, lab):
    by_topic = lines_by_topic(cli.run("explain", add_calm(lab), "--verbose"))

    # 95 % of 5,400,000 / 2,700 = 1,900 s; 1,900 - 840 = 1,060 s: three sweep ticks of five minutes
    assert by_topic["Look"] == (
        "every 15 min, in the sweep: 95 % lasts 1,900 s at worst; less the 840 s reserved for lag, slack"
        " and acting, 1,060 s remain"
    )


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        ({"size_gib": 1200}, "unwatched: cannot become empty"),
        ({"attached": False}, "unknown: detached"),
        ({"volume_type": "gp3"}, "unwatched: no burst credits"),
    ],
)
def test_what_is_not_polled_is_reported_in_words(cli, lab, facts, level):
    by_topic = lines_by_topic(cli.run("explain", add_lab_volume(lab, "aside", **facts), "--verbose"))

    assert by_topic["Level"] == level
    assert "Bound" not in by_topic
    assert by_topic["Look"].startswith("not polled while this lasts")


def test_a_volume_in_modification_earns_by_its_smaller_size(cli, lab):
    volume_id = add_calm(lab, size_gib=200)
    lab.fleet.set_modification(
        volume_id,
        Modification(
            state="optimizing",
            original=VolumeSpec(volume_type="gp2", size_gib=100, iops=300),
            target=VolumeSpec(volume_type="gp2", size_gib=200, iops=600),
            started_at=lab.clock.now(),
        ),
    )

    by_topic = lines_by_topic(cli.run("explain", volume_id))

    assert by_topic["Baseline"].startswith("3 * 100 GiB (the smaller size of its modification) = 300 IOPS")


def test_the_mode_and_where_it_comes_from(cli, lab):
    untagged = add_calm(lab)
    opted_in = add_calm(lab, tags={"burstwatch:mode": "auto", "burstwatch:critical": "true"})
    wrong = add_calm(lab, tags={"burstwatch:mode": "autoo"})

    assert lines_by_topic(cli.run("explain", untagged))["Mode"].startswith(
        "propose (the policy's default, no tag"
    )
    by_topic = lines_by_topic(cli.run("explain", opted_in))["Mode"]
    assert by_topic.startswith("auto (tag burstwatch:mode=auto): alerts, and may be flipped")
    assert by_topic.endswith("tagged critical")
    by_topic = lines_by_topic(cli.run("explain", wrong))["Mode"]
    assert "tag at fault: burstwatch:mode='autoo' is not observe, propose or auto" in by_topic


def test_what_the_ledger_remembers(cli, lab):
    volume_id = add_critical(lab)
    cli.run("watch", "--once")

    result = cli.run("explain", volume_id, "--verbose")
    by_topic = lines_by_topic(result)

    assert by_topic["Level"].endswith("; last judged critical")
    assert by_topic["Next step"] == "you: flip it (mode is propose; critical, alerted 0 s ago)"
    assert by_topic["Ledger"] == (
        "critical since 2026-11-20T18:00:00Z alerted as critical at 2026-11-20T18:00:00Z"
        " 2026-11-20T18:00:00Z level ok -> critical"
        " 2026-11-20T18:00:00Z alert BurstBalanceDraining (critical)"
        " 2026-11-20T18:00:00Z delivered to terminal"
    )
    remembered = cli.run("explain", volume_id, "--json").document["remembered"]
    assert remembered["state"]["level"] == "critical"
    assert [entry["kind"] for entry in remembered["entries"]] == ["level_changed", "alert", "delivered"]


def test_json_is_always_one_object(cli, lab):
    ignored = add_calm(lab, tags={"burstwatch:ignore": "true"})

    explained = cli.run("explain", add_warning(lab), "--json").document
    assert explained["schema"] == "burstwatch.explanation/v1"
    assert explained["volume"]["level"] == "warning"
    assert explained["because"] == "at this pace it is empty within 60 min"
    assert cli.run("explain", ignored, "--json").document["ignored"] == [ignored]
    result = cli.run("explain", "vol-0123456789abcdef0", "--json")
    assert result.document["volume"] is None
    assert result.document["missing"] == ["vol-0123456789abcdef0"]
    assert result.code == 1


def test_an_ignored_volume_is_reported_as_ignored(cli, lab):
    ignored = add_calm(lab, tags={"burstwatch:ignore": "true"})

    result = cli.run("explain", ignored)

    assert (result.code, result.out) == (0, "")
    assert f"{ignored} carries the tag burstwatch:ignore=true" in result.err


def test_an_unread_volume_is_a_failure_with_its_reason(cli, lab):
    volume_id = add_calm(lab)
    lab.fleet.set_metric_fault(volume_id, MetricFault(status_code="Forbidden", message="not yours"))

    result = cli.run("explain", volume_id)

    assert result.code == 1
    assert lines_by_topic(result)["Level"] == "unknown: could not be read"
    [error] = result.error_lines
    assert "Forbidden: not yours; 1 volume could not be read: calm." in error
    assert result.err.endswith("next: burstctl doctor\n")


def test_a_hostile_name_is_inert(cli, lab):
    result = cli.run("explain", add_calm(lab, "evil\u202e\u0085[bold]name"))

    assert "(evil? [bold]name)" in result.out
    assert not {"\u202e", "\u0085", "\x1b"} & set(result.out)


def test_it_changes_nothing(cli, lab):
    cli.run("explain", add_critical(lab))

    assert not cli.ledger_path.parent.exists()


def test_it_fits_eighty_columns(cli, lab):
    result = cli.run("explain", add_warning(lab, "a-very-long-name-of-a-volume-that-somebody-liked"))

    assert max(map(len, result.out.splitlines())) <= 80


def test_what_would_refuse_a_flip_now(cli, lab):
    untagged, opted_in = add_warning(lab), add_warning(lab, tags={"burstwatch:mode": "auto"})

    by_topic = lines_by_topic(cli.run("explain", untagged))["Guards"]
    assert by_topic.startswith("a flip to gp3 with 3,000 IOPS and 128 MiB/s by the watchdog is refused now:")
    assert "not_opted_in: its mode is propose" in by_topic
    by_topic = lines_by_topic(cli.run("explain", opted_in))["Guards"]
    assert by_topic == "none refuses a flip to gp3 with 3,000 IOPS and 128 MiB/s by the watchdog now"
    cli.run("hold", "--all", "--for", "1h", "--reason", "INC-42", "--ledger", f"sqlite:{cli.ledger_path}")
    result = cli.run("explain", opted_in)
    assert "held: everything is on hold by" in lines_by_topic(result)["Guards"]
    assert lines_by_topic(result)["Hold"].startswith("all changes are on hold for 60 min (until 19:00 UTC)")


def test_the_caps_are_checked_as_well(cli, lab):
    away, waiting = add_critical(lab), add_warning(lab, tags={"burstwatch:mode": "auto"})
    (cli.directory / "policy.yaml").write_text("version: 1\nflip:\n  fleet_cap: 1\n")
    cli.run("flip", away, "--yes")

    by_topic = lines_by_topic(cli.run("explain", waiting))["Guards"]

    assert "fleet_cap: 1 volume is flipped or being flipped, and the policy's flip.fleet_cap is 1" in by_topic
    assert by_topic.endswith("how to go on: burstctl runbook FlipRefused")


def test_the_status_of_a_flip_and_what_its_return_waits_for(cli, lab):
    volume_id = add_critical(lab)
    cli.run("flip", volume_id, "--to", "io1", "--iops", "4000", "--for", "6h", "--yes")

    result = cli.run("explain", volume_id)
    assert lines_by_topic(result)["Flip"].startswith("being modified to io1 with 4,000 IOPS, requested by")
    assert "Guards" not in lines_by_topic(result), "it is under way"
    assert lines_by_topic(result)["Quota"].startswith("1 of AWS's 4 modifications in 24 h is used (18:00 by")

    lab.clock.advance(3600)
    cli.run("watch", "--once")
    result = cli.run("explain", volume_id)
    by_topic = lines_by_topic(result)
    assert "is on io1 with 4,000 IOPS since 19:00 UTC" in by_topic["Flip"]
    assert "original type: gp2" in by_topic["Flip"]
    assert "requested io1 with 4,000 IOPS for 5 h (until 00:00 Sat UTC)" in by_topic["Next step"]
    assert by_topic["Guards"] == "none refuses its return to gp2 by the watchdog now"
    assert max(map(len, result.out.splitlines())) <= 80

    document = cli.run("explain", volume_id, "--json").document
    assert document["flip"]["phase"] == "on_target"
    assert document["plan"]["target"]["volume_type"] == "gp2"
    assert document["quota"]["used"] == 1
    assert document["remembered"]["state"]["flip"]["cause"] == "by_hand"


@pytest.mark.parametrize("options", [["--to", "io1", "--for", "6h"], ["--to", "gp3"]])
def test_a_completed_change_that_no_pass_has_recorded_is_not_shown_as_under_way(cli, lab, options):
    volume_id = add_critical(lab)
    cli.run("flip", volume_id, *options, "--iops", "4000", "--yes")
    lab.clock.advance(3600)

    result = cli.run("explain", volume_id)
    by_topic = lines_by_topic(result)

    assert f"{options[1]} with 4,000 IOPS" in by_topic["Flip"]
    assert by_topic["Level"].startswith("fixed: no burst credits")
    assert "on its way" not in result.out
    assert "Guards" not in by_topic
    assert "AWS has completed the change; the next pass of the watchdog records it" in by_topic["Next step"]
    assert by_topic["Quota"].startswith("1 of AWS's 4 modifications in 24 h is used (18:00 by")
    assert cli.run("explain", volume_id, "--json").document["plan"] is None

    cli.run("watch", "--once")
    assert "the next pass" not in lines_by_topic(cli.run("explain", volume_id))["Next step"]


def test_a_volume_that_stays_waits_for_no_return(cli, lab):
    volume_id = add_critical(lab)
    cli.run("flip", volume_id, "--yes")
    lab.clock.advance(3600)
    cli.run("watch", "--once")

    by_topic = lines_by_topic(cli.run("explain", volume_id))

    assert by_topic["Flip"].startswith("stays gp3 with 3,750 IOPS and 128 MiB/s since 19:00 UTC")
    assert "Guards" not in by_topic


def test_its_windows_and_what_they_request(cli, lab):
    volume_id = add_calm(lab, tags={"burstwatch:window": "release"})
    assert lines_by_topic(cli.run("explain", volume_id))["Windows"] == "release: does not run"
    cli.run("window", "start", "release", "--for", "2h", "--yes")

    result = cli.run("explain", volume_id)

    assert (
        lines_by_topic(result)["Windows"]
        == "release: runs by hand: 2026-11-20T18:00:00Z to 2026-11-20T20:00:00Z"
    )
    reported = cli.run("explain", volume_id, "--json").document["windows"]
    assert (reported["names"], reported["phase"]) == (["release"], "inside")


def test_a_volume_that_cannot_run_out_of_credits_has_no_plan(cli, lab):
    document = cli.run("explain", add_lab_volume(lab, "lake", size_gib=1200), "--json").document

    assert (document["plan"], document["flip"], document["windows"]) == (None, None, None)


def test_the_third_flip_of_a_day_is_proposed_everywhere_as_the_watchdog_would_make_it(cli, lab):
    volume_id = add_critical(lab)
    now_s = int(lab.clock.now_s())
    (cli.directory / "policy.yaml").write_text("version: 1\nflip:\n  target: io1\n")
    used = tuple(ModificationUse(at_s=now_s - hours * 3600, by=WATCHDOG) for hours in (6, 4))
    state = build_state(volume_id, 1, used=used)
    with cli.open_ledger() as ledger:
        ledger.commit([Change(volume_id=volume_id, expected_revision=None, state=state)], channels=[])

    explained = cli.run("explain", volume_id)
    document = cli.run("explain", volume_id, "--json").document
    cli.run("report", "--html", "page.html")
    (assessed,) = cli.run("assess", "--json").document["volumes"]
    (watched,) = cli.run("watch", "--once", "--json").document["volumes"]

    target = document["plan"]["target"]
    assert target["volume_type"] == "gp3"
    assert [item["decision"]["target"] for item in (document["volume"], assessed, watched)] == [target] * 3
    because = "not io1, because 2 of AWS's 4 modifications in 24 h are used"
    assert because in lines_by_topic(explained)["Next step"]
    assert max(map(len, explained.out.splitlines())) <= 80
    page = unescape((cli.directory / "page.html").read_text())
    assert "--to io1" not in page
    assert f"burstctl flip {volume_id} --region us-east-1 --to gp3" in page
    assert because in page
    with cli.open_ledger() as ledger:
        (alert,) = [e.body for e in ledger.entries(volume_id) if e.kind == "alert"]
    assert " --to gp3 " in alert["action"]
    assert because in alert["evidence"]["proposal"][-1]


def test_a_flip_that_would_be_refused_because_of_the_instance_is_not_proposed(cli, lab):
    instance_id = add_lab_instance(lab, "i-0123456789abcdef0")
    volume_id = add_critical(lab, instance_id=instance_id)
    add_gp3(lab, load="steady:3600", iops=6_000, instance_id=instance_id)
    lab.fleet.set_instance_balance(instance_id, io_pct=0.0)
    lab.clock.advance(900)

    result = cli.run("explain", volume_id)

    assert f"burstctl flip {volume_id}" not in result.out
    text = " ".join(result.out.split())
    assert f"no flip now: instance {instance_id}, not the volume, is the bottleneck" in text
    assert "use a larger instance type" in text
    assert result.err.splitlines()[-1] == f"next: burstctl explain {instance_id}"
    assert cli.run("flip", volume_id, "--dry-run").code == 4


def test_the_next_command_of_a_volume_without_a_plot_shows_its_limits(cli, lab):
    volume_id = add_lab_volume(lab, "lake", size_gib=500, volume_type="st1")

    assert cli.run("explain", volume_id).err.splitlines()[-1] == f"next: burstctl which {volume_id}"


def test_its_commands_use_the_ledger_that_was_given(cli, lab):
    volume_id = add_critical(lab)

    result = cli.run("explain", volume_id, "--ledger", "sqlite:other.sqlite")

    text = " ".join(result.out.replace("\\\n", " ").split())
    assert f"burstctl flip {volume_id} --region us-east-1 --to gp3" in text
    assert "--throughput 128 --ledger sqlite:other.sqlite AWS is expected" in text
