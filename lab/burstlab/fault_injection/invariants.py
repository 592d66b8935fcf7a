"""What must be so after every run, whatever went wrong: each law says in sentences where it is broken."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from burstlab.fault_injection.effects import DRIP_S, Fault
from burstlab.fault_injection.world import HELD, IN_SCOPE, NAMES, Course, Made, Told
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import SAME_START_S
from burstwatch.core.ledger.ledger import EntryKind

Law = Callable[[Course, Course], list[str]]
"""Takes a run and the one in which all went well; answers with what is wrong."""

LATE_S: Final = 5 * 60
"""What takes all with it (a process that dies, a call about every volume) may delay them by so much."""

_OF_TROUBLE: Final = frozenset(
    {AlertKind.FLIP_FAILED, AlertKind.FLIP_REFUSED, AlertKind.TELEMETRY_GAP, AlertKind.POLICY_REJECTED}
)
"""What people may be told of only because something went wrong."""

_MAY_BE: Final = _OF_TROUBLE | {AlertKind.EXHAUSTED}

_TAKES_ALL: Final = frozenset(
    {Fault.CRASH, Fault.CRASH_AFTER, Fault.TIMEOUT, Fault.TIMEOUT_AFTER, Fault.DRIP, Fault.NEIGHBOURS}
)
_TO_PEOPLE: Final = ("channel.", "sns:")
_TICK_S: Final = 60
_BLIND_LATE_S: Final = int(DRIP_S) + 150 + _TICK_S
"""Of the drip, the five attempts of one read, and a tick."""
_OF_EVERYBODY: Final = ("ledger.", "dynamodb:", "channel.", "sns:")
"""The ledger and the ways to people: what is wrong with them for one volume may be so for all."""

_ALERTING: Final = frozenset(str(level) for level in Level if level.is_alerting)


def the_original_is_known(run: Course, _: Course) -> list[str]:
    """While a volume is away from what it was, or on its way, the ledger says what it was."""
    return [
        f"{_called(one.volume_id)} is {one.is_now} {_minute(run, one.at_s)}, and of what it was the ledger"
        f" says {one.ledger_says}"
        for one in run.lost
    ]


def one_modification_per_decision(run: Course, clean: Course) -> list[str]:
    """Each ModifyVolume has an intent, each is sent once, and AWS makes no more than if all is well."""
    found = [
        f"{_called(one.volume_id)}: ModifyVolume was sent {_minute(run, one.at_s)} without an intent"
        for one in run.sent
        if one.intent_id is None
    ]
    times = Counter((one.volume_id, one.intent_id) for one in run.sent if one.intent_id)
    found += [
        f"{_called(volume_id)}: intent {intent_id} was sent {count} times"
        for (volume_id, intent_id), count in times.items()
        if count > 1
    ]
    made, wanted = _by_volume(run.made), _by_volume(clean.made)
    return found + [
        f"{_called(volume_id)} was modified to {' and '.join(types)},"
        f" not to {' and '.join(wanted.get(volume_id, [])) or 'anything'}"
        for volume_id, types in made.items()
        if len(types) > len(wanted.get(volume_id, []))
    ]


def never_out_of_scope(run: Course, _: Course) -> list[str]:
    """Nothing is sent for a volume without the tag or the need, or while a person holds it."""
    found = [
        f"{_called(one.volume_id)} is out of scope, and ModifyVolume was sent {_minute(run, one.at_s)}"
        for one in run.sent
        if one.volume_id not in IN_SCOPE
    ]
    return found + [
        f"{_called(one.volume_id)} was on hold when ModifyVolume was sent {_minute(run, one.at_s)}"
        for one in run.sent
        if one.is_held
    ]


def every_level_is_alerted(run: Course, clean: Course) -> list[str]:
    """People got every alert of the ledger, one of each level entered, and all that the clean run tells."""
    got = {one.alert_id for one in run.told}
    levels = {(one.volume_id, one.level) for one in run.told}
    kinds = {(one.volume_id, one.kind) for one in run.told}
    found = []
    for entry in run.entries:
        match entry.kind, entry.body:
            case EntryKind.LEVEL_CHANGED, {"to": level} if level in _ALERTING:
                if (entry.volume_id, level) not in levels:
                    found.append(f"nobody was told that {_called(entry.volume_id)} is {level}")
            case EntryKind.ALERT, {"alert_id": alert_id, "kind": kind} if alert_id not in got:
                found.append(f"{_called(entry.volume_id)}: alert {kind} is in the ledger, and nobody got it")
    due = {(one.volume_id, one.kind) for one in clean.told if one.kind not in _OF_TROUBLE}
    missing = due - kinds
    found += [f"{_called(volume_id)}: nobody was told {kind}" for volume_id, kind in sorted(missing)]
    found += _levels_never_told(run, clean)
    return found + ([f"{run.undelivered} alerts wait still"] if run.undelivered else [])


def _levels_never_told(run: Course, clean: Course) -> list[str]:
    worst, due = _worst(run.told), _worst(clean.told)
    return [
        f"{_called(volume_id)} was told as {worst[volume_id]} at worst, and is {level}"
        for volume_id, level in due.items()
        if volume_id in worst and worst[volume_id].rank < level.rank
    ]


def _worst(told: Iterable[Told]) -> dict[str, Level]:
    found: dict[str, Level] = {}
    for one in told:
        level = Level(one.level)
        if level.rank > found.get(one.volume_id, Level.UNKNOWN).rank:
            found[one.volume_id] = level
    return found


def none_is_held_back(run: Course, clean: Course) -> list[str]:
    """What becomes of one volume delays no other; what takes all with it delays them by minutes at most."""
    assert run.strike is not None
    struck = next((one.about for one in clean.effects if one.name == run.strike.effect), frozenset())
    is_of_one = (
        len(struck) == 1
        and run.strike.fault not in _TAKES_ALL
        and not run.strike.effect.startswith(_OF_EVERYBODY)
    )
    allowed_s = 0 if is_of_one else LATE_S
    found = []
    for volume_id, what, late_s in delays(run, clean):
        is_other = volume_id not in struck or not is_of_one
        if is_other and late_s > allowed_s:
            found.append(f"{_called(volume_id)}: {what} came {late_s} s late, {allowed_s} s are allowed")
    return found


def no_way_to_people_delays_a_flip(run: Course, clean: Course) -> list[str]:
    """A channel that drips, fails or says nothing costs a modification one tick at most.

    The volume that a person holds is left out: she lets go of it when she has read of it.
    """
    assert run.strike is not None
    if not run.strike.effect.startswith(_TO_PEOPLE) or run.strike.fault in (Fault.CRASH, Fault.CRASH_AFTER):
        return []
    return [
        f"{_called(volume_id)}: {what} came {late_s} s late, {_TICK_S} s are allowed"
        for volume_id, what, late_s in delays(run, clean)
        if what.startswith("modification") and volume_id != HELD and late_s > _TICK_S
    ]


def a_blind_watchdog_is_late_by_no_more(run: Course, clean: Course) -> list[str]:
    """When AWS answers its reads again, what is due is done within the time of one call and a tick."""
    return [
        f"{_called(volume_id)}: {what} came {late_s} s late, {_BLIND_LATE_S} s are allowed"
        for volume_id, what, late_s in delays(run, clean)
        if _is_blind(run) and late_s > _BLIND_LATE_S
    ]


def _is_blind(run: Course) -> bool:
    """Whether AWS let no read end for minutes: whoever sees nothing cannot tell each level in its minute."""
    return (
        run.strike is not None
        and run.strike.fault == Fault.DRIP
        and not run.strike.effect.startswith(_TO_PEOPLE)
    )


def delays(run: Course, clean: Course) -> list[tuple[str, str, int]]:
    """How much later than if all is well each modification was made, and each kind of alert first told."""
    found = []
    for volume_id, wanted in _times(clean.made).items():
        late = zip(_times(run.made).get(volume_id, []), wanted, strict=False)
        found += [
            (volume_id, f"modification {number}", at_s - due_s)
            for number, (at_s, due_s) in enumerate(late, 1)
        ]
    first, due = _first(run.told), _first(clean.told)
    found += [
        (volume_id, f"{kind} ({level})", first[volume_id, kind, level] - due_s)
        for (volume_id, kind, level), due_s in due.items()
        if (volume_id, kind, level) in first
    ]
    return found


def _times(made: Iterable[Made]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in made:
        found.setdefault(one.volume_id, []).append(one.at_s)
    return found


def _first(told: Iterable[Told]) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = {}
    for one in told:
        found.setdefault((one.volume_id, one.kind, one.level), one.at_s)
    return found


def none_runs_dry(run: Course, _: Course) -> list[str]:
    """No volume that may be moved runs dry, or is told as dry: the story leaves minutes for what goes wrong.

    The simulation is asked as well, as a watchdog that is blind tells nobody.
    """
    found = [
        f"{_called(volume_id)} ran dry {_minute(run, at_s)}"
        for volume_id, at_s in run.dry_from_s.items()
        if volume_id in IN_SCOPE
    ]
    return found + [
        f"{_called(one.volume_id)} was told as dry {_minute(run, one.at_s)}"
        for one in run.told
        if one.kind == AlertKind.EXHAUSTED and one.volume_id in IN_SCOPE
    ]


def the_ledger_is_true(run: Course, _: Course) -> list[str]:
    """Each intent has one end; those that AWS took, and no others, count as accepted and as used up."""
    found = []
    for volume_id in sorted(IN_SCOPE):
        bodies = {
            kind: [
                one.body["intent_id"] for one in run.entries if (one.volume_id, one.kind) == (volume_id, kind)
            ]
            for kind in (EntryKind.INTENT, EntryKind.ACCEPTED, EntryKind.NOT_DONE)
        }
        intents, taken, undone = bodies.values()
        if Counter(taken + undone) != Counter(intents):
            found.append(
                f"{_called(volume_id)}: {len(intents)} intents end as {len(taken)} accepted and"
                f" {len(undone)} not done"
            )
        made = _times(run.made).get(volume_id, [])
        if len(taken) != len(made):
            found.append(
                f"{_called(volume_id)}: AWS made {len(made)} modifications, the ledger tells {len(taken)}"
            )
        spent = next((one.spent for one in run.standings if one.volume_id == volume_id), ())
        if [*spent] != made and not _agree(spent, made):
            found.append(
                f"{_called(volume_id)}: {len(spent)} modifications count as used up, AWS made {len(made)}"
            )
    return found


def _agree(spent: Iterable[int], made: Iterable[int]) -> bool:
    pairs = [*zip(sorted(spent), sorted(made), strict=False)]
    is_same_count = len([*spent]) == len([*made])
    return is_same_count and all(abs(ours - theirs) <= SAME_START_S for ours, theirs in pairs)


def no_false_word(run: Course, clean: Course) -> list[str]:
    """Nobody hears of what did not happen: others' changes, failures of what was done, one alert as two."""
    usual = {(one.volume_id, one.kind) for one in clean.told}
    usual |= {(one.volume_id, AlertKind.RECOVERED) for one in run.told if one.kind == AlertKind.TELEMETRY_GAP}
    found = [
        f"{_called(one.volume_id)}: people were told {one.kind} {_minute(run, one.at_s)}"
        for one in run.told
        if (one.volume_id, one.kind) not in usual and one.kind not in _MAY_BE
    ]
    found += [
        f"{_called(one.volume_id)} is left to people, as if others had changed it"
        for one in run.standings
        if one.is_contested
    ]
    told, due = _ids(run.told), _ids(clean.told)
    return found + [
        f"{_called(volume_id)}: {kind} ({level}) was told under {len(ids)} ids"
        for (volume_id, kind, level), ids in told.items()
        if kind not in _OF_TROUBLE and len(ids) > max(1, len(due.get((volume_id, kind, level), ())))
    ]


def _ids(told: Iterable[Told]) -> dict[tuple[str, str, str], set[str]]:
    found: dict[tuple[str, str, str], set[str]] = {}
    for one in told:
        found.setdefault((one.volume_id, one.kind, one.level), set()).add(one.alert_id)
    return found


def all_comes_to_rest(run: Course, clean: Course) -> list[str]:
    """In the end every volume is what it should be, and nothing is open."""
    found = [
        f"{_called(volume_id)} is {run.types[volume_id]} in the end, not {kind}"
        for volume_id, kind in clean.types.items()
        if run.types[volume_id] != kind
    ]
    if not run.is_at_rest and not found:
        open_ones = ", ".join(f"{_called(s.volume_id)} {s.phase or s.level}" for s in run.standings)
        found.append(f"something is open still {_minute(run, run.ended_s)}: {open_ones}")
    return found


def no_mistake_of_ours(run: Course, _: Course) -> list[str]:
    """A pass may fail with an error of ours that says why; never with a bug."""
    return [f"a bug: {one}" for one in run.bugs]


LAWS: Final[Mapping[str, Law]] = {
    law.__name__: law
    for law in (
        the_original_is_known,
        one_modification_per_decision,
        never_out_of_scope,
        every_level_is_alerted,
        none_is_held_back,
        no_way_to_people_delays_a_flip,
        a_blind_watchdog_is_late_by_no_more,
        none_runs_dry,
        the_ledger_is_true,
        no_false_word,
        all_comes_to_rest,
        no_mistake_of_ours,
    )
}


_NEED_SIGHT: Final = frozenset({every_level_is_alerted, none_is_held_back, none_runs_dry, no_false_word})


def judge(run: Course, clean: Course) -> dict[str, list[str]]:
    """Where a run breaks which law."""
    unseen = _NEED_SIGHT if _is_blind(run) else frozenset()
    verdicts = {name: law(run, clean) for name, law in LAWS.items() if law not in unseen}
    return {name: said for name, said in verdicts.items() if said}


def _called(volume_id: str) -> str:
    return NAMES.get(volume_id, volume_id).split(",", 1)[0] or "the fleet"


def _minute(run: Course, at_s: float) -> str:
    return f"in minute {(at_s - run.begins_s) / 60:.0f}"


def _by_volume(made: Iterable[Made]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in made:
        found.setdefault(one.volume_id, []).append(one.volume_type)
    return found
