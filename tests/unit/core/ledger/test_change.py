import pytest

from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind
from support.builders.changes import a_change, a_ledger_alert, a_state, an_entry


def test_an_alert_that_has_its_entry_gets_no_second_one():
    change = a_change()
    assert change.entries_with_alerts == change.entries


@pytest.mark.parametrize(
    ("state_revision", "entry_revisions", "expected_revision", "revision"),
    [
        (100, [], 99, 100),
        (100, [98, 99], 99, 100),
        # The state is dropped: the newest entry, or the revision after the one that was expected.
        (None, [98, 99], 97, 99),
        (None, [99, 98], 97, 99),
        (None, [], 4, 5),
        (None, [], None, 1),
    ],
)
def test_an_alert_without_an_entry_gets_one_at_the_revision_of_its_change(
    state_revision, entry_revisions, expected_revision, revision
):
    alert = a_ledger_alert(time_s=1_234)
    # another kind of entry is none for an alert, whatever it contains
    entries = [an_entry(revision=number, body=alert.to_document()) for number in entry_revisions]
    change = Change(
        volume_id=alert.volume_id,
        expected_revision=expected_revision,
        state=None if state_revision is None else a_state(revision=state_revision),
        entries=entries,
        alerts=[alert],
    )
    *remaining, added = change.entries_with_alerts
    assert remaining == entries
    assert added == an_entry(revision=revision, kind=EntryKind.ALERT, at_s=1_234, body=alert.to_document())
