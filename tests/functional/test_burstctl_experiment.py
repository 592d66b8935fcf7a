"""burstctl experiment credit-reset: four truths told apart, and a volume that always comes home."""

import json
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest
from a_stack import a_stack
from operators_desk import START, OperatorsDesk, a_lab, add, asked, modified

from burstctl.cli.options import Options
from burstctl.cli.signals import StopSignal
from burstctl.context.context import modifying_desk
from burstctl.experiment import runner, waiting
from burstctl.experiment.journal import JournalError, Shelf, Stage
from burstctl.experiment.preflight import Wanted, examine
from burstctl.main import main
from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import LabVolume
from burstwatch.core.flips.guards import Guard
from burstwatch.core.ledger.flip_state import Hold, WindowMark
from burstwatch.engine.watch_pass import look_at_everything
from burstwatch.wiring.settings import Clock

COMMAND = ("experiment", "credit-reset")
COLUMNS = 80


class Naps:
    """What happens while the command waits: the lab's time goes by, and perhaps something else."""

    def __init__(self, lab):
        self.lab = lab
        self.taken = 0
        self.meanwhile = []

    def nap(self, stop, seconds):
        self.taken += 1
        self.lab.clock.advance(seconds)
        for deed in list(self.meanwhile):
            deed(stop)

    def once(self, condition, deed):
        """The deed is done after the first nap when the condition holds."""

        def check(stop):
            if condition():
                self.meanwhile.remove(check)
                deed(stop)

        self.meanwhile.append(check)


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    made = OperatorsDesk(tmp_path, monkeypatch, capsys)
    made.set(LOGNAME="anna")
    return made


@pytest.fixture
def lab(desk):
    with a_lab(desk, modify_minutes_per_tib=30) as endpoint:
        yield endpoint


@pytest.fixture
def naps(lab, monkeypatch):
    """It looks less often than it does in earnest, and no time is slept through."""
    made = Naps(lab)
    monkeypatch.setitem(waiting.LONGEST_NAP_S, Clock.ENDPOINT, 3600.0)
    monkeypatch.setattr(runner, "_LOOK_EVERY_S", 600)
    monkeypatch.setattr(runner, "_CHECK_EVERY_S", 3600)

    def nap(stop, seconds):
        made.nap(stop, seconds)

    monkeypatch.setattr(StopSignal, "wait", nap)
    return made


def add_spare(lab, name="spare", load="steady:20", **given) -> str:
    """40 % an hour ago; it earns 280 a second since, 0.31 % a minute: 58.7 % at 18:00."""
    return add(lab, name, load, **({"balance_pct": 40, "minutes": 60} | given))


def holds(desk):
    with desk.open_ledger() as ledger:
        return ledger.holds(START.timestamp())


def journals(desk):
    return [json.loads(path.read_text()) for path in desk.ledger_path.parent.glob("experiment-*.json")]


def reports(desk):
    return sorted(desk.ledger_path.parent.glob("credit-reset-*.md"))


def is_away(lab, volume_id):
    return lambda: lab.fleet.find(volume_id).volume_type == "io1"


FATES = {
    "kept": "kept",
    "refilled": "refilled while away",
    "reset": "reset",
    "emptied": "emptied",
}


@pytest.mark.parametrize("balance_after", FATES)
def test_what_the_lab_does_to_the_balance_is_found_out(desk, lab, naps, balance_after):
    lab.fleet.change_settings(balance_after=balance_after)
    volume_id = add_spare(lab)

    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 0
    assert modified(lab, volume_id) == ["io1", "gp2"]
    assert f"\n{FATES[balance_after].capitalize()}. It came back with " in ran.out
    assert max(map(len, ran.out.splitlines())) <= COLUMNS
    [page] = reports(desk)
    assert f"**{FATES[balance_after].capitalize()}. It came back with " in page.read_text()
    assert f"the report, fit to be shared: {page}" in ran.err
    assert holds(desk) == []
    assert desk.kinds(volume_id) == [
        "held", "intent", "accepted", "reached", "intent", "accepted", "restored", "released",
    ]  # fmt: skip


def test_the_report_has_everything_but_who_and_which(desk, lab, naps, tmp_path):
    volume_id = add_spare(lab, tags={"team": "hush"})

    ran = desk.run(*COMMAND, volume_id, "--yes", "--json", "--report", tmp_path / "answer.md")

    found, page = ran.document, (tmp_path / "answer.md").read_text()
    assert found["schema"] == "burstwatch.experiment/v1"
    assert (found["conclusion"], found["failed"], found["stage"]) == ("kept", None, "over")
    assert found["fits"] == ["kept"]
    assert found["report"] == str(tmp_path / "answer.md")
    for told in (page, json.dumps({**found, "ledger": None, "report": None})):
        for secret in (volume_id, volume_id[4:], "123456789012", "spare", "hush", "anna", "i-0"):
            assert secret not in told
    assert page.startswith("# The burst balance of a gp2 volume after io1, measured 2026-11-20\n")
    assert "| Size | 100 GiB |" in page
    for way in found["modifications"].values():
        assert f"| {way['started_at']} | {way['completed_at']} |" in page
    told = {row["at"]: row for row in found["datapoints"]}
    assert told["2026-11-20T17:59:00Z"]["burst_balance_pct"] == pytest.approx(58.36, abs=0.01)
    assert told["2026-11-20T17:59:00Z"]["when"] == "gp2"
    assert [row["when"] for row in found["datapoints"] if row["burst_balance_pct"] is None].count("away") > 10
    assert sum(row["when"] == "gp2 again" for row in found["datapoints"]) >= 15
    assert all(f"| {at} | {row['when']} |" in page for at, row in told.items())


def test_the_plan_says_what_is_lost_what_would_be_told_and_what_it_costs(desk, lab):
    volume_id = add_spare(lab)

    ran = desk.run(*COMMAND, volume_id, "--dry-run")

    # io1: 100 x 0.125 + 3,000 x 0.065 = 207.50, gp2 10.00; 197.50 / 730 = 0.27 an hour, 17 min are 0.0767
    # Needed are 4 / 0.95 r + 2.2 = 14.8 min for an idle one, and more for what 20 operations may take
    assert ran.code == 0
    said = " ".join(ran.out.split())
    assert (
        "Meant for a volume whose burst nobody minds losing: it may come back without a single credit" in said
    )
    assert "Now 58.0 % of its burst balance in the minute from 17:58 UTC, 20.0 IOPS" in said
    assert "stay for 17 min, long enough to tell refilled from kept" in said
    assert "$10.00 -> $207.50 a month while it is away: $0.08 more in all" in said
    assert "0 of AWS's 4 modifications in 24 h are used; this takes 2 and leaves one for people" in said
    assert "if AWS takes 50 min for each way, refilled while away and reset may look alike" in said
    assert "Refused" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= COLUMNS
    assert asked(lab) == 0
    assert not desk.ledger_path.parent.exists()


def test_the_plan_in_json(desk, lab):
    volume_id = add_spare(lab, balance_pct=82, minutes=30)

    ran = desk.run(*COMMAND, volume_id, "--dry-run", "--json")

    assert ran.code == 4
    plan = ran.document
    assert plan["schema"] == "burstwatch.experiment-plan/v1"
    assert [each["name"] for each in plan["objections"]] == ["balance_too_high"]
    assert plan["quickest"]["away_s"] == 17 * 60
    assert set(plan["quickest"]["allowed_pct"]) == set(FATES.values())
    assert plan["plan"]["target"]["volume_type"] == "io1"


def in_its_window(desk, lab):
    volume_id = add_spare(lab, tags={"burstwatch:window": "release"})
    desk.run("window", "start", "release", "--for", "4h", "--yes")
    return volume_id


def before_its_window(desk, lab):
    (desk.directory / "policy.yaml").write_text(
        "version: 1\nwindows:\n  night:\n    cron: 0 20 * * *\n    zone: UTC\n    duration: 2h\n"
    )
    return add_spare(lab, tags={"burstwatch:window": "night"})


def on_hold(desk, lab):
    volume_id = add_spare(lab)
    desk.run("hold", "--all", "--for", "6h", "--reason", "INC-42", "--ledger", f"sqlite:{desk.ledger_path}")
    return volume_id


def flipped(desk, lab):
    volume_id = add_spare(lab)
    desk.run("flip", volume_id, "--yes")
    return volume_id


def there_and_back_already(desk, lab):
    volume_id = add_spare(lab, balance_pct=20)
    for command in ("flip", "flip-back"):
        desk.run(command, volume_id, "--yes")
        lab.clock.advance(1800)
        desk.run("watch", "--once")
    lab.clock.advance(3600)
    return volume_id


@pytest.mark.parametrize(
    ("make", "name", "said"),
    [
        (in_its_window, "window", "its window release runs"),
        (before_its_window, "window", "its window night starts before the experiment would be over"),
        (on_hold, "held", "everything is on hold by anna"),
        (flipped, "flipped", "burstctl flip-back"),
        (there_and_back_already, "quota_reserve", "2 of AWS's 4 modifications in 24 h are used; it takes 2"),
    ],
)
def test_it_is_refused_and_nothing_is_done(desk, lab, make, name, said):
    volume_id = make(desk, lab)
    before = asked(lab)

    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 4
    assert f"{name}: " in ran.out
    assert said in " ".join(ran.out.split())
    assert max(map(len, ran.out.splitlines())) <= COLUMNS
    assert asked(lab) == before
    assert journals(desk) == []


def test_it_is_refused_where_it_would_hurt_or_could_not_tell(desk, lab):
    jumped, stopped = add_spare(lab), add_spare(lab, instance_id="i-0123456789abcdef0")
    lab.fleet.stop_instance("i-0123456789abcdef0")
    lab.clock.advance(3600)
    lab.fleet.set_balance(jumped, 30)
    lab.clock.advance(300)
    late = {"starts_at": lab.clock.now() - timedelta(minutes=30)}
    quarter = {"starts_at": lab.clock.now() - timedelta(minutes=15)}
    expected = {
        jumped: ("unsteady", "take a quieter volume"),
        stopped: ("no_data", "is stopped"),
        put(lab, 82, **late): ("balance_too_high", "above 80 %"),
        put(lab, 1.2, load="steady:300", **late): (
            "would_not_tell",
            "let it refill first, at 0.33 % a minute",
        ),
        put(lab, 5, size_gib=900, **(late | quarter)): (
            "would_not_tell",
            "begin lower, stay shorter, or take a smaller",
        ),
        put(lab, 40, tags={"burstwatch:critical": "true"}, **late): ("critical", "nobody would miss"),
        put(lab, 70, load="steady:1500", **late): ("alert", "an alert is going on, warning"),
        put(lab, 40, attached=False, **late): ("no_data", "detached"),
        put(lab, 40, size_gib=1000, **late): ("no_balance", "take a gp2 below 1,000 GiB"),
        put(lab, 40, volume_type="gp3", **late): ("no_balance", "a gp3 of 100 GiB"),
        put(lab, 40, managed_by="eks.amazonaws.com", **late): ("managed", "it belongs to eks"),
        put(lab, 40, size_gib=33, **late): ("no_target", "take gp3 or io2"),
    }
    with modifying_desk(Options()) as opened:
        found = {volume_id: examine(opened, Wanted(volume_id=volume_id)).objections for volume_id in expected}
    for volume_id, (name, said) in expected.items():
        names = [each.name for each in found[volume_id]]
        assert name in names, (name, found[volume_id])
        assert said in " ".join(each.reason for each in found[volume_id] if each.name == name)


def put(lab, balance_pct, *, load="idle", size_gib=100, **given) -> str:
    return lab.fleet.add(LabVolume(size_gib=size_gib, load=load, balance_pct=balance_pct, **given))


def test_a_longer_stay_can_be_wanted_and_one_in_which_it_fills_is_refused(desk, lab):
    volume_id = add_spare(lab)

    long, longer = (desk.run(*COMMAND, volume_id, "--dry-run", "--away", span) for span in ("1h", "3h"))

    assert "stay for 60 min," in long.out
    assert longer.code == 4
    assert "would_not_tell: refilled while away (" in " ".join(longer.out.split())


@pytest.mark.parametrize("away", ["5m", "13h", "soon"])
def test_a_stay_that_cannot_be_is_misuse(desk, lab, away):
    assert desk.run(*COMMAND, "vol-0123456789abcdef0", "--away", away).code == 2


def test_a_volume_that_is_not_there_is_a_failure_with_one_message(desk, lab):
    ran = desk.run(*COMMAND, "vol-0123456789abcdef0", "--yes")

    assert ran.code == 1
    assert ran.complaints == [
        "burstctl: there is no volume vol-0123456789abcdef0 in us-east-1: check the id, the region, the"
        " account"
    ]


def test_without_a_terminal_yes_is_needed_and_nothing_is_read(desk, lab):
    ran = desk.run(*COMMAND, add_spare(lab))

    assert ran.code == 2
    assert "add --yes to do it, or --dry-run to see" in ran.err
    assert "DescribeVolumes" not in lab.faults.calls()


def test_whoever_says_no_has_nothing_done(desk, lab):
    volume_id = add_spare(lab)

    ran = desk.run(*COMMAND, volume_id, answer="n")

    assert ran.code == 130
    assert f"May {volume_id} lose its burst for this, and shall it begin? [y/N]" in ran.err
    assert asked(lab) == 0
    assert not desk.ledger_path.parent.exists()


def test_a_report_that_could_not_be_written_is_found_out_before_anything_is_done(desk, lab, tmp_path):
    ran = desk.run(*COMMAND, add_spare(lab), "--yes", "--report", tmp_path / "nowhere" / "answer.md")

    assert ran.code == 2
    assert "its directory is not there or not yours; name another" in ran.err
    assert asked(lab) == 0


def interrupt(stop):
    stop.is_asked = True


def test_after_an_interruption_the_same_command_goes_on_and_asks_nothing_again(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.once(is_away(lab, volume_id), interrupt)

    first = desk.run(*COMMAND, volume_id, answer="y")
    shown = desk.run(*COMMAND, volume_id, "--dry-run")
    second = desk.run(*COMMAND, volume_id)

    assert first.code == 130
    assert "run it again to go on, with --abandon to bring it home at once: burstctl experiment" in first.err
    assert shown.code == 0
    assert shown.out.startswith(f"{volume_id} is ")
    assert second.code == 0
    assert second.out.startswith("Kept. ")
    assert f"going on: {volume_id} is " in second.err
    assert modified(lab, volume_id) == ["io1", "gp2"]
    assert holds(desk) == []


def test_it_can_be_interrupted_at_every_wait(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.meanwhile.append(interrupt)
    codes = [desk.run(*COMMAND, volume_id, "--yes").code]
    while codes[-1] == 130:
        codes.append(desk.run(*COMMAND, volume_id).code)

    assert codes[-1] == 0
    assert len(codes) > 4
    assert modified(lab, volume_id) == ["io1", "gp2"]
    assert [each["conclusion"] for each in journals(desk)] == ["kept"]


def wait_for(condition):
    until_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until_s, "it did not come about within a minute"
        time.sleep(0.02)


def test_a_real_ctrl_c_ends_it_between_two_looks_and_it_goes_on_in_another_process(desk):
    with a_lab(desk, speed=300, modify_minutes_per_tib=30) as lab:
        volume_id = add_spare(lab)
        with desk.start(*COMMAND, volume_id, "--yes") as process:
            wait_for(is_away(lab, volume_id))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "interrupted: " in err
        assert "Traceback" not in err
        lab.clock.set_speed(1000)
        ran = desk.run_alone(*COMMAND, volume_id, "--json")
        assert ran.code == 0
        assert modified(lab, volume_id) == ["io1", "gp2"]
        assert ran.document["conclusion"] in ("kept", "unclear")


def test_whoever_never_comes_back_to_it_has_a_watchdog_bring_it_home(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.once(is_away(lab, volume_id), interrupt)
    desk.run(*COMMAND, volume_id, "--yes")
    for _ in range(2):
        lab.clock.advance(20 * 3600)
        desk.run("watch", "--once", "--act")
        lab.clock.advance(1200)
        desk.run("watch", "--once", "--act")

    ran = desk.run(*COMMAND, volume_id)

    assert modified(lab, volume_id) == ["io1", "gp2"]
    assert ran.code == 1
    assert "no answer: somebody else changed or returned it" in ran.err


def test_what_was_agreed_to_long_ago_and_never_began_is_not_begun(desk, lab, naps, monkeypatch):
    """The process died between the agreement and its first effect; nobody came back for a night."""
    volume_id = add_spare(lab)

    def die(_self):
        raise SystemExit(9)

    with monkeypatch.context() as dying:
        dying.setattr(runner.Experiment, "run", die)
        with pytest.raises(SystemExit):
            desk.run(*COMMAND, volume_id, "--yes")
    lab.clock.advance(8 * 3600)

    ran = desk.run(*COMMAND, volume_id)

    assert ran.code == 4
    assert "it was agreed to at 2026-11-20T18:00:00Z, and much may have changed since" in ran.err
    assert asked(lab) == 0
    assert holds(desk) == []


def test_abandoned_it_comes_home_at_once_and_gives_no_answer(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.once(is_away(lab, volume_id), interrupt)
    desk.run(*COMMAND, volume_id, "--yes")
    away_at = lab.clock.now()

    ran = desk.run(*COMMAND, volume_id, "--abandon")

    assert ran.code == 0
    assert ran.out == "There is no answer: it was ended before there was one.\n"
    assert lab.clock.now() - away_at < timedelta(minutes=15)
    assert modified(lab, volume_id) == ["io1", "gp2"]
    assert reports(desk) == []
    assert holds(desk) == []
    assert desk.run(*COMMAND, volume_id, "--abandon").code == 0
    assert "nothing to abandon" in desk.run(*COMMAND, volume_id, "--abandon").err


def test_abandoned_while_it_leaves_it_stays_so_and_comes_back_when_aws_is_done(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.meanwhile.append(interrupt)
    desk.run(*COMMAND, volume_id, "--yes")
    assert journals(desk)[0]["stage"] == Stage.LEAVING
    desk.run(*COMMAND, volume_id, "--abandon")
    naps.meanwhile.clear()

    ran = desk.run(*COMMAND, volume_id)

    assert ran.code == 0
    assert ran.out.startswith("There is no answer")
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_the_kill_switch_stops_the_return_until_it_is_released(desk, lab, naps):
    volume_id = add_spare(lab)
    switch = Hold(
        volume_id=None,
        by="bob",
        reason="INC-42",
        placed_at_s=int(START.timestamp()),
        until_s=int(START.timestamp()) + 86_400,
    )

    def place(_stop):
        with desk.open_ledger() as ledger:
            ledger.place_hold(switch)

    def lift(_stop):
        with desk.open_ledger() as ledger:
            ledger.lift_hold(None, by="bob", at_s=int(lab.clock.now_s()))

    naps.once(is_away(lab, volume_id), place)
    naps.once(lambda: lab.clock.now() > START + timedelta(hours=2), lift)
    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 0
    assert "it cannot return: held: everything is on hold by bob: INC-42" in ran.err
    back = lab.fleet.modifications(volume_id)[-1]
    assert back.started_at > START + timedelta(hours=2)


def test_a_watchdog_that_may_act_leaves_it_alone(desk, lab, naps, monkeypatch):
    """Opted in, and a window begins while it is away: back on gp2 it would be flipped, but it is held."""
    volume_id = add_spare(lab, tags={"burstwatch:mode": "auto", "burstwatch:window": "release"})
    shells, refused = [], []
    run = runner.Experiment.run
    monkeypatch.setattr(runner.Experiment, "run", lambda self: (shells.append(self.desk.shell), run(self))[1])

    def start(_stop):
        mark = WindowMark(name="release", starts=True, by="bob", at_s=int(lab.clock.now_s()))
        shells[0].ledger.mark_window(mark)

    def watch(_stop):
        report = look_at_everything(shells[0], now_s=lab.clock.now_s())
        refused.extend(each.refusal.guard for each in report.outcomes.values() if each.refusal)

    naps.once(is_away(lab, volume_id), start)
    naps.meanwhile.append(watch)
    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 0
    assert "\nKept. " in ran.out
    assert set(refused) == {Guard.HELD}
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_what_others_make_of_it_meanwhile_ends_it_and_is_respected(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.once(is_away(lab, volume_id), lambda _: lab.fleet.modify(volume_id, volume_type="gp2"))

    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 1
    assert "no answer: somebody else" in ran.err
    assert ran.out.rpartition("\n\n")[2].splitlines()[-1]
    assert modified(lab, volume_id) == ["io1", "gp2"]
    assert holds(desk) == []
    assert reports(desk) == []


def test_somebody_elses_flip_back_ends_it(desk, lab, naps):
    volume_id = add_spare(lab)

    def flip_back(_stop):
        with desk.open_ledger() as ledger:
            ledger.lift_hold(volume_id, by="bob", at_s=int(lab.clock.now_s()))
        assert main(["flip-back", volume_id, "--yes"]) == 0

    naps.once(lambda: journals(desk)[0]["stage"] == Stage.AWAY, flip_back)
    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 1
    assert modified(lab, volume_id) == ["io1", "gp2"]


@pytest.mark.parametrize(("fails_at", "types"), [(0, ["io1", "io1", "gp2"]), (1, ["io1", "gp2", "gp2"])])
def test_a_modification_that_aws_did_not_make_is_asked_for_again(desk, lab, naps, fails_at, types):
    volume_id = add_spare(lab)

    def choose(_stop=None):
        done = len(modified(lab, volume_id))
        lab.fleet.change_settings(modify_outcome="failed" if done == fails_at else "completed")

    choose()
    naps.meanwhile.append(choose)
    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 0
    assert modified(lab, volume_id) == types


def test_a_lost_answer_is_settled_by_asking_and_nothing_is_sent_twice(desk, lab, naps):
    """Neither answer of AWS to ModifyVolume arrives; what was asked for is done."""
    volume_id = add_spare(lab)
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", after_effect=True, times=2))

    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 0
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_a_volume_that_may_not_leave_is_let_go_of(desk, lab, naps):
    volume_id = add_spare(lab)
    lab.fleet.change_settings(modify_needs_tag=("burstwatch:mode", "auto"))

    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 1
    assert "no answer: it could not leave: ec2:ModifyVolume failed (UnauthorizedOperation)" in ran.err
    assert holds(desk) == []
    assert desk.run(*COMMAND, volume_id, "--dry-run").code == 0


def test_without_datapoints_after_the_return_the_answer_is_unclear_and_told_so(desk, lab, naps):
    volume_id = add_spare(lab)
    lab.fleet.hide_metrics(volume_id, from_at=START + timedelta(minutes=5), to_at=START + timedelta(days=1))

    ran = desk.run(*COMMAND, volume_id, "--yes", "--json")

    assert ran.code == 0
    assert ran.document["conclusion"] == "unclear"
    assert ran.document["because"] == [
        "0 datapoints from after the return are there, and at least 3 over 15 min are wanted."
    ]
    assert "**Unclear. The datapoints do not tell which" in reports(desk)[0].read_text()
    assert holds(desk) == []


def test_beside_a_deployed_stack_its_ledger_has_the_hold_and_the_journal_stays_here(desk, lab, naps):
    ledger = a_stack(lab)
    volume_id = add_spare(lab)
    seen = []
    naps.once(is_away(lab, volume_id), lambda _: seen.extend(ledger.holds(lab.clock.now_s())))

    ran = desk.run(*COMMAND, volume_id, "--yes", "--json")

    assert ran.code == 0
    assert ran.document["conclusion"] == "kept"
    assert [hold.volume_id for hold in seen] == [volume_id]
    assert ledger.holds(lab.clock.now_s()) == []
    assert [each["ledger"] for each in journals(desk)] == ["dynamodb:burstwatch-ledger"]
    assert not desk.ledger_path.exists()


def test_where_aws_took_long_it_stays_longer(desk, lab, naps):
    lab.fleet.change_settings(modifying_s=1500.0)
    volume_id = add_spare(lab, size_gib=60, balance_pct=20)

    ran = desk.run(*COMMAND, volume_id, "--yes", "--json")

    out, back = (each.started_at for each in lab.fleet.modifications(volume_id))
    assert "so it stays for " in ran.err
    assert back - out > timedelta(minutes=50)
    assert ran.document["conclusion"] == "kept"


def test_what_cannot_be_gone_on_with_is_one_message_each(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.meanwhile.append(interrupt)
    desk.run(*COMMAND, volume_id, "--yes")
    state = desk.ledger_path.parent
    [path] = state.glob("experiment-*.json")

    elsewhere = desk.run(*COMMAND, volume_id, "--ledger", f"sqlite:{state / 'other.sqlite'}")
    with Shelf(state).kept_for(volume_id):
        at_once = desk.run(*COMMAND, volume_id)
    path.write_text("{")
    damaged = desk.run(*COMMAND, volume_id)

    assert (elsewhere.code, at_once.code, damaged.code) == (2, 1, 1)
    assert f"was begun in us-east-1 with ledger sqlite:{desk.ledger_path}" in elsewhere.complaints[-1]
    assert f"another process is at the experiment with {volume_id}" in at_once.complaints[-1]
    assert f"the journal {path} cannot be read" in damaged.complaints[-1]
    assert modified(lab, volume_id) == ["io1"]


def test_another_experiment_can_follow(desk, lab, naps):
    volume_id = add_spare(lab, balance_pct=20)
    assert desk.run(*COMMAND, volume_id, "--yes").code == 0
    lab.clock.advance(25 * 3600)
    lab.fleet.set_balance(volume_id, 20)
    lab.clock.advance(3600)

    ran = desk.run(*COMMAND, volume_id, "--yes", "--to", "gp3", "--tell-id", "--json")

    assert ran.code == 0
    assert ran.document["volume"] == volume_id
    assert f"| Volume | {volume_id} |" in Path(ran.document["report"]).read_text()
    assert modified(lab, volume_id) == ["io1", "gp2", "gp3", "gp2"]
    assert len(journals(desk)) == len(reports(desk)) == 2


def at_stage(desk, stage):
    return lambda: bool(journals(desk)) and journals(desk)[0]["stage"] == stage


def while_cloudwatch_refuses(lab):
    fault = Fault(action="GetMetricData", code="AccessDenied", message="not you", status=403)
    return lambda _stop=None: lab.faults.add(fault)


def test_while_cloudwatch_does_not_answer_nothing_is_concluded(desk, lab, naps):
    """The datapoints are kept for days: an hour without an answer is no hour without datapoints."""
    volume_id = add_spare(lab)
    naps.once(at_stage(desk, Stage.WATCHING), while_cloudwatch_refuses(lab))
    naps.once(lambda: lab.clock.now() > START + timedelta(hours=4), lambda _: lab.faults.clear())

    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert "\nKept. " in ran.out
    assert "AccessDenied" in ran.err
    assert "waited for until CloudWatch answers" in " ".join(ran.err.split())
    assert [each["conclusion"] for each in journals(desk)] == ["kept"]
    assert holds(desk) == []


def test_what_cloudwatch_never_tells_is_not_waited_for_longer_than_a_day(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.once(at_stage(desk, Stage.WATCHING), while_cloudwatch_refuses(lab))

    ran = desk.run(*COMMAND, volume_id, "--yes")

    assert ran.code == 0
    assert [each["conclusion"] for each in journals(desk)] == ["unclear"]
    assert timedelta(hours=24) < lab.clock.now() - START < timedelta(hours=28)
    assert holds(desk) == []


def test_the_answer_on_the_screen_is_that_of_the_report(desk, lab, naps, monkeypatch):
    """Read once more for the screen alone, CloudWatch might say less."""
    volume_id = add_spare(lab)
    write = runner.write_report

    def write_and_fall_silent(*given):
        write(*given)
        while_cloudwatch_refuses(lab)()

    monkeypatch.setattr(runner, "write_report", write_and_fall_silent)
    ran = desk.run(*COMMAND, volume_id, "--yes", "--json")

    assert ran.document["conclusion"] == "kept"
    assert [each["conclusion"] for each in journals(desk)] == ["kept"]


def test_how_long_it_must_stay_is_not_reckoned_from_what_was_not_read(desk, lab, naps):
    lab.fleet.change_settings(modifying_s=1500.0)
    volume_id = add_spare(lab, size_gib=60, balance_pct=20)
    naps.once(at_stage(desk, Stage.LEAVING), while_cloudwatch_refuses(lab))
    naps.once(at_stage(desk, Stage.AWAY), lambda _: lab.faults.clear())

    ran = desk.run(*COMMAND, volume_id, "--yes", "--json")

    out, back = (each.started_at for each in lab.fleet.modifications(volume_id))
    assert "no stay up to" not in ran.err
    assert back - out > timedelta(minutes=50)
    assert ran.document["conclusion"] == "kept"


def test_a_ledger_out_of_reach_is_waited_for(desk, lab, naps):
    """A network that is gone for a while ends nothing: the volume would be left on its target."""
    a_stack(lab)
    volume_id = add_spare(lab)
    gone = [
        Fault(action=action, code="InternalServerError", status=500, times=24)
        for action in ("BatchGetItem", "Query", "GetItem")
    ]
    naps.once(is_away(lab, volume_id), lambda _: [lab.faults.add(each) for each in gone])

    ran = desk.run(*COMMAND, volume_id, "--yes", "--json")

    assert ran.code == 0
    assert ran.document["conclusion"] == "kept"
    assert "the ledger cannot be used and is tried again every minute" in " ".join(ran.err.split())


def test_whatever_ends_it_says_where_the_volume_is_and_how_to_go_on(desk, lab, naps, monkeypatch):
    volume_id = add_spare(lab)

    def full(_self, _journal):
        raise JournalError("the disk is full")

    naps.once(is_away(lab, volume_id), lambda _: monkeypatch.setattr(Shelf, "save", full))
    ran = desk.run(*COMMAND, volume_id, "--yes")

    said = " ".join(ran.err.split())
    assert ran.code == 1
    assert ran.complaints == ["burstctl: the disk is full"]
    assert f"it stopped here: {volume_id} is to become io1 with 3,000 IOPS; run it again to go on" in said
    assert f"burstctl experiment credit-reset {volume_id}" in said


def test_a_plan_that_was_looked_at_for_too_long_is_not_carried_out(desk, lab, naps):
    """The question stood on the screen over lunch, and nobody knows the volume any more."""
    volume_id = add_spare(lab)

    ran = desk.run(*COMMAND, volume_id, answer="y", meanwhile=lambda: lab.clock.advance(3600))

    assert ran.code == 4
    assert "the plan above is 60 min old" in " ".join(ran.err.split())
    assert asked(lab) == 0
    assert not desk.ledger_path.exists()


def test_who_changed_it_meanwhile_is_told_what_it_is_now_and_how_to_bring_it_home(desk, lab, naps):
    volume_id = add_spare(lab)
    naps.once(at_stage(desk, Stage.AWAY), lambda _: lab.fleet.modify(volume_id, volume_type="io1", iops=4000))

    ran = desk.run(*COMMAND, volume_id, "--yes")

    said = " ".join(ran.out.rpartition("\n\n")[2].split())
    assert ran.code == 1
    assert "It is io1 with 4,000 IOPS now, and nobody brings it home by itself" in said
    assert f"burstctl flip-back {volume_id}" in said
    assert holds(desk) == []


def test_an_ignored_volume_is_refused_by_that_name(desk, lab):
    volume_id = add_spare(lab, tags={"burstwatch:ignore": "true"})

    ran = desk.run(*COMMAND, volume_id, "--dry-run")

    assert ran.code == 1
    assert ran.complaints == [
        f"burstctl: {volume_id} is tagged burstwatch:ignore, so nobody looks at it: take the tag away, or"
        " take another volume"
    ]
