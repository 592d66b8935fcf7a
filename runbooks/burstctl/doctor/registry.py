"""The checks in the order of their report. To add a check, put it next to similar ones and list it here."""

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
from burstctl.doctor.context import FLEET_TIMEOUT_S, DoctorContext
from burstctl.doctor.finding import Finding


class Group(StrEnum):
    """What belongs together."""

    ACCESS = "access"
    WATCHDOG = "watchdog"
    POLICY_AND_LEDGER = "policy and ledger"
    VOLUMES = "volumes"
    ALERTS = "alerts"
    VERSIONS = "versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check; ``name`` identifies it in the output and for programs.

    It is abandoned after ``timeout_s``. If it ``needs_stack``, it is skipped when no stack is deployed.
    """

    name: str
    group: Group
    run: Callable[[DoctorContext], Iterable[Finding]]
    timeout_s: float = 20.0
    needs_stack: bool = False


CREDENTIALS_CHECK: Final = Check(
    name="credentials",
    group=Group.ACCESS,
    run=check_credentials,
    timeout_s=30.0,  # somebody may have to type a code
)
"""Comes before all others: without it there is little to see."""

CHECKS: Final = (
    CREDENTIALS_CHECK,
    Check(name="clock", group=Group.ACCESS, run=check_clock),
    Check(name="permissions", group=Group.ACCESS, run=check_permissions, timeout_s=FLEET_TIMEOUT_S),
    Check(name="quotas", group=Group.ACCESS, run=check_quotas, timeout_s=FLEET_TIMEOUT_S),
    Check(name="stack", group=Group.WATCHDOG, run=check_stack),
    Check(name="schedule", group=Group.WATCHDOG, run=check_schedule, needs_stack=True),
    Check(name="heartbeat", group=Group.WATCHDOG, run=check_heartbeat),
    Check(name="functions", group=Group.WATCHDOG, run=check_functions, needs_stack=True),
    Check(name="queues", group=Group.WATCHDOG, run=check_queues, needs_stack=True),
    Check(name="alarms", group=Group.WATCHDOG, run=check_alarms, needs_stack=True),
    Check(name="policy", group=Group.POLICY_AND_LEDGER, run=check_policy),
    Check(name="ledger", group=Group.POLICY_AND_LEDGER, run=check_ledger),
    Check(name="holds", group=Group.POLICY_AND_LEDGER, run=check_holds),
    Check(name="volumes", group=Group.VOLUMES, run=check_volumes, timeout_s=FLEET_TIMEOUT_S),
    Check(name="telemetry", group=Group.VOLUMES, run=check_telemetry, timeout_s=FLEET_TIMEOUT_S),
    Check(name="tags", group=Group.VOLUMES, run=check_tags, timeout_s=FLEET_TIMEOUT_S),
    Check(name="opt-in", group=Group.VOLUMES, run=check_opt_in, timeout_s=FLEET_TIMEOUT_S),
    Check(name="modifications", group=Group.VOLUMES, run=check_modifications),
    Check(name="topic", group=Group.ALERTS, run=check_topic),
    Check(name="subscriptions", group=Group.ALERTS, run=check_subscriptions),
    Check(name="slack", group=Group.ALERTS, run=check_slack),
    Check(name="versions", group=Group.VERSIONS, run=check_versions),
    Check(name="deployed", group=Group.VERSIONS, run=check_deployed_version, needs_stack=True),
)
