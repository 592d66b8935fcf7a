from pathlib import Path

import pytest

from support.scenario.scenario_runner import Scenario, run_scenario

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))
TRANSCRIPT = """
---- what the watchdog sees and says; written by: pytest tests/scenarios --rewrite ----
     time, kind of tick, balance read, level, next look; then = what is wanted, + what the ledger gets,
     * a call to AWS and its answer, ! an alert, | its words, > what to do

"""


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_transcript_matches(path, request):
    steps, _, expected = path.read_text().partition(TRANSCRIPT)
    happened = run_scenario(Scenario.read(steps))
    if request.config.getoption("--rewrite"):
        path.write_text(steps.rstrip("\n") + "\n" + TRANSCRIPT + happened)
    else:
        assert happened == expected, "if this is meant, rewrite it with --rewrite and read the difference"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_ledger_has_an_intent_of_its_own_before_each_call(path):
    intent_count = call_count = 0
    for line in path.read_text().splitlines():
        intent_count += line.lstrip().startswith("+ intent:")
        call_count += line.lstrip().startswith("* ModifyVolume")
        assert call_count <= intent_count


def test_there_are_scenarios():
    assert len(SCENARIOS) >= 20


@pytest.mark.parametrize("event", ["load 3000", "telemetry ends", "the volume burns"])
def test_an_unknown_event_is_refused(event):
    reported = f"volume: 100 GiB, ci-7\n09:00  {event}\n10:00  the end\n"
    with pytest.raises(ValueError, match="is not an event"):
        run_scenario(Scenario.read(reported))
