"""Every check, in the order in which it is told: to add one, write it beside its like and name it here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstctl.doctor.check_alerts import check_slack, check_subscriptions, check_topic
from burstctl.doctor.check_credentials import check_clock, check_credentials
from burstctl.doctor.check_heartbeat import check_heartbeat
from burstctl.doctor.check_ledger import check_holds, check_ledger
from burstctl.doctor.check_permissions import check_permissions
from burstctl.doctor.check_policy import check_policy
from burstctl.doctor.check_quotas import check_quotas
from burstctl.doctor.check_stack import (
    check_alarms,
    check_functions,
    check_queues,
    check_schedule,
    check_stack,
)
from burstctl.doctor.check_versions import check_deployed_version, check_versions
from burstctl.doctor.check_volumes import (
    check_modifications,
    check_opt_in,
    check_tags,
    check_telemetry,
    check_volumes,
)
from burstctl.doctor.context import LONG_S, Patient
from burstctl.doctor.finding import Finding


class Group(StrEnum):
    """What belongs together."""

    ACCESS = "access"
    WATCHDOG = "watchdog"
    MEMORY = "policy and ledger"
    VOLUMES = "volumes"
    ALERTS = "alerts"
    VERSIONS = "versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: ``name`` is what others refer to it by, and programs know it by.

    It is given up after ``within_s``. One ``of_stack`` is skipped where none is deployed.
    """

    name: str
    group: Group
    examine: Callable[[Patient], Iterable[Finding]]
    within_s: float = 20.0
    of_stack: bool = False


FIRST: Final = Check(
    name="credentials",
    group=Group.ACCESS,
    examine=check_credentials,
    within_s=30.0,  # somebody may have to type a code
)
"""Comes before all others: without it there is little to see."""

CHECKS: Final = (
    FIRST,
    Check(name="clock", group=Group.ACCESS, examine=check_clock),
    Check(name="permissions", group=Group.ACCESS, examine=check_permissions, within_s=LONG_S),
    Check(name="quotas", group=Group.ACCESS, examine=check_quotas, within_s=LONG_S),
    Check(name="stack", group=Group.WATCHDOG, examine=check_stack),
    Check(name="schedule", group=Group.WATCHDOG, examine=check_schedule, of_stack=True),
    Check(name="heartbeat", group=Group.WATCHDOG, examine=check_heartbeat),
    Check(name="functions", group=Group.WATCHDOG, examine=check_functions, of_stack=True),
    Check(name="queues", group=Group.WATCHDOG, examine=check_queues, of_stack=True),
    Check(name="alarms", group=Group.WATCHDOG, examine=check_alarms, of_stack=True),
    Check(name="policy", group=Group.MEMORY, examine=check_policy),
    Check(name="ledger", group=Group.MEMORY, examine=check_ledger),
    Check(name="holds", group=Group.MEMORY, examine=check_holds),
    Check(name="volumes", group=Group.VOLUMES, examine=check_volumes, within_s=LONG_S),
    Check(name="telemetry", group=Group.VOLUMES, examine=check_telemetry, within_s=LONG_S),
    Check(name="tags", group=Group.VOLUMES, examine=check_tags, within_s=LONG_S),
    Check(name="opt-in", group=Group.VOLUMES, examine=check_opt_in, within_s=LONG_S),
    Check(name="modifications", group=Group.VOLUMES, examine=check_modifications),
    Check(name="topic", group=Group.ALERTS, examine=check_topic),
    Check(name="subscriptions", group=Group.ALERTS, examine=check_subscriptions),
    Check(name="slack", group=Group.ALERTS, examine=check_slack),
    Check(name="versions", group=Group.VERSIONS, examine=check_versions),
    Check(name="deployed", group=Group.VERSIONS, examine=check_deployed_version, of_stack=True),
)
