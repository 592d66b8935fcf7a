"""What goes wrong about one volume hides no other: neither its alert nor its flip."""

import pytest

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.errors import LedgerError, PartialCommitError
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.ledger.flip_state import FlipStatus
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.engine import dispatch, flip_executor, fresh_context
from support.watch_pass_setup import tick


def fail_planning(monkeypatch, module, bad, error):
    real = module.make_plan

    def plan(order, context, policy):
        if order.volume_id == bad:
            raise error
        return real(order, context, policy)

    monkeypatch.setattr(module, "make_plan", plan)


def fail_write(monkeypatch, method, is_bad):
    """Let the ledger fail in this method when what it gets is bad."""
    real = getattr(SqliteLedger, method)

    def write(self, changes, *args, **kwargs):
        if is_bad(changes):
            raise LedgerError("the ledger was busy, nothing was written", fix="run again")
        return real(self, changes, *args, **kwargs)

    monkeypatch.setattr(SqliteLedger, method, write)


def alerted(recorder, kind):
    return sorted(alert.volume_id for alert in recorder.alerts if alert.kind is kind)


def flipped(lab, volume_ids):
    return [volume_id for volume_id in volume_ids if lab.fleet.modifications(volume_id)]


def test_a_defect_in_the_plan_of_one_volume_stops_neither_alerts_nor_other_flips(
    lab, acting, recorder, four, monkeypatch
):
    bad, *others = four
    fail_planning(monkeypatch, fresh_context, bad, ZeroDivisionError("division by zero"))
    report = tick(acting, lab)
    assert flipped(lab, four) == others
    assert alerted(recorder, AlertKind.DRAINING) == four
    assert alerted(recorder, AlertKind.FLIPPED) == others
    text = f"{bad}: it was not modified: an internal error, ZeroDivisionError: division by zero"
    assert report.internal_errors == [text]
    assert report.failures == [text]
    assert report.outcomes[bad].status is OutcomeStatus.FAILED


@pytest.mark.parametrize("error", [AssertionError("odd"), TypeError("odd"), LedgerError("odd")])
def test_a_defect_fails_the_pass_and_an_expected_error_is_a_failure_of_its_volume(
    lab, acting, four, monkeypatch, error
):
    fail_planning(monkeypatch, fresh_context, four[0], error)
    report = tick(acting, lab)
    assert report.has_failed
    assert bool(report.internal_errors) is not isinstance(error, LedgerError)


def test_an_intent_of_one_volume_that_cannot_be_written_is_tried_again(
    lab, acting, ledger, recorder, four, monkeypatch
):
    bad, *others = four
    with monkeypatch.context() as broken:
        fail_write(broken, "record_intent", lambda change: change.volume_id == bad)
        report = tick(acting, lab)
    assert flipped(lab, four) == others
    assert alerted(recorder, AlertKind.DRAINING) == four
    assert report.internal_errors == []
    assert report.failures == [
        f"{bad}: it was not modified: the ledger was busy, nothing was written; run again"
    ]
    assert (report.outcomes[bad].status, report.outcomes[bad].error_code) == ("failed", "LedgerError")
    tick(acting, lab, 1)
    assert flipped(lab, four) == four


def test_an_outcome_that_cannot_be_written_is_read_from_aws_and_not_sent_again(
    lab, acting, ledger, recorder, four, monkeypatch
):
    bad, *others = four
    with monkeypatch.context() as broken:
        fail_write(
            broken,
            "commit",
            lambda changes: any(
                change.volume_id == bad and entry.kind is EntryKind.ACCEPTED
                for change in changes
                for entry in change.entries
            ),
        )
        report = tick(acting, lab)
    assert flipped(lab, four) == four
    assert alerted(recorder, AlertKind.DRAINING) == four
    assert alerted(recorder, AlertKind.FLIPPED) == others
    assert report.outcomes[bad].status is OutcomeStatus.IN_FLIGHT
    assert report.failures == [
        f"{bad}: its outcome was not recorded, so the next pass reads it from AWS:"
        " the ledger was busy, nothing was written; run again"
    ]
    assert ledger.states()[bad].flip.status is FlipStatus.REQUESTED
    tick(acting, lab, 1)
    assert ledger.states()[bad].flip.status is FlipStatus.IN_PROGRESS
    assert alerted(recorder, AlertKind.FLIPPED) == four
    assert len(lab.fleet.modifications(bad)) == 1


def test_a_ledger_that_takes_long_to_fail_is_not_used_for_each_volume(
    lab, acting, ledger, recorder, four, monkeypatch
):
    tried = []
    monkeypatch.setattr(flip_executor, "_MAX_FAILING_S", 0.0)
    fail_write(monkeypatch, "record_intent", lambda change: tried.append(change.volume_id) or True)
    report = tick(acting, lab)
    assert len(tried) == 1
    assert [outcome.status for outcome in report.outcomes.values()] == [OutcomeStatus.FAILED] * 4
    assert sum("errors about 1 other volume took too long" in failure for failure in report.failures) == 3
    assert alerted(recorder, AlertKind.DRAINING) == four


def test_an_error_about_all_flips_fails_the_pass_after_the_alerts(lab, acting, recorder, four, monkeypatch):
    def fail(*_args, **_kwargs):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(flip_executor, "read_fresh_context", fail)
    with pytest.raises(ZeroDivisionError):
        tick(acting, lab)
    assert alerted(recorder, AlertKind.DRAINING) == four


def test_a_proposal_that_cannot_be_planned_hides_no_other(lab, shell, recorder, four, monkeypatch):
    fail_planning(monkeypatch, dispatch, four[0], ZeroDivisionError("division by zero"))
    report = tick(shell, lab)
    assert alerted(recorder, AlertKind.DRAINING) == four
    assert [report.outcomes[volume_id].status for volume_id in four] == [OutcomeStatus.PROPOSED] * 4
    assert report.internal_errors == [
        f"{four[0]} was not planned because of an internal error: ZeroDivisionError: division by zero"
    ]


def test_a_change_that_cannot_be_written_does_not_hold_up_the_alerts_that_wait(
    lab, shell, recorder, four, monkeypatch
):
    recorder.is_broken = True
    tick(shell, lab)
    recorder.is_broken = False
    fail_write(monkeypatch, "commit", lambda changes: four[0] in {c.volume_id for c in changes})
    with pytest.raises(LedgerError, match="the ledger was busy"):
        tick(shell, lab, 1)
    assert alerted(recorder, AlertKind.DRAINING) == four


def test_a_change_that_cannot_be_written_beside_others_stops_neither_their_alerts_nor_their_flips(
    lab, acting, ledger, recorder, four, monkeypatch
):
    bad, *others = four
    real = SqliteLedger.commit

    def write(self, changes, *, channels):
        written_ids = real(self, [change for change in changes if change.volume_id != bad], channels=channels)
        if len(changes) > len(written_ids):
            raise PartialCommitError("the item is too large", fix="report it", written_ids=written_ids)
        return written_ids

    with monkeypatch.context() as broken:
        broken.setattr(SqliteLedger, "commit", write)
        report = tick(acting, lab)
    assert report.internal_errors == [
        "not all decisions were recorded because of an internal error: PartialCommitError:"
        " the item is too large; report it"
    ]
    assert flipped(lab, four) == others
    assert alerted(recorder, AlertKind.DRAINING) == others
    assert alerted(recorder, AlertKind.FLIPPED) == others
    tick(acting, lab, 1)
    assert flipped(lab, four) == four
    assert alerted(recorder, AlertKind.DRAINING) == four
