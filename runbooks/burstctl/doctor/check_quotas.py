"""Quotas: what AWS lets this account have in this region, and how much of it is in use."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, ok, skipped, warning
from burstwatch.adapters.aws.botocore_hooks import pages
from burstwatch.adapters.aws.errors import AwsError, FailureKind, explained
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import read_tags

_NEARLY_FULL: Final = 0.8
_GIB_IN_TIB: Final = 1024
_SERVICE: Final = "ebs"


@dataclass(frozen=True, slots=True)
class Quota:
    """One of AWS's quotas: its code there, and what it counts; the unit is TiB, or operations a second."""

    code: str
    volume_type: str
    counts: str

    @property
    def name(self) -> str:
        return f"{self.volume_type} {self.counts}"

    def used(self, volumes: Iterable[Volume]) -> float:
        """How much of it these volumes take."""
        own = [each for each in volumes if each.volume_type == self.volume_type]
        if self.counts == "IOPS":
            return float(sum(each.provisioned_iops or 0 for each in own))
        return sum(each.size_gib for each in own) / _GIB_IN_TIB

    def words(self, amount: float) -> str:
        return f"{amount:,.0f} IOPS" if self.counts == "IOPS" else f"{amount:,.1f} TiB"


QUOTAS: Final = (
    Quota("L-D18FCD1D", "gp2", "storage"),
    Quota("L-7A658B76", "gp3", "storage"),
    Quota("L-FD252861", "io1", "storage"),
    Quota("L-B3A130E6", "io1", "IOPS"),
    Quota("L-09BD8365", "io2", "storage"),
    Quota("L-8D977E7E", "io2", "IOPS"),
)
"""Those that can refuse a flip or a return; there is none for the IOPS of gp3."""


def check_quotas(patient: Patient) -> Iterator[Finding]:
    """Each quota, with what is in use and what flips would add."""
    try:
        allowed = read_quotas(patient)
    except AwsError as error:
        if error.failure.kind is not FailureKind.REFUSED:
            raise
        yield skipped(f"not known: {error.failure.message}", fix=error.failure.next_step)
        return
    fleet, policy = patient.fleet(), patient.policy_or_default()
    wanted = wanted_tib(fleet.volumes, policy)
    for quota in QUOTAS:
        if quota.code not in allowed:
            yield skipped("AWS does not tell it", about=quota.name)
            continue
        added = wanted.get(quota.volume_type, 0.0) if quota.counts == "storage" else 0.0
        raise_it = patient.aws(
            "service-quotas", "request-service-quota-increase", "--service-code", _SERVICE,
            "--quota-code", quota.code, "--desired-value", "VALUE",
        )  # fmt: skip
        yield judge_quota(
            quota, allowed[quota.code], used=quota.used(fleet.volumes), added=added, raise_it=raise_it
        )
    yield from judge_limits(policy, allowed)


def judge_quota(quota: Quota, allowed: float, *, used: float, added: float, raise_it: str) -> Finding:
    """Whether it is enough for what there is, and for what the opted-in volumes may become."""
    seen = f"{quota.words(used)} of {quota.words(allowed)} in use"
    fix, commands = "ask AWS for more, or free some of it", (raise_it,)
    if added and used + added > allowed:
        seen = f"{seen}, and the volumes that opted in would need {quota.words(added)} more of it"
        return warning(seen, about=quota.name, fix=fix, commands=commands)
    if used > 0 and used >= _NEARLY_FULL * allowed:
        return warning(f"{seen}: nearly all", about=quota.name, fix=fix, commands=commands)
    return ok(seen, about=quota.name)


def judge_limits(policy: Policy, allowed: Mapping[str, float]) -> Iterator[Finding]:
    """The policy repeats two of the quotas, for guards that ask nobody."""
    limits = (
        ("flip.io1_iops_limit", policy.flip.io1_iops_limit, allowed.get("L-B3A130E6")),
        ("flip.io2_iops_limit", policy.flip.io2_iops_limit, allowed.get("L-8D977E7E")),
    )
    for path, limit, quota in limits:
        if quota is not None and limit > quota:
            seen = f"the policy has {limit:,}, AWS allows {quota:,.0f}: flips are tried that AWS refuses"
            yield warning(seen, about=path, fix=f"write {quota:.0f} there")


def wanted_tib(volumes: Iterable[Volume], policy: Policy) -> dict[str, float]:
    """What every gp2 volume that opted in would take of the type it is flipped to, were it flipped now."""
    wanted: dict[str, float] = {}
    for volume in volumes:
        wishes = read_tags(volume.tags, policy.mode)
        if volume.is_gp2 and wishes.mode is Mode.AUTO and not wishes.is_ignored:
            target = str(wishes.target.volume_type or policy.flip.target)
            wanted[target] = wanted.get(target, 0.0) + volume.size_gib / _GIB_IN_TIB
    return wanted


def read_quotas(patient: Patient) -> dict[str, float]:
    """The quotas of EBS in this region, by code.

    Raises:
        AwsError: Service Quotas does not say.
    """
    client = patient.client("service-quotas")
    with explained("servicequotas:ListServiceQuotas"):
        told = [
            one
            for page in pages(client.list_service_quotas, of="Quotas", ServiceCode=_SERVICE, MaxResults=100)
            for one in page["Quotas"]
        ]
    return {one["QuotaCode"]: float(one["Value"]) for one in told if "Value" in one}
