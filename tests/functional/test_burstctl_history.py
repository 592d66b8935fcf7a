"""burstctl history: the whole story of a volume, from the ledger alone."""

import pytest
from operators_desk import OperatorsDesk, a_lab, add_calm, add_critical, add_exhausted, add_warning

from burstlab.fake_aws.faults import Fault

AUTO = {"burstwatch:mode": "auto"}


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    made = OperatorsDesk(tmp_path, monkeypatch, capsys)
    made.set(LOGNAME="anna")
    return made


@pytest.fixture
def lab(desk):
    with a_lab(desk, modify_spread=0.0) as endpoint:
        yield endpoint


def story(desk, volume_id, *options) -> str:
    """Everything on one line."""
    return " ".join(desk.run("history", volume_id, *options).out.split())


def test_the_story_of_a_flip_and_its_return(desk, lab):
    # 100 GiB: modifying for 60 s, then 360 x 100 / 1024 = 35 min of optimizing
    volume_id = add_critical(lab)
    desk.run("watch", "--once")
    desk.run("flip", volume_id, "--to", "io1", "--iops", "4000", "--for", "1h", "--yes", "--reason", "INC-7")
    lab.fleet.set_load(volume_id, "idle")
    for _ in range(3):
        lab.clock.advance(2400)
        desk.run("watch", "--act", "--once")
    lab.clock.advance(2400)
    desk.run("watch", "--act", "--once")

    lines = desk.run("history", volume_id).out.splitlines()

    assert lines[0] == "2026-11-20 UTC"
    told = " ".join(" ".join(lines).split())
    # io1: 12.50 + 4,000 x 0.065 = 272.50, 262.50 more than gp2; 80 min are 262.50 / 730 x 4/3 = 0.48
    parts = (
        "18:00 level ok -> critical",
        "18:00 alert BurstBalanceDraining: critical: ci-7, dry in about 10 min",
        "delivered to terminal",
        "18:00 is to become io1 with 4,000 IOPS, asked for by anna (user/moto) INC-7",
        "18:00 is on its way to io1 with 4,000 IOPS Asked for by anna (user/moto)",
        "It was gp2; this costs $262.50 a month more",
        "18:00 alert VolumeFlipped",
        "18:40 is io1 with 4,000 IOPS now",
        "19:20 is to become gp2, asked for by watchdog calm for 30 min",
        "It was away for 80 min, which cost $0.48 more.",
        "is gp2 again, as it was before",
        f"{volume_id} now",
        "2 of AWS's 4 modifications in 24 h are used (18:00 by anna (user/moto), 19:20 by watchdog);"
        " the next is free when the last is over",
    )
    places = [told.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)
    assert max(map(len, lines)) <= 80


def test_where_a_flipped_volume_stands_now(desk, lab):
    volume_id = add_critical(lab)
    desk.run("flip", volume_id, "--for", "6h", "--yes")
    lab.clock.advance(3600)
    desk.run("watch", "--once")
    desk.run(
        "hold", volume_id, "--for", "1h", "--reason", "restore test", "--ledger", f"sqlite:{desk.ledger_path}"
    )

    said = story(desk, volume_id)

    assert "Flip is on gp3 with 3,750 IOPS and 128 MiB/s since 19:00 UTC" in said
    assert "it was gp2, which is kept in mind until it is that again" in said
    assert "anna (user/moto) wants it so for 5 h (until 00:00 Sat UTC), then until it is calm" in said
    # 1.87 / 730 for one hour
    assert "costs $1.87 more a month than before; so far $0.0026 more, at us-east-1 list prices" in said
    assert f"Hold {volume_id} is kept as it is for 60 min (until 20:00 UTC), by anna (user/moto)" in said
    assert "19:00 it is put on hold for 60 min (until 20:00 UTC) by anna (user/moto): restore test" in said


def test_what_was_refused_failed_or_is_not_clear(desk, lab):
    refused, failed, unclear = (add_exhausted(lab, name, tags=AUTO) for name in "abc")
    desk.run("hold", refused, "--for", "1h", "--reason", "x", "--ledger", f"sqlite:{desk.ledger_path}")
    lab.faults.add(
        Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403, volume_ids=[failed])
    )
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", volume_ids=[unclear]))

    desk.run("watch", "--act", "--once")

    assert "is not moved to gp3: held" in story(desk, refused)
    assert "was not changed to gp3" in story(desk, failed)
    assert "1 attempt; the watchdog makes the next in 1 min (18:01 UTC)" in story(desk, failed)
    assert "and the answer was lost" in story(desk, unclear)
    assert "whether AWS took it is not known yet" in story(desk, unclear)


def test_a_hold_on_everything_belongs_to_the_story_of_each(desk, lab):
    volume_id, untouched = add_warning(lab), add_calm(lab)
    desk.run("watch", "--once")
    desk.run("hold", "--all", "--for", "1h", "--reason", "INC-42", "--ledger", f"sqlite:{desk.ledger_path}")
    desk.run("release", "--all")

    said = story(desk, volume_id)
    assert "everything is put on hold for 60 min (until 19:00 UTC) by anna (user/moto): INC-42" in said
    assert "the hold on everything is lifted by anna (user/moto); it was: INC-42" in said
    assert "knows of nothing that happened" in desk.run("history", untouched).err


def test_a_volume_long_deleted_has_its_story_and_aws_is_not_asked(desk, lab):
    volume_id = add_warning(lab)
    desk.run("watch", "--once")
    lab.fleet.remove(volume_id)
    for _ in range(2):
        lab.clock.advance(150)
        desk.run("watch", "--once")
    lab.faults.forget_calls()

    said = story(desk, volume_id)

    assert "18:05 forgotten: the volume was deleted; it was warning" in said
    assert "Level nothing is going on with it" in said
    asked_for = {call for call in lab.faults.calls() if not call.endswith("unnamed")}
    assert asked_for == {"GetParametersByPath"}, "whose ledger it is, and nothing else"


def test_only_what_happened_in_so_long(desk, lab):
    volume_id = add_warning(lab)
    desk.run("watch", "--once")
    lab.clock.advance(7200)
    desk.run("watch", "--once")

    assert "18:00" not in desk.run("history", volume_id, "--since", "1h").out.partition("now")[0]
    assert "18:00 level" in story(desk, volume_id, "--since", "3h")
    assert desk.run("history", volume_id, "--since", "yesterday").code == 2


def test_nothing_is_known_of_most_volumes(desk, lab):
    ran = desk.run("history", "vol-0123456789abcdef0")

    assert (ran.code, ran.out) == (0, "")
    assert "the ledger knows of nothing that happened to vol-0123456789abcdef0" in ran.err
    assert not desk.ledger_path.parent.exists()
    told = desk.run("history", "vol-0123456789abcdef0", "--json").document
    assert told["entries"] == []
    assert told["now"]["quota"] == {"used": 0, "of": 4, "next_at": None, "spent": []}


def test_json_has_the_ledgers_own_lines_and_where_it_stands(desk, lab):
    volume_id = add_critical(lab, "evil\u202ename")
    desk.run("flip", volume_id, "--to", "io1", "--yes")

    ran = desk.run("history", volume_id, "--json")

    told = ran.document
    assert told["schema"] == "burstwatch.history/v1"
    assert [entry["kind"] for entry in told["entries"]] == ["intent", "accepted", "alert"]
    assert told["entries"][0]["at"] == "2026-11-20T18:00:00Z"
    assert told["now"]["flip"]["original"] == {"volume_type": "gp2", "iops": None, "throughput_mib_s": None}
    assert told["now"]["quota"]["used"] == 1
    assert ran.out.isascii()


def test_a_hostile_name_is_inert(desk, lab):
    volume_id = add_critical(lab, "evil\u202e\u0085[bold]name")
    desk.run("watch", "--once")

    ran = desk.run("history", volume_id)

    assert "evil?" in ran.out
    assert not {"\u202e", "\u0085", "\x1b"} & set(ran.out)


def test_a_volume_whose_level_never_changed_is_at_it_since_nobody_knows_when(desk, lab):
    volume_id = add_calm(lab)
    desk.run("flip", volume_id, "--yes")

    said = story(desk, volume_id)

    assert "now Level ok Flip" in said
    assert "1970" not in said
    assert "1970" not in desk.run("explain", volume_id).out
