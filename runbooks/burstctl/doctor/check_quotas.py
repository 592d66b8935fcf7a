"""Quotas: what AWS lets this account have in this region, and how much of it is in use."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import Finding, ok, skipped, warning
from burstwatch.adapters.aws.botocore_hooks import paginate
from burstwatch.adapters.aws.errors import AwsError, FailureKind, translate_errors
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import read_tags

_NEARLY_FULL: Final = 0.8  # an increase of a quota takes AWS hours to days
_GIB_IN_TIB: Final = 1024
_SERVICE: Final = "ebs"


@dataclass(frozen=True, slots=True)
class Quota:
    """One of AWS's quotas: its code there, and what it counts; the unit is TiB, or operations a second."""

    code: str
    volume_type: str
    dimension: str

    @property
    def name(self) -> str:
        return f"{self.volume_type} {self.dimension}"

    def usage_of(self, volumes: Iterable[Volume]) -> float:
        """How much of it these volumes take."""
        matching = [volume for volume in volumes if volume.volume_type == self.volume_type]
        if self.dimension == "IOPS":
            return float(sum(volume.provisioned_iops or 0 for volume in matching))
        return sum(volume.size_gib for volume in matching) / _GIB_IN_TIB

    def format_amount(self, amount: float) -> str:
        return f"{amount:,.0f} IOPS" if self.dimension == "IOPS" else f"{amount:,.1f} TiB"


QUOTAS: Final = (
    Quota("L-D18FCD1D", "gp2", "storage"),
    Quota("L-7A658B76", "gp3", "storage"),
    Quota("L-FD252861", "io1", "storage"),
    Quota("L-B3A130E6", "io1", "IOPS"),
    Quota("L-09BD8365", "io2", "storage"),
    Quota("L-8D977E7E", "io2", "IOPS"),
)
"""Those that can refuse a flip or a return; the IOPS of gp3 have no quota."""


def check_quotas(context: DoctorContext) -> Iterator[Finding]:
    """Each quota, with what is in use and what flips would add."""
    try:
        limits = read_quotas(context)
    except AwsError as error:
        if error.failure.kind is not FailureKind.REFUSED:
            raise
        yield skipped(f"not known: {error.failure.message}", fix=error.failure.next_step)
        return
    fleet, policy = context.fleet(), context.policy_or_default()
    required = required_tib(fleet.volumes, policy)
    for quota in QUOTAS:
        if quota.code not in limits:
            yield skipped("AWS does not report it", subject=quota.name)
            continue
        added = required.get(quota.volume_type, 0.0) if quota.dimension == "storage" else 0.0
        increase_command = context.aws_command(
            "service-quotas", "request-service-quota-increase", "--service-code", _SERVICE,
            "--quota-code", quota.code, "--desired-value", "VALUE",
        )  # fmt: skip
        yield judge_quota(
            quota,
            limits[quota.code],
            used=quota.usage_of(fleet.volumes),
            added=added,
            increase_command=increase_command,
        )
    yield from judge_policy_limits(policy, limits)


def judge_quota(quota: Quota, allowed: float, *, used: float, added: float, increase_command: str) -> Finding:
    """Whether a quota is enough for what exists, and for what the opted-in volumes may become."""
    summary = f"{quota.format_amount(used)} of {quota.format_amount(allowed)} in use"
    fix, commands = "request an increase from AWS, or free some of it", (increase_command,)
    if added and used + added > allowed:
        summary = (
            f"{summary}, and the volumes that opted in would need {quota.format_amount(added)} more of it"
        )
        return warning(summary, subject=quota.name, fix=fix, commands=commands)
    if used > 0 and used >= _NEARLY_FULL * allowed:
        return warning(f"{summary}: nearly all", subject=quota.name, fix=fix, commands=commands)
    return ok(summary, subject=quota.name)


def judge_policy_limits(policy: Policy, allowed: Mapping[str, float]) -> Iterator[Finding]:
    """Compare the two quotas that the policy repeats, because the guards make no call for them."""
    limits = (
        ("flip.io1_iops_limit", policy.flip.io1_iops_limit, allowed.get("L-B3A130E6")),
        ("flip.io2_iops_limit", policy.flip.io2_iops_limit, allowed.get("L-8D977E7E")),
    )
    for path, limit, quota in limits:
        if quota is not None and limit > quota:
            summary = f"the policy has {limit:,}, AWS allows {quota:,.0f}: flips are tried that AWS refuses"
            yield warning(summary, subject=path, fix=f"write {quota:.0f} there")


def required_tib(volumes: Iterable[Volume], policy: Policy) -> dict[str, float]:
    """What every gp2 volume that opted in would take of the type it is flipped to, were it flipped now."""
    required: dict[str, float] = {}
    for volume in volumes:
        settings = read_tags(volume.tags, policy.mode)
        if volume.is_gp2 and settings.mode is Mode.AUTO and not settings.is_ignored:
            target = str(settings.target_override.volume_type or policy.flip.target)
            required[target] = required.get(target, 0.0) + volume.size_gib / _GIB_IN_TIB
    return required


def read_quotas(context: DoctorContext) -> dict[str, float]:
    """The quotas of EBS in this region, by code.

    Raises:
        AwsError: Service Quotas does not say.
    """
    client = context.client("service-quotas")
    with translate_errors("servicequotas:ListServiceQuotas"):
        quotas = [
            quota
            for page in paginate(
                client.list_service_quotas, list_key="Quotas", ServiceCode=_SERVICE, MaxResults=100
            )
            for quota in page["Quotas"]
        ]
    return {quota["QuotaCode"]: float(quota["Value"]) for quota in quotas if "Value" in quota}
