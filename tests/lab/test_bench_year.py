"""The bench of a year's history: what one trouble leaves behind, for every volume and every time."""

import pytest
from benches import load_bench

from burstwatch.core.ledger.ledger import EntryKind


@pytest.fixture(scope="module")
def year():
    return load_bench("year")


@pytest.fixture(scope="module")
def trouble(year):
    return year.one_trouble()


def test_a_trouble_is_told_flipped_and_over(trouble):
    kinds = {entry.kind for entry in trouble}
    assert {EntryKind.ALERT, EntryKind.DELIVERED, EntryKind.INTENT, EntryKind.REACHED} <= kinds
    assert EntryKind.RESTORED in kinds
    assert trouble[-1].kind is EntryKind.LEVEL_CHANGED


@pytest.mark.parametrize("kind", ["sqlite", "dynamodb"])
def test_each_volume_has_its_troubles_and_history_and_report_read_them(year, trouble, kind):
    lived = year.Year(trouble, volumes=3, troubles=4)
    assert lived.rows == 12 * len(trouble)
    now_s = int(year.BEGINS_AT.timestamp()) + year.YEAR_S
    with year.kept_in(kind) as kept:
        empty = kept.size_bytes()
        year.fill(kept, lived)
        histories = [kept.ledger.entries(lived.volume_id(number)) for number in range(3)]
        assert [len(entries) for entries in histories] == [4 * len(trouble)] * 3
        assert all(entry.at_s < now_s for entries in histories for entry in entries)
        assert kept.size_bytes() > empty
        assert year.read_history(kept.ledger, lived.volume_id(1)) > 4 * 10
        assert year.read_for_report(kept.ledger, lived, histories[-1][-1].at_s) == len(trouble)
        focus = year.Focus(kept.ledger, lived, now_s)
        for _ in range(2):
            focus.tick(3)
        assert {state.revision for state in kept.ledger.states().values()} == {2}


def test_the_table_says_how_much_there_is(year, capsys):
    year.main(2, 1, ["sqlite"])
    told = capsys.readouterr().out
    assert "2 volumes, 1 troubles each" in told
    assert "SQLite, a year" in told
    assert "history of one volume" in told
