"""burstctl window: what runs, what comes next, and starting and stopping by hand."""

import pytest
from operators_desk import OperatorsDesk, a_lab, add_calm, asked, modified

from burstlab.fake_aws.faults import Fault

# 18:00 UTC is 19:00 in Berlin; the lead of 100 GiB is 30 min + 6 h x 100 / 1024 = 65 min
POLICY = """version: 1
windows:
  nightly:
    cron: 0 20 * * mon-fri
    zone: Europe/Berlin
    duration: 3h
    where: tag:role=ci
  sale:
    from: 2026-11-27T00:00
    to: 2026-11-30T00:00
    zone: America/New_York
    where: tag:role=shop
  manual: {}
"""
RELEASE = {"burstwatch:mode": "auto", "burstwatch:window": "release"}


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    made = OperatorsDesk(tmp_path, monkeypatch, capsys)
    made.set(LOGNAME="anna")
    (tmp_path / "policy.yaml").write_text(POLICY)
    return made


@pytest.fixture
def lab(desk):
    with a_lab(desk, modify_spread=0.0) as endpoint:
        yield endpoint


def listed(desk) -> dict[str, dict]:
    return {each["name"]: each for each in desk.run("window", "list", "--json").document["windows"]}


def said(ran) -> str:
    return " ".join(ran.out.split())


def test_every_window_is_listed_on_its_own_clocks_and_in_utc(desk, lab):
    add_calm(lab, tags={"role": "ci"})
    add_calm(lab, tags={"role": "ci"}, size_gib=1200)

    ran = desk.run("window", "list")

    assert ran.code == 0
    assert "nightly Now leads to its next start: volumes are being moved" in said(ran)
    assert (
        "Next Fri 2026-11-20 20:00 Europe/Berlin (2026-11-20T19:00:00Z)"
        " to Fri 2026-11-20 23:00 Europe/Berlin (2026-11-20T22:00:00Z)"
    ) in said(ran)
    assert (
        "Volumes holds for 2, of which 1 lives on credits or did; moved up to 65 min before a start"
    ) in said(ran)
    assert "Next Fri 2026-11-27 00:00 America/New_York (2026-11-27T05:00:00Z)" in said(ran)
    assert "manual Now does not run Schedule none: it is started by hand" in said(ran)
    assert max(map(len, ran.out.splitlines())) <= 80
    assert not desk.ledger_path.parent.exists()


def test_a_window_that_only_tags_name_is_listed_too(desk, lab):
    add_calm(lab, tags=RELEASE)

    found = listed(desk)

    assert list(found) == ["nightly", "sale", "manual", "release"]
    assert not found["release"]["is_defined"]
    assert (found["release"]["volumes"], found["release"]["longest_lead_s"]) == (1, 3909)


def test_no_window_at_all_is_said(desk, lab):
    (desk.directory / "policy.yaml").write_text("version: 1\n")

    ran = desk.run("window", "list")

    assert (ran.code, ran.out) == (0, "")
    assert "there is no window: the policy defines none, and no volume's tag names one" in ran.err


def test_a_start_tells_what_it_moves_and_asks(desk, lab):
    volume_id = add_calm(lab, tags=RELEASE)
    shy = add_calm(lab, "shy", tags={"burstwatch:window": "release"})

    ran = desk.run("window", "start", "release", answer="n")

    assert ran.code == 130
    assert f"{volume_id} (calm): gp2 -> gp3 with 3,000 IOPS and 128 MiB/s" in ran.out
    assert f"{shy} (shy): not moved: not_opted_in: its mode is propose" in said(ran)
    assert "2 volumes: 1 to be modified, 1 refused; $10.00 -> $8.12 a month: $1.88 less" in said(ran)
    assert "Start the window release? [y/N]" in ran.err
    assert not desk.ledger_path.parent.exists()


def test_a_window_started_by_hand_moves_its_volumes_at_the_next_pass_and_stopped_lets_them_return(desk, lab):
    volume_id = add_calm(lab, tags={**RELEASE, "burstwatch:target": "io1"})

    ran = desk.run("window", "start", "release", "--for", "4h", "--yes")

    assert ran.code == 0
    assert "window release runs from now on, for 4 h (until 22:00 UTC)" in said(ran)
    assert "moved by a watchdog that may act" in ran.err
    assert asked(lab) == 0, "the command itself modifies nothing"
    assert desk.run("watch", "--act", "--once").code == 0
    assert modified(lab, volume_id) == ["io1"]
    for _ in range(24):
        lab.clock.advance(300)
        desk.run("watch", "--act", "--passes", "1")
    assert modified(lab, volume_id) == ["io1"], "it is calm for long, and the window keeps it"

    stopped = desk.run("window", "stop", "release")

    assert "window release is stopped, its volumes return when they are calm" in said(stopped)
    for _ in range(6):
        lab.clock.advance(300)
        desk.run("watch", "--act", "--passes", "1")
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_a_running_window_shows_who_started_it(desk, lab):
    add_calm(lab, tags=RELEASE)
    desk.run("window", "start", "release", "--yes")

    ran = desk.run("window", "list")

    assert "release Now runs by hand: 2026-11-20T18:00:00Z until it is stopped" in said(ran)
    assert "By hand started by anna (user/moto) at 2026-11-20T18:00:00Z, until it is stopped" in said(ran)
    assert listed(desk)["release"]["running"] == [
        {"starts_at": "2026-11-20T18:00:00Z", "ends_at": None, "by_hand": True}
    ]


def test_stopping_twice_is_no_mistake(desk, lab):
    add_calm(lab, tags=RELEASE)
    desk.run("window", "start", "release", "--yes")
    assert desk.run("window", "stop", "release", "--json").document["stopped"] is True

    ran = desk.run("window", "stop", "release")

    assert ran.code == 0
    assert "window release: nothing to stop, it does not run" in said(ran)


def test_a_stop_cancels_the_start_that_volumes_are_moved_for_and_no_later_one(desk, lab):
    add_calm(lab, tags={"role": "ci"})

    ran = desk.run("window", "stop", "nightly")

    assert "next: Mon 2026-11-23 20:00 Europe/Berlin" in said(ran)
    assert listed(desk)["nightly"]["phase"] == "outside"


def test_a_stop_of_what_comes_much_later_does_nothing(desk, lab):
    assert "nothing to stop" in said(desk.run("window", "stop", "sale"))
    assert not desk.ledger_path.parent.exists()


@pytest.mark.parametrize("command", [["start", "nope", "--yes"], ["stop", "nope"]])
def test_a_name_that_nobody_knows_is_misuse_and_the_known_ones_are_listed(desk, lab, command):
    add_calm(lab, tags=RELEASE)

    ran = desk.run("window", *command)

    assert ran.code == 2
    assert ran.complaints == ["burstctl: there is no window 'nope'; known: nightly, sale, manual, release"]


def test_a_start_without_a_terminal_needs_a_yes(desk, lab):
    assert desk.run("window", "start", "manual").code == 2
    assert lab.faults.calls() == {}


def test_a_window_for_nobody_can_be_started_and_says_so(desk, lab):
    ran = desk.run("window", "start", "manual", "--yes")

    assert ran.code == 0
    assert "no volume that it holds for lives on credits: it moves none" in said(ran)
    assert "watchdog" not in ran.err


def test_volumes_that_are_away_already_are_kept(desk, lab):
    volume_id = add_calm(lab, tags=RELEASE)
    desk.run("flip", volume_id, "--yes")

    ran = desk.run("window", "start", "release", "--yes", "--json")

    assert ran.document["plans"] == []
    assert ran.document["window"]["phase"] == "inside"
    assert "1 away from gp2 already: kept where it is" in said(
        desk.run("window", "start", "release", "--yes")
    )


def test_windows_whose_volumes_cannot_be_listed_are_a_failure(desk, lab):
    lab.faults.add(Fault(action="DescribeVolumes", code="AuthFailure", message="no", status=401))

    assert desk.run("window", "list").code == 1
    assert desk.run("window", "start", "manual", "--yes").code == 1


def test_hostile_names_are_inert(desk, lab):
    add_calm(lab, tags={"burstwatch:window": "re\u202elease;$(boom)"})

    ran = desk.run("window", "start", "re\u202elease;$(boom)", "--yes")

    assert not {"\u202e", "\x1b"} & set(ran.out + ran.err + desk.run("window", "list").out)
    assert "'re?lease;$(boom)'" in ran.out
