"""The bench of a year's history: what one trouble leaves behind, for every volume and every time."""

import pytest

from burstwatch.core.ledger.ledger_entry import EntryKind


def test_an_episode_is_reported_flipped_and_closed(episode):
    kinds = {entry.kind for entry in episode}
    assert {EntryKind.ALERT, EntryKind.DELIVERED, EntryKind.INTENT, EntryKind.REACHED} <= kinds
    assert EntryKind.RESTORED in kinds
    assert episode[-1].kind is EntryKind.LEVEL_CHANGED


@pytest.mark.parametrize("kind", ["sqlite", "dynamodb"])
def test_each_volume_has_episodes_that_history_and_report_read(year_bench, episode, kind):
    lived = year_bench.LedgerYear(episode, volumes=3, incidents_per_volume=4)
    assert lived.rows == 12 * len(episode)
    now_s = int(year_bench.STARTS_AT.timestamp()) + year_bench.YEAR_S
    with year_bench.open_measured_ledger(kind) as measured:
        empty = measured.size_bytes()
        year_bench.fill_ledger(measured, lived)
        histories = [measured.ledger.entries(lived.volume_id(number)) for number in range(3)]
        assert [len(entries) for entries in histories] == [4 * len(episode)] * 3
        assert all(entry.at_s < now_s for entries in histories for entry in entries)
        assert measured.size_bytes() > empty
        assert year_bench.count_history_lines(measured.ledger, lived.volume_id(1)) > 4 * 10
        assert year_bench.count_report_entries(measured.ledger, lived, histories[-1][-1].at_s) == len(episode)
        focus = year_bench.FocusTicks(measured.ledger, lived, now_s)
        for _ in range(2):
            focus.tick(3)
        assert {state.revision for state in measured.ledger.states().values()} == {2}


def test_the_table_states_how_much_there_is(year_bench, capsys):
    year_bench.main(["2", "1", "sqlite"])
    printed = capsys.readouterr().out
    assert "2 volumes, 1 troubles each" in printed
    assert "SQLite, a year" in printed
    assert "history of one volume" in printed
