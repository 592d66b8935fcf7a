"""The facts that are tried, one module each: a question, a pure ``judge``, and ``measure`` for the I/O."""

from typing import Final

from burstctl.aws_check.fact import Fact
from burstctl.aws_check.facts import (
    attach_while_modifying,
    balance_after_resize,
    balance_after_return,
    balance_delay,
    balance_spacing,
    dry_run_checks,
    encrypted_alarm,
    event_results,
    gp3_defaults,
    idle_publishes,
    large_publishes,
    modification_quota,
    no_op_counts,
    ratio_refusal,
    record_lifetime,
    shown_while_modifying,
    tag_condition,
    tag_filter,
    type_condition,
    zone_filter,
)

FACTS: Final[tuple[Fact, ...]] = tuple(
    module.FACT
    for module in (
        balance_spacing,
        balance_delay,
        idle_publishes,
        large_publishes,
        balance_after_return,
        balance_after_resize,
        attach_while_modifying,
        modification_quota,
        no_op_counts,
        dry_run_checks,
        shown_while_modifying,
        record_lifetime,
        ratio_refusal,
        gp3_defaults,
        zone_filter,
        tag_filter,
        tag_condition,
        type_condition,
        encrypted_alarm,
        event_results,
    )
)
