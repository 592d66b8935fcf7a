"""Somebody else changed a flipped volume: what is recorded and reported of it."""

from dataclasses import replace

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_month
from burstwatch.core.flips.reconciliation.reconcile_context import ReconcileContext
from burstwatch.core.flips.transition import Event, Transition
from burstwatch.core.ledger.flip_state import (
    EXTERNAL,
    Direction,
    Flip,
    FlipStatus,
    ModificationUse,
    configuration_to_document,
)
from burstwatch.core.ledger.ledger_entry import EntryKind


def mark_contested(context: ReconcileContext) -> Transition:
    """Somebody else changed it: report it, and leave the volume to people until it is released."""
    observed, history = context.observed, context.state.modifications
    if observed.started_at_s is not None:
        external = ModificationUse(at_s=observed.started_at_s, by=EXTERNAL)
        history = history.with_use(external, context.now_s)
    observed_config, size_gib = (
        observed.configuration or observed.volume.volume_type,
        observed.volume.size_gib,
    )
    record = observed.record
    if record is not None and context.is_external and not record.has_failed:
        observed_config, size_gib = (
            record.target.configuration() or record.target.volume_type,
            record.target.size_gib,
        )
    state = replace(
        context.state,
        flip=_rebase_on_external_change(context, observed_config, size_gib),
        modifications=replace(
            history, contested_at_s=int(context.now_s), used=history.within_day(context.now_s)
        ),
    )
    event = _contested_event(context, observed_config, size_gib)
    return Transition(state=state, events=(event,))


def _rebase_on_external_change(
    context: ReconcileContext, observed_config: Configuration | str, size_gib: int
) -> Flip | None:
    """The flip of a volume that others have changed to something other than its original: it still returns.

    None for gp2, from which it can only be flipped again. None also for a type that no volume is flipped to
    or from: the event then states what the volume was.
    """
    flip = context.flip
    if (
        not isinstance(observed_config, Configuration)
        or observed_config == flip.original
        or observed_config.volume_type is VolumeType.GP2
    ):
        return None
    before_usd, after_usd = (
        usd_per_month(configuration, size_gib, US_EAST_1)
        for configuration in (flip.original, observed_config)
    )
    return replace(
        flip,
        status=FlipStatus.ON_TARGET,
        direction=Direction.FLIP,
        target=observed_config,
        size_gib=size_gib,
        usd_per_month=round(after_usd - before_usd, 6),
        reached_at_s=flip.reached_at_s or int(context.now_s),
        started_at_s=context.observed.started_at_s or flip.started_at_s,
        previous=None,
        unconfirmed_since_s=None,
        overdue_alerted_at_s=int(context.now_s),
    )


def _contested_event(context: ReconcileContext, observed_config: Configuration | str, to_gib: int) -> Event:
    flip = context.flip
    is_same_config = observed_config == flip.target
    has_grown = is_same_config and to_gib != flip.size_gib
    is_off_gp2 = (
        isinstance(observed_config, Configuration) and observed_config.volume_type is not VolumeType.GP2
    )
    returns_later = is_off_gp2 and observed_config != flip.original and not flip.is_permanent
    change = f"was {'reverted to' if observed_config == flip.original else 'made'} {observed_config}"
    definition = (
        "If Terraform or a similar tool did this, it will do it again: write"
        f" {_terraform_attributes(flip.target)} into its definition."
    )
    return Event(
        kind=EntryKind.CHANGED_BY_OTHERS,
        summary=f"was resized from {flip.size_gib:,} to {to_gib:,} GiB" if has_grown else change,
        details=(
            f"It was {flip.original} until burstwatch made it {flip.target}, requested by {flip.by}.",
            *([] if is_same_config else [definition]),
            "The watchdog does not change it until it is released.",
            *(
                [f"Then the watchdog flips it back to {flip.original} when its load is calm."]
                if returns_later
                else []
            ),
        ),
        alert=AlertKind.CHANGED_BY_OTHERS,
        action=f"burstctl release {context.state.volume_id}",
        facts={
            "from": configuration_to_document(flip.target),
            "to": configuration_to_document(observed_config)
            if isinstance(observed_config, Configuration)
            else {"volume_type": observed_config},
            "original": configuration_to_document(flip.original),
            "from_gib": flip.size_gib,
            "to_gib": to_gib,
        },
    )


def _terraform_attributes(configuration: Configuration) -> str:
    """The line of an infrastructure definition that agrees with a configuration."""
    parts = [f'type = "{configuration.volume_type}"']
    parts += [f"iops = {configuration.iops}"] if configuration.iops is not None else []
    if configuration.throughput_mib_s is not None:
        parts.append(f"throughput = {configuration.throughput_mib_s}")
    return ", ".join(parts)
