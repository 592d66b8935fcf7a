"""Probe: how far a run goes, and what it reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ddprobe_source.host.child_task import STEP_S
from ddprobe_source.host.clock import boot_clock, format_instant
from ddprobe_source.host.disk_watch import Watches
from ddprobe_source.host.files import name_of, read_mounts
from ddprobe_source.host.lookup import MIN_LOOKUP_S, Lookup, find_allowed_site
from ddprobe_source.host.nvme import nvme_counters, nvme_delta
from ddprobe_source.host.run_history import ALLOWANCE_S
from ddprobe_source.host.state_dirs import Lock, StateDirs
from ddprobe_source.judgement.disks import Site, mount_of
from ddprobe_source.judgement.facts import Facts, passive_facts
from ddprobe_source.judgement.record import ProbeError
from ddprobe_source.judgement.series import Cost
from ddprobe_source.judgement.tasks import STILL_S
from ddprobe_source.judgement.text import format_duration, sanitise
from ddprobe_source.judgement.verdicts import (
    OK,
    UNKNOWN,
    Judgement,
    after_classic,
    is_near,
    judge,
    not_measured,
    wants_classic,
    worse,
)
from ddprobe_source.measure.measurer import Measurer, WriteAttempt
from ddprobe_source.measure.reading import failure_text, part_fields, site_fields, timing_fields
from ddprobe_source.options import Options


class Probe(Measurer):
    """Everything needed to look at one path again and again."""

    def __init__(
        self, options: Options, site: Site, state_dirs: StateDirs, heartbeat: Callable[[], None]
    ) -> None:
        super().__init__(options, site, state_dirs, heartbeat)
        self.refusal: str | None = None
        self._nvme_before: dict[str, int] | None = None
        self.watches = Watches(site.disks)

    def credit_refusal(self, level: str) -> str | None:
        """Why this level may not be run now, or None."""
        cost = self._planned_cost(level).credits
        self.history.reload()
        credits_left = self.history.allowance()
        if cost <= credits_left:
            return None
        share, base = self.options.max_credit_share, self.options.baseline_iops
        rate = share * base
        if cost > self.history.max_allowance:
            most_kept = f"{ALLOWANCE_S:g} s of {rate:g}/s"
            return f"{level} costs {cost} credits, more than {most_kept}: raise --max-credit-share"
        return (
            f"{level} costs {cost} credits and {credits_left:.0f} are left of {share:.2g} x {base:g} IOPS:"
            f" again in {max(1.0, (cost - credits_left) / rate):.0f} s, or raise --max-credit-share"
        )

    def run(self, started_s: float, *, skip_look: bool = False) -> dict[str, Any]:
        """Look, then write what the level asks and the disk allows; back before the deadline in any case."""
        self._nvme_before = None
        options, until_s = self.options, time.monotonic() + options_deadline(self.options, started_s)
        if options.mode == "serve":
            self._follow_the_mount()
        if self.refusal:
            return self.unmeasured_reading(self.refusal)
        if not self.site.answered:
            return self._hung_lookup_reading(time.monotonic() - started_s)
        self._nvme_before = self._nvme()
        passive = None
        if options.level in ("passive", "ladder") and not skip_look:
            passive = self.look(options.look)
            judged = judge(passive, self.thresholds)
            if options.level == "passive":
                return self._reading(passive, judged)
            if passive.is_still:
                return self._stalled_reading(passive, judged)
        first = "classic" if options.level == "classic" else "lite"
        return self._write_and_climb(first, until_s, passive)

    def _follow_the_mount(self) -> None:
        """Look the path up again if it was refused, did not answer, or is now on another kind of mount."""
        site, mounts = self.site, read_mounts()
        mount = mount_of(site.path, mounts)
        known = (site.mount.dev, site.mount.read_only)
        if site.answered and not self.refusal and mount and (mount.dev, mount.read_only) == known:
            return
        self.refusal = None
        try:
            lookup = Lookup(site.path, self.state_dirs, writes=self.options.level != "passive")
            self.site = find_allowed_site(self.options, lookup, time.monotonic() + MIN_LOOKUP_S)
        except ProbeError as fault:
            self.refusal = str(fault)
        self.watches, self.history = Watches(self.site.disks), self._run_history()

    def _write_and_climb(self, first: str, until_s: float, passive: Facts | None) -> dict[str, Any]:
        ladder = self.options.level == "ladder"
        lock = Lock(self.state_dirs, self.site.key)
        if (waited_s := self._wait_for_lock(lock, until_s)) is not None:
            return self._blocked_reading(lock, waited_s=waited_s)
        if (
            refusal := self.credit_refusal(first)
        ) is not None:  # checked under the lock: of ten runs each counts
            lock.close()
            return self._unwritten_reading(not_measured(refusal), refusal, passive)
        lite_until_s = min(until_s, time.monotonic() + self.thresholds.crit_s + STEP_S) if ladder else until_s
        first_attempt = attempt = self._charge_and_write(first, lock, lite_until_s)
        judged = judge(attempt.facts, self.thresholds)
        if attempt.facts.failure:
            return self._unwritten_reading(judged, failure_text(first, attempt), passive, attempt)
        attempts = [attempt]
        skipped = [f"bulk: {attempt.progress.no_bulk}"] if attempt.progress.no_bulk else []
        wants_more = wants_classic(attempt.facts, judged, self.thresholds, self.options.climb)
        if ladder and attempt.facts.completed and wants_more:
            refusal = self.credit_refusal("classic") or self._classic_wait()
            lock = Lock(self.state_dirs, self.site.key)
            if refusal or self._wait_for_lock(lock, until_s) is not None:
                skipped.append(refusal or "classic: the lock was taken in between")
                lock.close()
                attempt = self._with_measured_classic(attempt)
                attempts, judged = [attempt], judge(attempt.facts, self.thresholds)
            else:
                attempt = self._charge_and_write("classic", lock, until_s, leave_early=True)
                attempts.append(attempt)
                classic = judge(attempt.facts, self.thresholds)
                self.history.record_climb((attempt.facts.dd_s or 0.0) if attempt.facts.completed else 0.0)
                if classic.verdict == UNKNOWN:  # what was measured before it stands
                    skipped.append(failure_text("classic", attempt))
                    attempt = first_attempt
                else:
                    judged = after_classic(judged, classic, attempt.facts)
        if judged.verdict == OK:
            self._record_healthy(*attempts)
        return self._reading(attempt.facts, judged, attempts=attempts, skipped=skipped, passive=passive)

    def _unwritten_reading(
        self, judged: Judgement, why: str, passive: Facts | None, attempt: WriteAttempt | None = None
    ) -> dict[str, Any]:
        """Report the worse of why nothing could be written and what the counters and tasks show."""
        passive = passive or self.look(self.options.look)
        passive_judgement = judge(passive, self.thresholds)
        shown_facts = attempt.facts if attempt and worse(judged, passive_judgement) is judged else passive
        attempts = [attempt] if attempt else []
        return self._reading(
            shown_facts, worse(judged, passive_judgement), attempts=attempts, skipped=[why], passive=passive
        )

    def _wait_for_lock(self, lock: Lock, until_s: float) -> float | None:
        """Take the lock, or give the seconds that one and the same holder was waited for.

        While holders change the disk answers: they are other paths of ours on it, or other runs.
        """
        since_s, known = time.monotonic(), 0
        while not lock.take():
            holder, now_s = lock.holder(), time.monotonic()
            if holder and holder.pid != known:
                since_s, known = (now_s if known else since_s), holder.pid
            if now_s >= min(since_s + self.thresholds.warn_s, until_s):
                return now_s - since_s
            self._heartbeat()
            time.sleep(STEP_S / 2)
        return None

    def _charge_and_write(
        self, level: str, lock: Lock, until_s: float, *, leave_early: bool = False
    ) -> WriteAttempt:
        planned = self._planned_cost(level).credits
        self.history.spend(planned, climbed=leave_early)
        attempt = self.attempt(level, lock, until_s, leave_early=leave_early)
        actual = self._cost(level, attempt.progress).credits
        if actual != planned:
            self.history.spend(actual - planned)
        return attempt

    def _with_measured_classic(self, attempt: WriteAttempt) -> WriteAttempt:
        """Use the last classic run for an estimate near the line, while it may not be repeated.

        Otherwise the verdict would alternate between the estimate and the measured figure.
        """
        took_s = self.history.climb_s
        both_near = is_near(took_s, self.thresholds.warn_s) and is_near(
            attempt.facts.dd_s, self.thresholds.warn_s
        )
        if not both_near or self._classic_wait() is None:  # far from it, the disk has changed since
            return attempt
        return attempt.replaced(facts=attempt.facts.replaced(measured_s=took_s))

    def _classic_wait(self) -> str | None:
        wait_s = self.history.classic_at_s + self.options.classic_every - boot_clock()
        return f"classic: again in {wait_s:.0f} s, see --classic-every" if wait_s > 0 else None

    def _record_healthy(self, *attempts: WriteAttempt) -> None:
        facts_of = (attempt.facts for attempt in attempts)
        alone = [facts for facts in facts_of if not facts.others_wait and facts.lumps_s is None]
        known = [(facts.level, facts.typical_s) for facts in alone]
        known += [("bulk", facts.bulk_typical_s) for facts in alone]
        self.history.add_healthy({level: seconds for level, seconds in known if seconds})

    def _stalled_reading(self, passive: Facts, judged: Judgement) -> dict[str, Any]:
        """Nothing comes back from the disk: a write of ours would only be stuck as well, if none is yet."""
        lock = Lock(self.state_dirs, self.site.key)
        if not lock.take():
            return self._blocked_reading(lock, passive)
        lock.close()
        skipped = ["lite: nothing comes back from the disk, so a write would only be stuck as well"]
        return self._reading(passive, judged, skipped=skipped)

    def _blocked_reading(
        self, lock: Lock, look: Facts | None = None, waited_s: float = 0.0
    ) -> dict[str, Any]:
        """Others wrote for as long as we waited: judge by their write, our wait and the counters."""
        holder = lock.holder()
        if look is None:
            look = self.look(STILL_S + 3 * STEP_S, holder.pid if holder else -1)
            holder = lock.holder() or holder
        lock.close()
        age_s = max(holder.age_s if holder else 0.0, waited_s)
        known = ("lite", "classic", "lookup")
        level = holder.level if holder and holder.level in known else "lite"
        facts = look.replaced(level=level, completed=False, elapsed_s=age_s)
        since = holder.started_s if holder else None
        writer = holder.pid if holder else "?"
        skipped = [f"write: process {writer} still has one under way on this file system"]
        judged = worse(judge(facts, self.thresholds), judge(look, self.thresholds))
        self.history.reload()
        return self._reading(facts, judged, stuck_since=since, skipped=skipped)

    def _hung_lookup_reading(self, waited_s: float) -> dict[str, Any]:
        """The path's lookup has not returned: since when, and for which name of the path it waits."""
        holder = self.state_dirs.holder_of(name_of(self.site.path))
        look = self.look(STILL_S + 3 * STEP_S, holder.pid if holder else -1)
        age_s = waited_s + STILL_S
        if holder:
            age_s = max(age_s, holder.age_s + STILL_S)
        facts = look.replaced(level="lookup", completed=False, elapsed_s=age_s)
        where = (
            f"process {holder.pid} waits for {sanitise(holder.path, 200)}"
            if holder
            else "it may not be known where"
        )
        skipped = [f"write: the path lookup has not returned in {format_duration(age_s)}: {where}"]
        since = holder.started_s if holder else None
        return self._reading(facts, judge(facts, self.thresholds), skipped=skipped, stuck_since=since)

    def unmeasured_reading(self, reason: str) -> dict[str, Any]:
        """Take the place of a reading that did not come."""
        reading = self._reading(passive_facts(None, None), not_measured(reason))
        return reading | {"completed": False}

    def passive_reading(self) -> dict[str, Any]:
        """Take a reading of its own from counters and tasks."""
        self._nvme_before = None
        facts = self.look(STILL_S + 3 * STEP_S)
        judged = judge(facts, self.thresholds)
        if facts.is_still:
            return self._stalled_reading(facts, judged)
        return self._reading(facts, judged)

    def _nvme(self) -> dict[str, int] | None:
        return nvme_counters(self.site, self.options.nvme_json, self.state_dirs)

    def _reading(
        self,
        facts: Facts,
        judged: Judgement,
        *,
        attempts: Sequence[WriteAttempt] = (),
        skipped: Sequence[str] = (),
        passive: Facts | None = None,
        stuck_since: float | None = None,
    ) -> dict[str, Any]:
        """Put together the record that every output is made from. Keys never disappear."""
        tasks = facts.tasks or (passive.tasks if passive else None)
        attempt = next((attempt for attempt in attempts if attempt.facts is facts), None)
        if attempt and not facts.completed:
            stuck_since = stuck_since or attempt.started_at_s
        began_at_s = stuck_since or (attempt.started_at_s if attempt else time.time())
        failures = [attempt.facts.failure[0] for attempt in attempts if attempt.facts.failure]
        return {
            **site_fields(self.options, self.site, facts.disk),
            "level": self.options.level,
            "reached": "passive" if facts.level == "lookup" else facts.level,
            "engine": self.options.engine if facts.level == "classic" else "inproc",
            "verdict": judged.verdict,
            "cause": judged.cause,
            "reason": judged.reason,
            "completed": facts.completed,
            "started_at": format_instant(began_at_s),
            "stuck_since": format_instant(stuck_since) if stuck_since else None,
            **timing_fields(facts),
            **part_fields(facts, attempt, attempts),
            "error": failures[-1] if failures else None,
            "disk": facts.disk.as_dict() if facts.disk else None,
            "before": passive.disk.as_dict() if passive and passive.disk else None,
            "nvme": nvme_delta(self._nvme_before, self._nvme()) if self._nvme_before else None,
            "dstate": vars(tasks) if tasks else None,
            "cost": self._cost_of(attempts),
            "credits_total": self.history.credits_total,
            "skipped": list(skipped),
        }

    def _cost_of(self, attempts: Sequence[WriteAttempt]) -> dict[str, int]:
        costs = [self._cost(attempt.facts.level, attempt.progress) for attempt in attempts]
        return {key: sum(getattr(cost, key) for cost in costs) for key in Cost.__annotations__}


def options_deadline(options: Options, started_s: float) -> float:
    """Seconds left of the deadline, which counts from when the run began."""
    return max(options.warn, options.deadline - (time.monotonic() - started_s))
