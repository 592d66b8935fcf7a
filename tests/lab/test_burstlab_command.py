import json
import os
import signal
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from burstlab.main import COMMANDS, main
from burstlab.model.fleet_file import FleetFileError, make_mixed_volumes, make_recorded_volumes, read_fleet
from burstlab.model.loads.load import NAMED_LOADS
from burstlab.model.loads.load_parser import TRACES_DIRECTORY
from burstwatch.adapters.notify.slack_webhook import SlackWebhook
from support.lab.lab_start import START

BURSTLAB = [sys.executable, "-c", "from burstlab.main import main; main()"]


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_help_lists_every_command_and_each_has_an_example():
    reported = run("-h")
    assert reported.exit_code == 0
    for name in COMMANDS:
        assert name in reported.output
        help_of = run(name, "-h")
        assert help_of.exit_code == 0
        assert f"burstlab {name}" in help_of.output.split("Example")[1]


def test_loads_lists_every_load_with_its_reason():
    reported = run("loads").output
    for named in NAMED_LOADS:
        assert named.name in reported
        assert named.reason in reported
    assert "nab_c0d644" in reported


def test_listing_loads_imports_neither_moto_nor_boto():
    code = (
        "import sys; from burstlab.main import main; main(['loads'], standalone_mode=False); "
        "sys.exit(any(name in sys.modules for name in ('moto', 'boto3', 'botocore', 'flask', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_prints_the_environment_answers_and_stops_on_request(number):
    served = subprocess.Popen(
        [
            *BURSTLAB,
            "serve",
            "--port=0",
            "--volumes=20",
            "--modify-minutes-per-tib=9",
            "--balance-after=reset",
            "--balance-every=300",
            "--idle-silent",
            "--filter-after-page",
            "--page-ms=1",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        exports = [served.stdout.readline().strip() for _ in range(6)]
        url = exports[0].removeprefix("export AWS_ENDPOINT_URL=")
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}/_lab/") as answer:
            assert b'"volumes": 20' in answer.read()
        with urllib.request.urlopen(f"{url}/_lab/settings") as answer:
            chosen = json.load(answer)
        assert (chosen["modify_minutes_per_tib"], chosen["balance_after"]) == (9, "reset")
        served.send_signal(number)
        _, errors = served.communicate(timeout=60)
        assert served.returncode == 0
        assert "export AWS_SECRET_ACCESS_KEY=burstlab" in exports
        assert "export BURSTWATCH_CLOCK=endpoint" in exports
        assert errors.startswith("20 volumes, ")
        assert errors.endswith("stopped\n")
    finally:
        served.kill()
        served.communicate()


def test_slack_prints_its_address_and_each_message():
    receiver = subprocess.Popen(
        [*BURSTLAB, "slack"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        url = receiver.stdout.readline().strip().removeprefix("export BURSTWATCH_SLACK_WEBHOOK=")
        assert url.startswith("http://127.0.0.1:")
        SlackWebhook(url).post({"text": "ci-7 is empty in about 12 min"})
        assert receiver.stderr.readline() == "waits for alerts, Ctrl-C stops\n"
        assert receiver.stderr.readline() == "\n"
        assert receiver.stderr.readline() == "ci-7 is empty in about 12 min\n"
        receiver.send_signal(signal.SIGINT)
        _, errors = receiver.communicate(timeout=60)
        assert (receiver.returncode, errors) == (0, "stopped\n")
    finally:
        receiver.kill()
        receiver.communicate()


BAD_ARGUMENTS = [
    (["--volumes", "3", "--fleet", "x.yaml"], 2, "exclude each other"),
    (["--volumes", "3", "--traces", "."], 2, "exclude each other"),
    (["--traces", str(Path(__file__).parent)], 1, "no recording (*.csv.gz) below it"),
    (["--fleet", "nowhere.yaml"], 1, "nowhere.yaml: cannot be read"),
    (["--speed", "5000"], 1, "speed is 5000.0: give 1 to 1000"),
    (["--balance-after", "gone"], 2, "'gone' is not one of 'kept', 'refilled', 'reset', 'emptied'"),
    (["--balance-every", "90"], 1, "balance_every_s is 90: give whole minutes, such as 300"),
    (["--lag", "60", "--lag-most", "30"], 1, "give 0 <= lag_s <= lag_most_s"),
]


@pytest.mark.parametrize(("arguments", "exit_code", "complaint"), BAD_ARGUMENTS)
def test_serve_refuses_invalid_options(arguments, exit_code, complaint):
    reported = run("serve", *arguments)
    assert reported.exit_code == exit_code
    assert complaint in reported.output


def test_a_fleet_file_declares_volumes_and_how_many(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "volumes:\n"
        '  - {size_gib: 100, load: docker-loop, tags: {Name: ci-7, "burstwatch:mode": auto}}\n'
        "  - {size_gib: 8, load: 'steady:20', balance_pct: 60, count: 50, shown_iops: 24}\n"
        "  - {size_gib: 9, service_owner: ecs, managed_by: ecs, hidden: true}\n"
    )
    volumes = read_fleet(path, START).volumes
    assert len(volumes) == 52
    assert volumes[0].tags == {"Name": "ci-7", "burstwatch:mode": "auto"}
    assert (volumes[1].balance_pct, volumes[1].shown_iops, volumes[1].starts_at) == (60, 24, START)
    assert volumes[51].hidden


def test_a_fleet_file_declares_a_zone_and_an_outpost_without_gp3(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "volumes:\n"
        "  - {size_gib: 8, zone: us-east-1-bos-1a, lacks_gp3: true}\n"
        "  - {size_gib: 8, outpost_arn: 'arn:aws:outposts:us-east-1:1:outpost/op-1'}\n"
    )
    local, outpost = read_fleet(path, START).volumes
    assert (local.zone, local.lacks_gp3) == ("us-east-1-bos-1a", True)
    assert (outpost.outpost_arn, outpost.lacks_gp3) == ("arn:aws:outposts:us-east-1:1:outpost/op-1", False)


BAD_FLEETS = [
    ("volumes: []", "it must hold a list `volumes`"),
    ("[", "not YAML"),
    ("volumes: [7]", "volumes[0] is 7; it must be a mapping"),
    ("volumes: [{size: 8}]", "volumes[0].size: no such key; there are tags, balance_pct, count, size_gib"),
    ("volumes: [{load: idle}]", "volumes[0]: size_gib is missing"),
    ("volumes: [{size_gib: 8}, {size_gib: big}]", "volumes[1].size_gib is 'big'; it must be a whole number"),
    ("volumes: [{size_gib: 8, attached: 'no'}]", "volumes[0].attached is 'no'; it must be true or false"),
    ("volumes: [{size_gib: 8, balance_pct: x}]", "volumes[0].balance_pct is 'x'; it must be a number"),
    ("volumes: [{size_gib: 8, balance_pct: 101}]", "volumes[0]: balance_pct is 101: give 0 to 100"),
    (
        "volumes: [{size_gib: 8, load: dokcer-loop}]",
        "volumes[0]: load 'dokcer-loop': 'dokcer-loop' is not known",
    ),
    ("volumes: [{size_gib: 8, load: 900}]", "volumes[0].load is 900; it must be text"),
    (
        "volumes: [{size_gib: 8, tags: [a]}]",
        "volumes[0].tags is a list; it must be a mapping of text to text",
    ),
    ("volumes: [{size_gib: 8, tags: {a: 1}}]", "volumes[0].tags.'a' is 1; it must be text: put it in quotes"),
    ("volumes: [{size_gib: 8, volume_id: vol-1, count: 2}]", "volumes[0]: count is 2 with one volume_id"),
]


@pytest.mark.parametrize(("text", "complaint"), BAD_FLEETS)
def test_a_bad_fleet_file_is_refused_with_entry_and_value(tmp_path, text, complaint):
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(FleetFileError) as refused:
        read_fleet(path, START)
    assert str(refused.value).startswith(str(path))
    assert complaint in str(refused.value)


def test_mixed_volumes_are_the_same_by_seed_and_mostly_idle():
    mixed = make_mixed_volumes(120, seed=1, starts_at=START)
    assert mixed == make_mixed_volumes(120, seed=1, starts_at=START)
    assert mixed != make_mixed_volumes(120, seed=2, starts_at=START)
    assert sum(volume.load == "docker-loop" for volume in mixed) == 10
    assert sum(volume.load == "idle" for volume in mixed) > 50


def test_every_recording_of_a_folder_becomes_a_volume_named_like_it():
    starts_at = datetime(2026, 11, 20, tzinfo=UTC)
    volumes = make_recorded_volumes(TRACES_DIRECTORY, size_gib=33, scale=32, starts_at=starts_at)
    assert [volume.tags["Name"] for volume in volumes] == ["nab_1ef3de", "nab_c0d644"]
    assert {(volume.size_gib, volume.load.scale) for volume in volumes} == {(33, 32)}
