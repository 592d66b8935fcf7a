"""From what an operator asks for to a plan for each volume."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from burstctl.cli.tag_filter import TagTerm, ec2_filters
from burstctl.context.context import Desk
from burstctl.flip.cap_preview import with_caps
from burstctl.render.planned_flip import Planned
from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import Wish
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.guards import Guard
from burstwatch.core.flips.outcome import Outcome
from burstwatch.core.flips.planning import Order, Plan
from burstwatch.core.flips.triggers import window_words
from burstwatch.core.ledger.flip_state import Cause, Direction
from burstwatch.core.policy.policy import Mode
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.window_status import Outlook
from burstwatch.engine.collector import Gathering
from burstwatch.engine.flip_executor import Measured, measure, plan_orders
from burstwatch.wiring.settings import SettingsError

BY_HAND: Final = "by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operator asks for, of volumes named or chosen by tag; ``lasts`` is how long it is to stay."""

    direction: Direction
    volume_ids: Sequence[str] = ()
    terms: Sequence[TagTerm] = ()
    wish: Wish | None = None
    lasts: timedelta | None = None
    overridden: frozenset[Guard] = frozenset()
    reason: str | None = None
    dry_run: bool = False
    assumes_yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The plans, and the volumes there is none for: ``lost`` while planning, or ``missing`` in the region."""

    planned: Sequence[Planned]
    lost: Mapping[str, Outcome]
    missing: Sequence[str]
    failures: Sequence[str]

    @property
    def wanted(self) -> list[Planned]:
        return [each for each in self.planned if each.is_wanted]

    @property
    def has_failed(self) -> bool:
        return bool(self.lost or self.missing or self.failures)


def draw_up(desk: Desk, request: Request) -> Drawn:
    """Choose the volumes, measure what they serve, and plan.

    Raises:
        SettingsError: no volume fits the choice.
        AwsError: the volumes cannot be listed, so nobody knows which are meant.
    """
    desk.progress.begin("planning")
    try:
        return _draw_up(desk, request)
    finally:
        desk.progress.end()


def _draw_up(desk: Desk, request: Request) -> Drawn:
    shell = desk.shell
    gathering = shell.gathering(shell.clock())
    volumes, missing = _choose(desk, request, gathering)
    seen = measure(shell, gathering, volumes) if request.direction is Direction.OUT else {}
    orders = [
        _order(desk, request, volume, seen.get(volume.volume_id, Measured()), gathering.now_s, place)
        for place, volume in enumerate(volumes)
    ]
    drafts = plan_orders(shell, orders, gathering) if orders else {}
    lost = {volume_id: draft for volume_id, draft in drafts.items() if isinstance(draft, Outcome)}
    plans = [draft for draft in drafts.values() if isinstance(draft, Plan)]
    weighed = with_caps(plans, shell.ledger.states(), shell.policy.flip)
    outlook = Outlook.at(gathering.now_s, shell.policy, shell.ledger.window_marks().values())
    planned = [
        Planned(
            plan=plan,
            region=shell.place.region,
            options=desk.options,
            lead=shell.policy.lead,
            lasts=request.lasts,
            moved_out_again=_why_out_again(plan, outlook),
            is_stopped=shell.policy.mode.highest is not Mode.AUTO,
        )
        for plan in weighed.values()
    ]
    return Drawn(planned=planned, lost=lost, missing=missing, failures=gathering.failures)


def _why_out_again(plan: Plan, outlook: Outlook) -> str | None:
    """Why a volume that returns would be moved out soon; None where nothing wants that."""
    if plan.order.direction is Direction.OUT or plan.facts.wishes.mode is not Mode.AUTO:
        return None
    if plan.facts.wishes.is_critical:
        return "it is tagged critical"
    windows = outlook.of(plan.facts.volume)
    return window_words(windows, plan.facts.now_s) if windows is not None and windows.wants_flip else None


def _choose(desk: Desk, request: Request, gathering: Gathering) -> tuple[list[Volume], list[str]]:
    if request.volume_ids:
        volumes, missing = gathering.by_id(request.volume_ids)
        places = {volume_id: place for place, volume_id in enumerate(request.volume_ids)}
        return sorted(volumes, key=lambda volume: places[volume.volume_id]), missing

    def report(subject: str, failure: AwsFailure) -> None:
        gathering.failures.append(f"{subject}: {failure}")

    listed = desk.shell.ec2.volumes(ec2_filters(request.terms, list(VolumeType)), report=report)
    found = [volume for volume in listed if all(term.fits(volume) for term in request.terms)]
    states = desk.shell.ledger.states()
    flipped = {volume_id for volume_id, state in states.items() if state.flip is not None}
    is_out = request.direction is Direction.OUT
    found = [volume for volume in found if volume.volume_id in flipped or (is_out and volume.is_gp2)]
    if not found:
        raise SettingsError(_nothing_fits(desk, request))
    return sorted(found, key=lambda volume: volume.volume_id), []


def _nothing_fits(desk: Desk, request: Request) -> str:
    terms, region = " and ".join(map(str, request.terms)), desk.shell.place.region
    if request.direction is Direction.OUT:
        return f"no gp2 volume in {region} carries {terms}, so nothing was done"
    return f"no volume in {region} that carries {terms} has a flip in this ledger, so nothing was done"


def _order(desk: Desk, request: Request, volume: Volume, seen: Measured, now_s: float, place: int) -> Order:
    wish = request.wish
    if wish is not None and wish.volume_type is None:
        tagged = read_tags(volume.tags, desk.shell.policy.mode).target
        wish = replace(wish, volume_type=tagged.volume_type)
    lasts = request.lasts
    return Order(
        volume_id=volume.volume_id,
        direction=request.direction,
        cause=Cause.BY_HAND,
        because=request.reason or BY_HAND,
        by=desk.by,
        wish=wish,
        demand=seen.demand,
        empty_s=seen.empty_s,
        return_after_s=int(now_s + lasts.total_seconds()) if lasts else None,
        overridden=request.overridden,
        why=request.reason,
        urgency=(float(place),),
    )
