"""burstctl explain: every number behind a decision, each worked by hand in operators_desk."""

from html import unescape

import pytest
from operators_desk import OperatorsDesk, a_lab, add, add_calm, add_critical, add_warning

from burstlab.model.modification import Modification, Shape
from burstlab.model.volume import MetricFault
from burstwatch.core.ledger.flip_state import WATCHDOG, Spent
from burstwatch.core.ledger.ledger import Change, VolumeState


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


def topics(ran) -> dict[str, str]:
    """What is said on each topic, on one line."""
    said: dict[str, str] = {}
    topic = ""
    lines = ran.out.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("vol-")), 0)
    for line in lines[first:]:
        topic = line[:10].strip() or topic
        said[topic] = f"{said.get(topic, '')} {line[10:].strip()}".strip()
    return said


def test_the_arithmetic_of_a_draining_volume(desk, lab):
    volume_id = add_warning(lab, instance_id="i-0123456789abcdef0")

    ran = desk.run("explain", volume_id, "--verbose")
    said = topics(ran)

    assert ran.code == 0, "attention is for assess and watch"
    assert f"\n{volume_id} (build-3), gp2, 100 GiB, on i-0123456789abcdef0 as" in ran.out
    assert said["Level"] == "warning: at this pace it is dry within 60 min"
    assert said["Baseline"] == "3 * 100 GiB = 300 IOPS; as many credits come back per second"
    assert said["Balance"] == (
        "41.0 % of 5,400,000 = 2,214,000 credits, lowest of the minute that ended 17:59 UTC, 60 s ago"
    )
    assert said["Bound"] == (
        "2,214,000 / (3,000 - 300) = 820 s, less the 60 s since the datapoint: not dry before 18:12 UTC"
    )
    assert said["Estimate"].startswith("2,214,000 / 900 = 2,460 s, less the 60 s: dry in 40 min (18:40 UTC)")
    assert "over 5 min: 900 credits/s, dry in 41 min" in said["Drains"]
    assert said["Drains"].count("<-") == 1
    assert said["Began"] == "The drain began at 17:41 UTC or earlier"
    assert said["Served"] == "300 reads/s and 900 writes/s over the newest five minutes"
    assert said["Look"] == (
        "every 60 s, in focus: 41.0 % lasts 820 s at worst, no longer than the 840 s reserved for lag,"
        " slack and acting, so it is looked at as often as possible"
    )
    assert said["Next step"] == "you: flip it (mode is propose; ok before, now warning)"
    assert said["Ledger"] == "nothing is going on with this volume"
    assert "warning ends when the estimate is beyond 90 min" in said["Next"]


def test_which_drain_speaks_and_why(desk, lab):
    counted = desk.run("explain", add_critical(lab), "--json").document
    # 33 % last 660 s at 2,700/s: within three times five minutes, not within three times three
    assert [drain["span_s"] for drain in counted["drains"] if drain["speaks"]] == [300]
    assert [drain["counts"] for drain in counted["drains"]][:2] == [False, True]
    assert counted["is_believed"]

    believed = topics(desk.run("explain", add_warning(lab), "--verbose"))["Drains"]
    # 41 % last 41 min at 900/s: only a drain that has lasted 14 min may say so
    assert "over 15 min: 900 credits/s, dry in 41 min <-" in believed
    assert believed.endswith("of such drains the one that ends soonest speaks")


def test_a_drain_too_young_for_what_it_says_is_not_believed(desk, lab):
    # since 17:54 at 900/s; 60 - 5 = 55 % last 55 min, five minutes are believed for fifteen
    ran = desk.run("explain", add(lab, "young", "steady:1200", balance_pct=60, minutes=6), "--verbose")
    said = topics(ran)

    assert said["Level"].startswith("watch")
    assert "so the longest speaks, unbelieved" in said["Drains"]
    assert "not believed, so it enters no level" in said["Estimate"]


def test_a_refilling_volume_has_no_estimate(desk, lab):
    volume_id = add(lab, "resting", "steady:20", balance_pct=50)

    said = topics(desk.run("explain", volume_id, "--verbose"))

    assert said["Estimate"] == "none: refilling, full in 2 h"
    assert "Began" not in said
    assert "no drain is believed" in said["Drains"]
    assert said["Level"].startswith("watch: the balance is below 97 %")


def test_a_calm_volume_is_looked_at_in_the_sweep(desk, lab):
    said = topics(desk.run("explain", add_calm(lab), "--verbose"))

    # 95 % of 5,400,000 / 2,700 = 1,900 s; 1,900 - 840 = 1,060 s: three sweep ticks of five minutes
    assert said["Look"] == (
        "every 15 min, in the sweep: 95 % lasts 1,900 s at worst; less the 840 s reserved for lag, slack"
        " and acting, 1,060 s are left"
    )


@pytest.mark.parametrize(
    ("given", "level"),
    [
        ({"size_gib": 1200}, "unknown: cannot run dry"),
        ({"attached": False}, "unknown: detached"),
        ({"volume_type": "gp3"}, "unknown: no burst credits"),
    ],
)
def test_what_is_not_polled_is_said_in_words(desk, lab, given, level):
    said = topics(desk.run("explain", add(lab, "aside", **given), "--verbose"))

    assert said["Level"] == level
    assert "Bound" not in said
    assert said["Look"].startswith("not polled while this lasts")


def test_a_volume_in_modification_earns_by_its_smaller_size(desk, lab):
    volume_id = add_calm(lab, size_gib=200)
    lab.fleet.set_modification(
        volume_id,
        Modification(
            state="optimizing",
            original=Shape(volume_type="gp2", size_gib=100, iops=300),
            target=Shape(volume_type="gp2", size_gib=200, iops=600),
            started_at=lab.clock.now(),
        ),
    )

    said = topics(desk.run("explain", volume_id))

    assert said["Baseline"].startswith("3 * 100 GiB (the smaller size of its modification) = 300 IOPS")


def test_the_mode_and_where_it_comes_from(desk, lab):
    untagged = add_calm(lab)
    opted_in = add_calm(lab, tags={"burstwatch:mode": "auto", "burstwatch:critical": "true"})
    wrong = add_calm(lab, tags={"burstwatch:mode": "autoo"})

    assert topics(desk.run("explain", untagged))["Mode"].startswith("propose (the policy's default, no tag")
    said = topics(desk.run("explain", opted_in))["Mode"]
    assert said.startswith("auto (tag burstwatch:mode=auto): alerts, and may be flipped")
    assert said.endswith("tagged critical")
    said = topics(desk.run("explain", wrong))["Mode"]
    assert "tag at fault: burstwatch:mode='autoo' is not observe, propose or auto" in said


def test_what_the_ledger_remembers(desk, lab):
    volume_id = add_critical(lab)
    desk.run("watch", "--once")

    ran = desk.run("explain", volume_id, "--verbose")
    said = topics(ran)

    assert said["Level"].endswith("; last judged critical")
    assert said["Next step"] == "you: flip it (mode is propose; critical, alerted 0 s ago)"
    assert said["Ledger"] == (
        "critical since 2026-11-20T18:00:00Z alerted as critical at 2026-11-20T18:00:00Z"
        " 2026-11-20T18:00:00Z level ok -> critical"
        " 2026-11-20T18:00:00Z alert BurstBalanceDraining (critical)"
        " 2026-11-20T18:00:00Z delivered to terminal"
    )
    remembered = desk.run("explain", volume_id, "--json").document["remembered"]
    assert remembered["state"]["level"] == "critical"
    assert [entry["kind"] for entry in remembered["entries"]] == ["level_changed", "alert", "delivered"]


def test_json_is_always_one_object(desk, lab):
    ignored = add_calm(lab, tags={"burstwatch:ignore": "true"})

    explained = desk.run("explain", add_warning(lab), "--json").document
    assert explained["schema"] == "burstwatch.explanation/v1"
    assert explained["volume"]["level"] == "warning"
    assert explained["because"] == "at this pace it is dry within 60 min"
    assert desk.run("explain", ignored, "--json").document["ignored"] == [ignored]
    ran = desk.run("explain", "vol-0123456789abcdef0", "--json")
    assert ran.document["volume"] is None
    assert ran.document["missing"] == ["vol-0123456789abcdef0"]
    assert ran.code == 1


def test_an_ignored_volume_says_so(desk, lab):
    ignored = add_calm(lab, tags={"burstwatch:ignore": "true"})

    ran = desk.run("explain", ignored)

    assert (ran.code, ran.out) == (0, "")
    assert f"{ignored} carries the tag burstwatch:ignore=true" in ran.err


def test_an_unread_volume_is_a_failure_with_its_reason(desk, lab):
    volume_id = add_calm(lab)
    lab.fleet.set_metric_fault(volume_id, MetricFault(status_code="Forbidden", message="not yours"))

    ran = desk.run("explain", volume_id)

    assert ran.code == 1
    assert "Forbidden: not yours" in topics(ran)["Level"]


def test_a_hostile_name_is_inert(desk, lab):
    ran = desk.run("explain", add_calm(lab, "evil\u202e\u0085[bold]name"))

    assert "(evil? [bold]name)" in ran.out
    assert not {"\u202e", "\u0085", "\x1b"} & set(ran.out)


def test_it_changes_nothing(desk, lab):
    desk.run("explain", add_critical(lab))

    assert not desk.ledger_path.parent.exists()


def test_it_fits_eighty_columns(desk, lab):
    ran = desk.run("explain", add_warning(lab, "a-very-long-name-of-a-volume-that-somebody-liked"))

    assert max(map(len, ran.out.splitlines())) <= 80


def test_what_would_refuse_a_flip_now(desk, lab):
    untagged, opted_in = add_warning(lab), add_warning(lab, tags={"burstwatch:mode": "auto"})

    said = topics(desk.run("explain", untagged))["Guards"]
    assert said.startswith("a flip to gp3 with 3,000 IOPS and 128 MiB/s by the watchdog is refused now:")
    assert "not_opted_in: its mode is propose" in said
    said = topics(desk.run("explain", opted_in))["Guards"]
    assert said == "none refuses a flip to gp3 with 3,000 IOPS and 128 MiB/s by the watchdog now"
    desk.run("hold", "--all", "--for", "1h", "--reason", "INC-42", "--ledger", f"sqlite:{desk.ledger_path}")
    ran = desk.run("explain", opted_in)
    assert "held: everything is on hold by" in topics(ran)["Guards"]
    assert topics(ran)["Hold"].startswith("everything is kept as it is for 60 min (until 19:00 UTC)")


def test_the_caps_are_asked_as_well(desk, lab):
    away, waiting = add_critical(lab), add_warning(lab, tags={"burstwatch:mode": "auto"})
    (desk.directory / "policy.yaml").write_text("version: 1\nflip:\n  fleet_cap: 1\n")
    desk.run("flip", away, "--yes")

    said = topics(desk.run("explain", waiting))["Guards"]

    assert "fleet_cap: 1 volume is away or on the way, and the policy's flip.fleet_cap is 1" in said
    assert said.endswith("how to go on: runbooks/FlipRefused.md#fleet_cap")


def test_where_a_flip_stands_and_what_its_return_waits_for(desk, lab):
    volume_id = add_critical(lab)
    desk.run("flip", volume_id, "--to", "io1", "--iops", "4000", "--for", "6h", "--yes")

    ran = desk.run("explain", volume_id)
    assert topics(ran)["Flip"].startswith("on its way to io1 with 4,000 IOPS, asked for by")
    assert "Guards" not in topics(ran), "it is under way"
    assert topics(ran)["Quota"].startswith("1 of AWS's 4 modifications in 24 h is used (18:00 by")

    lab.clock.advance(3600)
    desk.run("watch", "--once")
    ran = desk.run("explain", volume_id)
    said = topics(ran)
    assert "is on io1 with 4,000 IOPS since 19:00 UTC" in said["Flip"]
    assert "it was gp2" in said["Flip"]
    assert "wants it io1 with 4,000 IOPS for 5 h (until 00:00 Sat UTC)" in said["Next step"]
    assert said["Guards"] == "none refuses its return to gp2 by the watchdog now"
    assert max(map(len, ran.out.splitlines())) <= 80

    told = desk.run("explain", volume_id, "--json").document
    assert told["flip"]["phase"] == "on_target"
    assert told["plan"]["target"]["volume_type"] == "gp2"
    assert told["quota"]["used"] == 1
    assert told["remembered"]["state"]["flip"]["cause"] == "by_hand"


@pytest.mark.parametrize("options", [["--to", "io1", "--for", "6h"], ["--to", "gp3"]])
def test_a_completed_change_that_no_pass_has_recorded_is_not_shown_as_under_way(desk, lab, options):
    volume_id = add_critical(lab)
    desk.run("flip", volume_id, *options, "--iops", "4000", "--yes")
    lab.clock.advance(3600)

    ran = desk.run("explain", volume_id)
    said = topics(ran)

    assert f"{options[1]} with 4,000 IOPS" in said["Flip"]
    assert said["Level"].startswith("unknown: no burst credits")
    assert "on its way" not in ran.out
    assert "Guards" not in said
    assert "AWS has completed the change; the next pass of the watchdog records it" in said["Next step"]
    assert said["Quota"].startswith("1 of AWS's 4 modifications in 24 h is used (18:00 by")
    assert desk.run("explain", volume_id, "--json").document["plan"] is None

    desk.run("watch", "--once")
    assert "the next pass" not in topics(desk.run("explain", volume_id))["Next step"]


def test_a_volume_that_stays_waits_for_no_return(desk, lab):
    volume_id = add_critical(lab)
    desk.run("flip", volume_id, "--yes")
    lab.clock.advance(3600)
    desk.run("watch", "--once")

    said = topics(desk.run("explain", volume_id))

    assert said["Flip"].startswith("stays gp3 with 3,750 IOPS and 128 MiB/s since 19:00 UTC")
    assert "Guards" not in said


def test_its_windows_and_what_they_ask_for(desk, lab):
    volume_id = add_calm(lab, tags={"burstwatch:window": "release"})
    assert topics(desk.run("explain", volume_id))["Windows"] == "release: does not run"
    desk.run("window", "start", "release", "--for", "2h", "--yes")

    ran = desk.run("explain", volume_id)

    assert topics(ran)["Windows"] == "release: runs by hand: 2026-11-20T18:00:00Z to 2026-11-20T20:00:00Z"
    told = desk.run("explain", volume_id, "--json").document["windows"]
    assert (told["names"], told["phase"]) == (["release"], "inside")


def test_a_volume_that_cannot_run_dry_has_no_plan(desk, lab):
    told = desk.run("explain", add(lab, "lake", size_gib=1200), "--json").document

    assert (told["plan"], told["flip"], told["windows"]) == (None, None, None)


def test_the_third_flip_of_a_day_is_proposed_everywhere_as_the_watchdog_would_make_it(desk, lab):
    volume_id = add_critical(lab)
    now_s = int(lab.clock.now_s())
    (desk.directory / "policy.yaml").write_text("version: 1\nflip:\n  target: io1\n")
    spent = tuple(Spent(at_s=now_s - hours * 3600, by=WATCHDOG) for hours in (6, 4))
    state = VolumeState(volume_id=volume_id, revision=1, spent=spent)
    with desk.open_ledger() as ledger:
        ledger.commit([Change(volume_id=volume_id, expected_revision=None, state=state)], channels=[])

    explained = desk.run("explain", volume_id)
    told = desk.run("explain", volume_id, "--json").document
    desk.run("report", "--html", "page.html")
    (assessed,) = desk.run("assess", "--json").document["volumes"]
    (watched,) = desk.run("watch", "--once", "--json").document["volumes"]

    target = told["plan"]["target"]
    assert target["volume_type"] == "gp3"
    assert [each["decision"]["target"] for each in (told["volume"], assessed, watched)] == [target] * 3
    because = "not io1, because 2 of AWS's 4 modifications in 24 h are used"
    assert because in topics(explained)["Next step"]
    assert max(map(len, explained.out.splitlines())) <= 80
    page = unescape((desk.directory / "page.html").read_text())
    assert "--to io1" not in page
    assert f"burstctl flip {volume_id} --region us-east-1 --to gp3" in page
    assert because in page
    with desk.open_ledger() as ledger:
        (alert,) = [e.body for e in ledger.entries(volume_id) if e.kind == "alert"]
    assert " --to gp3 " in alert["action"]
    assert because in alert["evidence"]["proposal"][-1]
