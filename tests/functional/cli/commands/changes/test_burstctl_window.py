"""burstctl window: what runs, what comes next, and starting and stopping by hand."""

import pytest

from burstlab.fake_aws.faults import Fault
from support.cli.cli_session import add_calm, count_modify_calls, modification_targets

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

pytestmark = [pytest.mark.policy_file(POLICY), pytest.mark.lab_settings(modify_spread=0.0)]

RELEASE = {"burstwatch:mode": "auto", "burstwatch:window": "release"}


def list_windows(cli) -> dict[str, dict]:
    return {window["name"]: window for window in cli.run("window", "list", "--json").document["windows"]}


def normalised_output(result) -> str:
    return " ".join(result.out.split())


def test_every_window_is_listed_on_its_own_clocks_and_in_utc(cli, lab):
    add_calm(lab, tags={"role": "ci"})
    add_calm(lab, tags={"role": "ci"}, size_gib=1200)

    result = cli.run("window", "list")

    assert result.code == 0
    assert "nightly Now its next start is near: volumes are being flipped" in normalised_output(result)
    assert (
        "Next Fri 2026-11-20 20:00 Europe/Berlin (2026-11-20T19:00:00Z)"
        " to Fri 2026-11-20 23:00 Europe/Berlin (2026-11-20T22:00:00Z)"
    ) in normalised_output(result)
    assert (
        "Volumes applies to 2, of which 1 depends on credits or did before a flip;"
        " flipped up to 65 min before a start"
    ) in normalised_output(result)
    assert "Next Fri 2026-11-27 00:00 America/New_York (2026-11-27T05:00:00Z)" in normalised_output(result)
    assert "manual Now does not run Schedule none: it is started by hand" in normalised_output(result)
    assert max(map(len, result.out.splitlines())) <= 80
    assert not cli.ledger_path.parent.exists()


def test_a_window_that_only_tags_name_is_listed_too(cli, lab):
    add_calm(lab, tags=RELEASE)

    result = list_windows(cli)

    assert list(result) == ["nightly", "sale", "manual", "release"]
    assert not result["release"]["is_defined"]
    assert (result["release"]["volumes"], result["release"]["longest_lead_s"]) == (1, 3909)


def test_no_window_at_all_is_reported(cli, lab):
    (cli.directory / "policy.yaml").write_text("version: 1\n")

    result = cli.run("window", "list")

    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines()[-2:] == [
        "there is no window: the policy defines none, and no volume's tag names one",
        "next: burstctl runbook WindowStarting",
    ]


def test_a_start_lists_the_volumes_it_flips_and_requests_confirmation(cli, lab):
    volume_id = add_calm(lab, tags=RELEASE)
    propose_only = add_calm(lab, "shy", tags={"burstwatch:window": "release"})

    result = cli.run("window", "start", "release", answer="n")

    assert result.code == 130
    assert f"{volume_id} (calm): gp2 -> gp3 with 3,000 IOPS and 128 MiB/s" in result.out
    assert f"{propose_only} (shy): not flipped: not_opted_in: its mode is propose" in normalised_output(
        result
    )
    assert "2 volumes: 1 to be modified, 1 refused; $10.00 -> $8.12 a month: $1.88 less" in normalised_output(
        result
    )
    assert "Start the window release? [y/N]" in result.err
    assert not cli.ledger_path.parent.exists()


def test_a_window_started_by_hand_moves_its_volumes_at_the_next_pass_and_stopped_lets_them_return(cli, lab):
    volume_id = add_calm(lab, tags={**RELEASE, "burstwatch:target": "io1"})

    result = cli.run("window", "start", "release", "--for", "4h", "--yes")

    assert result.code == 0
    assert "window release runs from now on, for 4 h (until 22:00 UTC)" in normalised_output(result)
    assert "flipped only by a watchdog that may act" in result.err
    assert count_modify_calls(lab) == 0, "the command itself modifies nothing"
    assert cli.run("watch", "--act", "--once").code == 0
    assert modification_targets(lab, volume_id) == ["io1"]
    for _ in range(24):
        lab.clock.advance(300)
        cli.run("watch", "--act", "--passes", "1")
    assert modification_targets(lab, volume_id) == ["io1"], "it is calm for long, and the window keeps it"

    stopped = cli.run("window", "stop", "release")

    assert "window release is stopped, its volumes return when they are calm" in normalised_output(stopped)
    for _ in range(6):
        lab.clock.advance(300)
        cli.run("watch", "--act", "--passes", "1")
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


def test_a_running_window_shows_who_started_it(cli, lab):
    add_calm(lab, tags=RELEASE)
    cli.run("window", "start", "release", "--yes")

    result = cli.run("window", "list")

    assert "release Now runs by hand: 2026-11-20T18:00:00Z until it is stopped" in normalised_output(result)
    assert (
        "By hand started by anna (user/moto) at 2026-11-20T18:00:00Z, until it is stopped"
        in normalised_output(result)
    )
    assert list_windows(cli)["release"]["running"] == [
        {"starts_at": "2026-11-20T18:00:00Z", "ends_at": None, "by_hand": True}
    ]


def test_a_mark_that_cannot_be_read_ends_with_a_stop_although_nothing_else_names_its_window(cli, lab):
    volume_id = add_calm(lab, tags=RELEASE)
    cli.run("window", "start", "release", "--yes")
    with cli.open_ledger() as ledger:
        ledger._connection.execute("UPDATE window_marks SET at_s = 'noon'")
    lab.fleet.set_tags(volume_id, dict.fromkeys(RELEASE))
    assert cli.run("watch", "--once").code == 1

    assert cli.run("window", "stop", "release").code == 0

    assert cli.run("watch", "--once").code == 0


def test_stopping_twice_is_not_an_error(cli, lab):
    add_calm(lab, tags=RELEASE)
    cli.run("window", "start", "release", "--yes")
    assert cli.run("window", "stop", "release", "--json").document["stopped"] is True

    result = cli.run("window", "stop", "release")

    assert result.code == 0
    assert "window release: nothing to stop: it does not run" in normalised_output(result)


def test_a_stop_cancels_the_upcoming_start_and_no_later_one(cli, lab):
    add_calm(lab, tags={"role": "ci"})

    result = cli.run("window", "stop", "nightly")

    assert "next: Mon 2026-11-23 20:00 Europe/Berlin" in normalised_output(result)
    assert list_windows(cli)["nightly"]["phase"] == "outside"


def test_a_stop_of_what_comes_much_later_does_nothing(cli, lab):
    assert "nothing to stop" in normalised_output(cli.run("window", "stop", "sale"))
    assert not cli.ledger_path.parent.exists()


@pytest.mark.parametrize("command", [["start", "nope", "--yes"], ["stop", "nope"]])
def test_an_unknown_name_is_a_usage_error_and_the_known_ones_are_listed(cli, lab, command):
    add_calm(lab, tags=RELEASE)

    result = cli.run("window", *command)

    assert result.code == 2
    assert result.error_lines == ["error: the window 'nope' does not exist."]


def test_a_start_without_a_terminal_needs_a_yes(cli, lab):
    assert cli.run("window", "start", "manual").code == 2
    assert lab.faults.call_counts() == {}


def test_a_window_without_volumes_can_be_started_and_is_reported_as_empty(cli, lab):
    result = cli.run("window", "start", "manual", "--yes")

    assert result.code == 0
    assert "none of its volumes depends on credits, so none is flipped" in normalised_output(result)
    assert "watchdog" not in result.err


def test_volumes_already_on_target_are_kept(cli, lab):
    volume_id = add_calm(lab, tags=RELEASE)
    cli.run("flip", volume_id, "--yes")

    result = cli.run("window", "start", "release", "--yes", "--json")

    assert result.document["plans"] == []
    assert result.document["window"]["phase"] == "inside"
    assert "1 volume flipped already, unchanged" in normalised_output(
        cli.run("window", "start", "release", "--yes")
    )


def test_windows_whose_volumes_cannot_be_listed_are_a_failure(cli, lab):
    lab.faults.add(Fault(action="DescribeVolumes", code="AuthFailure", message="no", status=401))

    assert cli.run("window", "list").code == 1
    assert cli.run("window", "start", "manual", "--yes").code == 1


def test_hostile_names_are_inert(cli, lab):
    add_calm(lab, tags={"burstwatch:window": "re\u202elease;$(boom)"})

    result = cli.run("window", "start", "re\u202elease;$(boom)", "--yes")

    assert not {"\u202e", "\x1b"} & set(result.out + result.err + cli.run("window", "list").out)
    assert "burstctl window stop 're?lease;$(boom)'" in result.err
