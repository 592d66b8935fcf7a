"""Volumes that share the limits of an instance, simulated together.

Most instances cannot hold their volumes back: these demand no more than the baseline, or cannot serve more.
Then the buckets of the instance stay full, and each volume is simulated on its own. Otherwise they are in a
group, which lives in steps of whole seconds in which no rate changes. A step ends where a load changes or a
bucket becomes empty or full. A bucket that would become empty within a second gives in it what is left, so
that no more than the limit is ever served.

If the sum is above a limit, the volumes get equal shares of it, and none more than it demands: first of the
operations, then of the throughput. A volume that is attached to several instances sends an equal part by
each, so the slowest of them holds it back.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

from burstlab.model.instances.instance import InstanceBucket, InstanceTruth, LabInstance
from burstlab.model.minute_history import MINUTE_S
from burstlab.model.simulated_volume import Demand, SimulatedVolume, count_repeats

_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
_KIB_PER_MIB: Final = 1_024


class _Flow(NamedTuple):
    """A volume that is served in this step."""

    volume: SimulatedVolume
    demand: Demand
    instances: Sequence[LabInstance]


class InstanceGroup:
    """Instances and the volumes on them; a volume on several instances joins these into one group."""

    def __init__(
        self,
        instances: Sequence[LabInstance],
        volumes: Sequence[SimulatedVolume],
        reset_at_h: int | None = None,
    ) -> None:
        self._instances = instances
        self._volumes = volumes
        self._users = _find_users(instances)
        self._reset_at_h = reset_at_h
        self._at_s = min(volume.at_s for volume in volumes)
        for volume in volumes:
            volume.group = self

    def catch_up(self, now_s: int) -> None:
        """Live up to ``now_s``, and be a group no longer if the instances hold nothing back."""
        while self._at_s < now_s:
            until_s = self._next_event_s(now_s)
            if self._can_repeat_minutes(until_s):
                self._serve_repeated_minutes(until_s)
            else:
                self._serve_step(until_s)
            if self._reset_at_h is not None and (self._at_s - self._reset_at_h * _HOUR_S) % _DAY_S == 0:
                for bucket in self._buckets():
                    bucket.credits = bucket.rate.capacity
        for volume in self._volumes:
            volume.history.close_until(now_s - volume.origin_s)
        for bucket in self._buckets():
            bucket.history.close_until(now_s)
        if all(map(is_calm, self._instances)):
            for volume in self._volumes:
                volume.group = None

    def _buckets(self) -> Iterable[InstanceBucket]:
        return (bucket for instance in self._instances for bucket in instance.buckets or ())

    def _next_event_s(self, now_s: int) -> int:
        """When a volume begins to live or its modification changes it, or when the buckets are reset."""
        events_s = [now_s]
        events_s += [
            volume.next_change_s if volume.at_s == self._at_s else volume.at_s for volume in self._volumes
        ]
        if self._reset_at_h is not None:
            since_reset_s = (self._at_s - self._reset_at_h * _HOUR_S) % _DAY_S
            events_s.append(self._at_s + _DAY_S - since_reset_s)
        return min(event_s for event_s in events_s if event_s > self._at_s)

    def _serve_step(self, until_s: int) -> None:
        """Serve for as long as all rates stay the same, at least for a second."""
        flows = self._flows()
        iops = allocate([(flow.instances, flow.demand) for flow in flows])
        until_s = min([until_s, *(flow.demand.ends_at_s for flow in flows)])
        steps_s: list[float] = [until_s - self._at_s]
        for flow, allocated in zip(flows, iops, strict=True):
            steps_s.append(flow.volume.seconds_to_bound(min(flow.demand.iops, allocated)))
        wanted = [flow.demand.iops for flow in flows]
        expected = list(map(min, wanted, iops))
        for bucket, served, driven in self._totals(flows, expected, wanted):
            steps_s.append(bucket.seconds_to_change(served, driven))
        step_s = max(1, int(min(steps_s)))
        served_ops = [
            flow.volume.serve_shared(self._at_s + step_s, allocated)
            for flow, allocated in zip(flows, iops, strict=True)
        ]
        self._idle_others(flows, self._at_s + step_s)
        for bucket, served, driven in self._totals(flows, served_ops, wanted):
            bucket.serve(self._at_s, step_s, served=served, driven=driven)
        self._at_s += step_s

    def _totals(
        self, flows: Sequence[_Flow], served: Sequence[float], wanted: Sequence[float]
    ) -> Iterable[tuple[InstanceBucket, float, float]]:
        """Each bucket with the sums of these operations by its instance, in its unit."""
        for instance in self._instances:
            if instance.buckets is not None:
                sums = _sum_up(instance, flows, served), _sum_up(instance, flows, wanted)
                yield from zip(instance.buckets, *sums, strict=True)

    def _flows(self) -> list[_Flow]:
        return [
            _Flow(volume, volume.next_demand(), self._users[volume.volume_id])
            for volume in self._volumes
            if volume.running and volume.at_s == self._at_s
        ]

    def _idle_others(self, flows: Sequence[_Flow], until_s: int) -> None:
        busy = {flow.volume.volume_id for flow in flows}
        for volume in self._volumes:
            if volume.volume_id not in busy and volume.at_s < until_s:
                volume.idle_shared(until_s)

    def _can_repeat_minutes(self, until_s: int) -> bool:
        """At the start of a minute, if the loads come again every minute, with time ahead."""
        if self._at_s % MINUTE_S or until_s - self._at_s <= MINUTE_S:
            return False
        active = [volume for volume in self._volumes if volume.running and volume.at_s == self._at_s]
        return any(volume.repeats_every_minute for volume in active) and all(
            volume.is_same_every_minute and volume.uneventful_minutes(until_s) > 1 for volume in active
        )

    def _serve_repeated_minutes(self, until_s: int) -> None:
        """One minute step by step, then at once all those that are like it but for the levels of buckets."""
        active = [volume for volume in self._volumes if volume.running and volume.at_s == self._at_s]
        buckets = list(self._buckets())
        before = [volume.snapshot() for volume in active]
        credits_before = [bucket.credits for bucket in buckets]
        end_s = self._at_s + MINUTE_S
        while self._at_s < end_s:
            self._serve_step(end_s)
        repeats = [
            volume.count_repeats(snapshot, until_s) for volume, snapshot in zip(active, before, strict=True)
        ]
        changes = [bucket.credits - level for bucket, level in zip(buckets, credits_before, strict=True)]
        for bucket, change in zip(buckets, changes, strict=True):
            repeats.append(count_repeats(bucket.history.last_minute(), bucket.scaled(change)))
        times = min(repeats)
        if times <= 0:
            return
        for volume, snapshot in zip(active, before, strict=True):
            volume.repeat(snapshot, times)
        for bucket, change in zip(buckets, changes, strict=True):
            bucket.repeat(times, change)
        self._at_s += times * MINUTE_S
        self._idle_others([], self._at_s)


def is_calm(instance: LabInstance) -> bool:
    """Whether it holds nothing back whatever its volumes do from now on, and its buckets are full."""
    if instance.buckets is None:
        return True
    if not all(bucket.is_full for bucket in instance.buckets):
        return False
    peak_iops = peak_kib_s = 0.0
    for hosting in instance.hostings:
        if hosting.to_s is None:
            iops, kib_s = hosting.volume.peak()
            peak_iops += iops * hosting.share
            peak_kib_s += kib_s * hosting.share
    io, kib = instance.buckets
    return peak_iops <= io.rate.baseline and peak_kib_s <= kib.rate.baseline


def allocate(demands: Sequence[tuple[Sequence[LabInstance], Demand]]) -> list[float]:
    """The most operations per second that each volume may serve; infinity for one that is not held back."""
    allocated = [inf] * len(demands)
    instances = {instance.instance_id: instance for owners, _ in demands for instance in owners}
    for instance in instances.values():
        if instance.buckets is None:
            continue
        io, kib = instance.buckets
        members = [index for index, (owners, _) in enumerate(demands) if instance in owners]
        parts = [len(demands[index][0]) for index in members]
        sizes_kib = [demands[index][1].operation_kib for index in members]
        wanted = [demands[index][1].iops / part for index, part in zip(members, parts, strict=True)]
        by_io = fair_shares(wanted, io.limit)
        by_kib = fair_shares([iops * size for iops, size in zip(by_io, sizes_kib, strict=True)], kib.limit)
        for index, part, want, iops, size, kib_s in zip(
            members, parts, wanted, by_io, sizes_kib, by_kib, strict=True
        ):
            share = min(iops, kib_s / size) if iops * size > kib_s else iops
            if share < want:
                allocated[index] = min(allocated[index], share * part)
    return allocated


def fair_shares(demands: Sequence[float], limit: float) -> Sequence[float]:
    """The demands if their sum is within the limit, otherwise equal shares of it, none above its demand.

    Example: of 100, demands of 10, 80 and 90 get 10, 45 and 45.
    """
    if sum(demands) <= limit:
        return demands
    shares, remaining = [0.0] * len(demands), limit
    in_order = sorted(range(len(demands)), key=demands.__getitem__)
    for position, index in enumerate(in_order):
        shares[index] = min(demands[index], remaining / (len(demands) - position))
        remaining -= shares[index]
    return shares


def _sum_up(instance: LabInstance, flows: Sequence[_Flow], amounts: Sequence[float]) -> tuple[float, float]:
    """The operations and the KiB of an instance's volumes."""
    ops = kib = 0.0
    for flow, amount in zip(flows, amounts, strict=True):
        if instance in flow.instances:
            part = amount / len(flow.instances)
            ops += part
            kib += part * flow.demand.operation_kib
    return ops, kib


def join_instances(
    instance: LabInstance, by_id: Mapping[str, LabInstance]
) -> tuple[list[LabInstance], list[SimulatedVolume]]:
    """The instances that are connected to this one by shared volumes, and all their volumes."""
    instances, volumes, waiting = {instance.instance_id: instance}, {}, [instance]
    while waiting:
        for volume in waiting.pop().volumes:
            volumes[volume.volume_id] = volume
            for attachment in volume.attachments:
                if attachment.instance_id is not None and attachment.instance_id not in instances:
                    instances[attachment.instance_id] = by_id[attachment.instance_id]
                    waiting.append(by_id[attachment.instance_id])
    return list(instances.values()), list(volumes.values())


def _find_users(instances: Iterable[LabInstance]) -> dict[str, list[LabInstance]]:
    """The instances that use each volume: those it is on that run."""
    users: dict[str, list[LabInstance]] = {}
    for instance in instances:
        if instance.state == "running":
            for volume in instance.volumes:
                users.setdefault(volume.volume_id, []).append(instance)
    return users


def describe_truth(instance: LabInstance, by_id: Mapping[str, LabInstance], now_s: int) -> InstanceTruth:
    """What is really so on an instance whose volumes are simulated up to now."""
    instances, volumes = join_instances(instance, by_id)
    users = _find_users(instances)
    flows = [
        _Flow(volume, volume.next_demand(), users[volume.volume_id]) for volume in volumes if volume.running
    ]
    allocated = allocate([(flow.instances, flow.demand) for flow in flows])
    wanted = [flow.demand.iops for flow in flows]
    demand_iops, demand_kib_s = _sum_up(instance, flows, wanted)
    served_iops, served_kib_s = _sum_up(instance, flows, list(map(min, wanted, allocated)))
    io, kib = instance.buckets or (None, None)
    return InstanceTruth(
        instance_id=instance.instance_id,
        at=datetime.fromtimestamp(now_s, tz=UTC),
        demand_iops=demand_iops,
        served_iops=served_iops,
        demand_mib_s=demand_kib_s / _KIB_PER_MIB,
        served_mib_s=served_kib_s / _KIB_PER_MIB,
        io=None if io is None else io.describe(),
        throughput=None if kib is None else kib.describe(_KIB_PER_MIB),
    )
