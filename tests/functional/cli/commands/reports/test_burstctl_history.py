"""burstctl history: the whole story of a volume, from the ledger alone."""

import pytest

from burstlab.fake_aws.faults import Fault
from support.cli.cli_session import add_calm, add_critical, add_exhausted, add_warning

pytestmark = pytest.mark.lab_settings(modify_spread=0.0)


AUTO = {"burstwatch:mode": "auto"}


def history_lines(cli, volume_id, *options) -> str:
    """Everything on one line."""
    return " ".join(cli.run("history", volume_id, *options).out.split())


def test_the_history_of_a_flip_and_its_return(cli, lab):
    # 100 GiB: modifying for 60 s, then 360 x 100 / 1024 = 35 min of optimizing
    volume_id = add_critical(lab)
    cli.run("watch", "--once")
    cli.run("flip", volume_id, "--to", "io1", "--iops", "4000", "--for", "1h", "--yes", "--reason", "INC-7")
    lab.fleet.set_load(volume_id, "idle")
    for _ in range(3):
        lab.clock.advance(2400)
        cli.run("watch", "--act", "--once")
    lab.clock.advance(2400)
    cli.run("watch", "--act", "--once")

    lines = cli.run("history", volume_id).out.splitlines()

    assert lines[0] == "2026-11-20 UTC"
    reported = " ".join(" ".join(lines).split())
    # io1: 12.50 + 4,000 x 0.065 = 272.50, 262.50 more than gp2; 80 min are 262.50 / 730 x 4/3 = 0.48
    parts = (
        "18:00 level ok -> critical",
        "18:00 alert BurstBalanceDraining: CRITICAL: ci-7 is empty in about 10 min",
        "delivered to terminal",
        "18:00 will be modified to io1 with 4,000 IOPS, requested by anna (user/moto) INC-7",
        "18:00 is being modified to io1 with 4,000 IOPS Requested by anna (user/moto)",
        "It was gp2; this costs $262.50 a month more",
        "18:00 alert VolumeFlipped",
        "18:40 is io1 with 4,000 IOPS now",
        "19:20 will be modified to gp2, requested by watchdog calm for 30 min",
        "It was away for 80 min, which cost $0.48 more.",
        "is gp2 again, as before",
        f"{volume_id} now",
        "2 of AWS's 4 modifications in 24 h are used (18:00 by anna (user/moto), 19:20 by watchdog);"
        " the next is free when the last is over",
    )
    places = [reported.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)
    assert max(map(len, lines)) <= 80


def test_the_current_state_of_a_flipped_volume(cli, lab):
    volume_id = add_critical(lab)
    cli.run("flip", volume_id, "--for", "6h", "--yes")
    lab.clock.advance(3600)
    cli.run("watch", "--once")
    cli.run(
        "hold", volume_id, "--for", "1h", "--reason", "restore test", "--ledger", f"sqlite:{cli.ledger_path}"
    )

    history = history_lines(cli, volume_id)

    assert "Flip is on gp3 with 3,750 IOPS and 128 MiB/s since 19:00 UTC" in history
    assert "original type: gp2, recorded until it returns" in history
    assert "anna (user/moto) requested it for 5 h (until 00:00 Sat UTC); then it returns when calm" in history
    # 1.87 / 730 for one hour
    assert "costs $1.87 more a month than before; so far $0.0026 more, at us-east-1 list prices" in history
    assert f"Hold {volume_id} is on hold for 60 min (until 20:00 UTC), by anna (user/moto)" in history
    assert "19:00 it is put on hold for 60 min (until 20:00 UTC) by anna (user/moto): restore test" in history


def test_refused_failed_and_unclear_flips(cli, lab):
    refused, failed, unclear = (add_exhausted(lab, name, tags=AUTO) for name in "abc")
    cli.run("hold", refused, "--for", "1h", "--reason", "x", "--ledger", f"sqlite:{cli.ledger_path}")
    lab.faults.add(
        Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403, volume_ids=[failed])
    )
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", volume_ids=[unclear]))

    cli.run("watch", "--act", "--once")

    assert "was not flipped to gp3: held" in history_lines(cli, refused)
    assert "was not changed to gp3" in history_lines(cli, failed)
    assert "1 attempt; the watchdog makes the next in 1 min (18:01 UTC)" in history_lines(cli, failed)
    assert "no response received" in history_lines(cli, unclear)
    assert "not yet known whether AWS accepted it" in history_lines(cli, unclear)


def test_a_hold_on_everything_is_in_each_volume_history(cli, lab):
    volume_id, other_id = add_warning(lab), add_calm(lab)
    cli.run("watch", "--once")
    cli.run("hold", "--all", "--for", "1h", "--reason", "INC-42", "--ledger", f"sqlite:{cli.ledger_path}")
    cli.run("release", "--all")

    history = history_lines(cli, volume_id)
    assert "everything is put on hold for 60 min (until 19:00 UTC) by anna (user/moto): INC-42" in history
    assert "the hold on everything is lifted by anna (user/moto); it was: INC-42" in history
    assert "the ledger has no event, flip or alert for it" in cli.run("history", other_id).err


def test_a_volume_long_deleted_has_its_history_without_a_call_to_aws(cli, lab):
    volume_id = add_warning(lab)
    cli.run("watch", "--once")
    lab.fleet.remove(volume_id)
    for _ in range(2):
        lab.clock.advance(150)
        cli.run("watch", "--once")
    lab.faults.reset_calls()

    history = history_lines(cli, volume_id)

    assert "18:05 forgotten: the volume was deleted; it was warning" in history
    assert "Level no flip, hold or alert" in history
    called = {call for call in lab.faults.call_counts() if not call.endswith("unnamed")}
    assert called == {"GetParametersByPath"}, "whose ledger it is, and nothing else"


def test_last_limits_the_history(cli, lab):
    volume_id = add_warning(lab)
    cli.run("watch", "--once")
    lab.clock.advance(7200)
    cli.run("watch", "--once")

    assert "18:00" not in cli.run("history", volume_id, "--last", "1h").out.partition("now")[0]
    assert "18:00 level" in history_lines(cli, volume_id, "--since", "3h"), "the older name"
    assert cli.run("history", volume_id, "--last", "yesterday").code == 2


def test_a_volume_that_neither_aws_nor_the_ledger_knows_is_a_failure(cli, lab):
    result = cli.run("history", "vol-0123456789abcdef0")

    assert (result.code, result.out) == (1, "")
    assert result.error_lines == ["error: no volume vol-0123456789abcdef0 in us-east-1."]


def test_most_volumes_have_no_history(cli, lab):
    volume_id = add_calm(lab, "calm")

    result = cli.run("history", "calm")

    assert (result.code, result.out) == (0, "")
    assert f"{volume_id} (calm): the ledger has no event, flip or alert for it" in result.err
    assert not cli.ledger_path.parent.exists()
    document = cli.run("history", volume_id, "--json").document
    assert document["entries"] == []
    assert document["now"]["quota"] == {"used": 0, "of": 4, "next_at": None, "spent": []}


def test_json_has_the_ledgers_own_lines_and_its_location(cli, lab):
    volume_id = add_critical(lab, "evil\u202ename")
    cli.run("flip", volume_id, "--to", "io1", "--yes")

    result = cli.run("history", volume_id, "--json")

    document = result.document
    assert document["schema"] == "burstwatch.history/v1"
    assert [entry["kind"] for entry in document["entries"]] == ["intent", "accepted", "alert"]
    assert document["entries"][0]["at"] == "2026-11-20T18:00:00Z"
    assert document["now"]["flip"]["original"] == {
        "volume_type": "gp2",
        "iops": None,
        "throughput_mib_s": None,
    }
    assert document["now"]["quota"]["used"] == 1
    assert result.out.isascii()


def test_a_hostile_name_is_inert(cli, lab):
    volume_id = add_critical(lab, "evil\u202e\u0085[bold]name")
    cli.run("watch", "--once")

    result = cli.run("history", volume_id)

    assert "evil?" in result.out
    assert not {"\u202e", "\u0085", "\x1b"} & set(result.out)


def test_a_volume_whose_level_never_changed_has_no_known_start(cli, lab):
    volume_id = add_calm(lab)
    cli.run("flip", volume_id, "--yes")

    history = history_lines(cli, volume_id)

    assert "now Level ok Flip" in history
    assert "1970" not in history
    assert "1970" not in cli.run("explain", volume_id).out
