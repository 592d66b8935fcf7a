"""What an account has that can be watched, and what watching it costs while all is calm."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Final

from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.ebs.volume_bucket import bucket_kind_of, bucket_of
from burstwatch.core.policy.bucket_policy import BucketPolicies
from burstwatch.core.policy.policy import Policy
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.text import format_count, format_usd
from burstwatch.core.watch.api_cost import metric_usd_per_month
from burstwatch.core.watch.polling.cadence import sweep_interval_s
from burstwatch.engine.evaluate_resources import list_buckets
from burstwatch.engine.watch_pass import start_pass
from burstwatch.wiring.bootstrap import AwsSession, build_services
from burstwatch.wiring.settings import SettingsError

_EVERY_KIND: Final = Policy().watching(tuple(ResourceType))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKinds:
    """The number of resources of each kind in some Regions, and what reading their metrics costs a month.

    A resource that provably cannot drain counts, and costs nothing. The ``problems`` say what was not read.
    """

    counts: Mapping[ResourceType, int]
    usd_per_month: Mapping[ResourceType, float]
    problems: Sequence[str] = ()

    def describe(self) -> str:
        """``12 volumes ($0.35 a month), 1 file system ($0.01 a month)``; empty if there is nothing."""
        return ", ".join(
            f"{format_count(count, kind.noun)} ({format_usd(self.usd_per_month[kind])} a month)"
            for kind in ResourceType
            if (count := self.counts[kind])
        )


def find_kinds(session: AwsSession, regions: Iterable[str]) -> FoundKinds:
    """List what these Regions have. No metric is read, so it costs nothing."""
    counts, usd_per_month = dict.fromkeys(ResourceType, 0), dict.fromkeys(ResourceType, 0.0)
    problems: dict[str, None] = {}
    for region in regions:
        try:
            session.require_credentials()
            _add_region(session.in_region(region), counts, usd_per_month, problems)
        except (AwsError, SettingsError) as error:
            problems[error.problem] = None
    return FoundKinds(counts=counts, usd_per_month=usd_per_month, problems=list(problems))


def _add_region(
    session: AwsSession,
    counts: dict[ResourceType, int],
    usd_per_month: dict[ResourceType, float],
    problems: dict[str, None],
) -> None:
    policies = BucketPolicies(_EVERY_KIND)

    def add_cost(kind: BucketKind, bucket: Bucket, resource_type: ResourceType) -> None:
        if bucket.highest_drain_per_s:
            interval_s = sweep_interval_s(bucket, policies.of(kind, bucket).cadence)
            usd_per_month[resource_type] += metric_usd_per_month(interval_s)

    with SqliteLedger.in_memory() as ledger:
        watch_pass = start_pass(build_services(session, policy=_EVERY_KIND, ledger=ledger), now_s=time())
        volumes, _ = watch_pass.collector.fleet()
        buckets = list_buckets(watch_pass)
    for volume in volumes:
        counts[ResourceType.EBS] += 1
        if volume.attached:
            add_cost(bucket_kind_of(volume), bucket_of(volume), ResourceType.EBS)
    for resource in {due.resource.resource_id: due.resource for due in buckets}.values():
        counts[resource.resource_type] += 1
    for due in buckets:
        if due.is_polled:
            add_cost(due.kind, due.bucket, due.resource.resource_type)
    problems.update(dict.fromkeys(watch_pass.collector.failures))
