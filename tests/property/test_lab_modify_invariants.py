"""Whatever is asked of a volume, and however time passes: the rules of modifications hold."""

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from burstlab.model.aws_error import AwsError
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from support.lab.lab_start import START

DAY = timedelta(hours=24)
MOMENTS = st.sampled_from(["accepted", "optimizing", "completed"])
TYPES = st.sampled_from(["gp2", "gp3", "io1", "io2", None])
RATES = st.sampled_from([None, None, 100, 900, 3_000, 5_000, 16_000])
SECONDS = st.one_of(st.integers(0, 120), st.sampled_from([600, 3_600, 6 * 3_600, 24 * 3_600]))


def performance(shape, credits_now):
    """What a shape serves at best: a gp2 its burst while it has credits."""
    burst = 3_000 if shape.volume_type == "gp2" and credits_now > 0 else 0
    return max(shape.iops, burst)


class ModificationStateMachine(RuleBasedStateMachine):
    @initialize(
        uplift=st.sampled_from(["accepted", "linear", "completed"]),
        balance_switches=MOMENTS,
        balance_after=st.sampled_from(["kept", "refilled", "reset", "emptied"]),
        spread=st.sampled_from([0, 0.5]),
        balance_pct=st.sampled_from([0, 1, 60, 100]),
        size_gib=st.sampled_from([1, 60, 100, 999]),
        queued=st.booleans(),
    )
    def begin(self, uplift, balance_switches, balance_after, spread, balance_pct, size_gib, queued):
        chosen = LabSettings(
            uplift=uplift,
            balance_switches=balance_switches,
            balance_after=balance_after,
            modify_spread=spread,
            queued=queued,
            seed=7,
        )
        self.fleet = LabFleet(LabClock.manual(START), chosen)
        self.volume_id = self.fleet.add(LabVolume(size_gib=size_gib, balance_pct=balance_pct))
        self.starts = []
        self.most_gib = size_gib

    @rule(volume_type=TYPES, grown_gib=st.sampled_from([None, None, 0, 1, 50, -1]), iops=RATES)
    def request_modification(self, volume_type, grown_gib, iops):
        size_gib = None if grown_gib is None else self.most_gib + grown_gib
        before = self.fleet.modifications(self.volume_id)
        recent = [start for start in self.starts if start > self.fleet.clock.now() - DAY]
        busy = bool(before) and not before[-1].has_ended
        modification, code = self.complete_request(volume_type=volume_type, size_gib=size_gib, iops=iops)
        assert (code != "IncorrectModificationState") or busy
        assert (code != "VolumeModificationRateExceeded") or len(recent) == 4
        if modification is None:
            assert len(self.fleet.modifications(self.volume_id)) == len(before)
            return
        assert not busy
        assert len(recent) < 4
        self.starts.append(modification.started_at)
        self.most_gib = max(self.most_gib, modification.target.size_gib)

    def complete_request(self, **request):
        """The modification, or the code of its refusal."""
        try:
            return self.fleet.modify(self.volume_id, **request), None
        except AwsError as refused:
            return None, refused.code

    @rule(seconds=SECONDS)
    def advance_time(self, seconds):
        self.fleet.clock.advance(seconds)

    @rule(load=st.sampled_from(["idle", "steady:300", "steady:3500", "steady:20000", "docker-loop"]))
    def change_load(self, load):
        self.fleet.set_load(self.volume_id, load)

    @rule(outcome=st.sampled_from(["completed", "completed", "failed", "failed_early", "stuck"]))
    def choose_next_outcome(self, outcome):
        self.fleet.change_settings(modify_outcome=outcome)

    @precondition(lambda self: self.fleet.changes_in_progress())
    @rule(state=st.sampled_from(["completed", "failed"]))
    def end_current_modification(self, state):
        assert self.fleet.end_modification(self.volume_id, state).state == state

    @rule()
    def attach_or_detach(self):
        volume = self.fleet.find(self.volume_id)
        is_modifying = volume.modification is not None and volume.modification.state == "modifying"
        if volume.attachment is not None:
            self.fleet.detach(self.volume_id)
        elif is_modifying:
            with pytest.raises(AwsError, match="OperationNotPermitted"):
                self.fleet.attach(self.volume_id)
        else:
            self.fleet.attach(self.volume_id)

    @invariant()
    def at_most_one_is_in_progress(self):
        reported = self.fleet.modifications(self.volume_id)
        assert all(modification.has_ended for modification in reported[:-1])
        assert len(self.fleet.changes_in_progress()) == sum(
            not modification.has_ended for modification in reported
        )

    @invariant()
    def never_more_than_four_start_in_24_hours(self):
        for first, fifth in zip(self.starts, self.starts[4:], strict=False):
            assert fifth - first >= DAY
        assert [
            modification.started_at for modification in self.fleet.modifications(self.volume_id)
        ] == self.starts

    @invariant()
    def the_size_never_shrinks(self):
        now_gib = self.fleet.find(self.volume_id).size_gib
        assert now_gib >= getattr(self, "_last_gib", 0)
        self._last_gib = now_gib

    @invariant()
    def credits_stay_in_the_bucket(self):
        assert 0 <= self.fleet.truth(self.volume_id).credits <= 5_400_000

    @invariant()
    def performance_lies_between_what_was_and_what_will_be(self):
        volume, truth = self.fleet.find(self.volume_id), self.fleet.truth(self.volume_id)
        change = volume.change
        if change is None:
            assert truth.ceiling_iops == performance(volume.spec, truth.credits)
            return
        was = performance(change.original, truth.credits)
        target_performance = {
            target_credits: performance(change.target, target_credits) for target_credits in (0, 1)
        }
        assert min(was, target_performance[0]) <= truth.ceiling_iops <= max(was, target_performance[1])

    @invariant()
    def modifications_are_listed_in_order(self):
        results = [event.result for event in self.fleet.events if event.name == "modifyVolume"]
        reported = self.fleet.modifications(self.volume_id)
        assert results.count("modifying") == len(reported)
        assert results.count("completed") == sum(item.state == "completed" for item in reported)
        assert results.count("failed") == sum(item.state == "failed" for item in reported)
        numbers = [event.occurred_at for event in self.fleet.events]
        assert numbers == sorted(numbers)


TestModifications = ModificationStateMachine.TestCase
TestModifications.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
