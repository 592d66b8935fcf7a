from pathlib import Path

import pytest
from story import Story, play

STORIES = sorted(Path(__file__).parent.glob("*.txt"))
TRANSCRIPT = """
---- what the watchdog sees and says; written by: pytest tests/scenarios --rewrite ----
     time, kind of tick, balance read, level, next look; then ! an alert, | its words, > what to do

"""


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_written(path, request):
    told, _, expected = path.read_text().partition(TRANSCRIPT)
    happened = play(Story.read(told))
    if request.config.getoption("--rewrite"):
        path.write_text(told.rstrip("\n") + "\n" + TRANSCRIPT + happened)
    else:
        assert happened == expected, "if this is meant, rewrite it with --rewrite and read the difference"


def test_there_are_stories():
    assert len(STORIES) >= 8


@pytest.mark.parametrize("event", ["load 3000", "telemetry ends", "the volume burns"])
def test_an_event_that_cannot_happen_is_refused(event):
    told = f"volume: 100 GiB, ci-7\n09:00  {event}\n10:00  the end\n"
    with pytest.raises(ValueError, match="is no event"):
        play(Story.read(told))
