"""burstctl which of a file system: its credits, its throughput and its I/O, and which applies now."""

from datetime import timedelta

from burstlab.fake_aws.faults import Fault
from burstlab.model.file_system import LabFileSystem
from support.cli.cli_session import START


def add_file_system(lab, **fields):
    """58 GiB in Standard, for six hours before 18:00."""
    defaults = {"size_gib": 58, "starts_at": START - timedelta(hours=6), "tags": {"Name": "home"}}
    return lab.fleet.file_systems.add(LabFileSystem(**defaults | fields))


def states_of(document):
    return {limit["kind"]: limit["state"] for limit in document["limits"]}


def test_burst_credits_that_drain_are_next(cli, lab):
    # 60 MiB/s, of which a third of the half that is read is metered: 40 MiB/s, and 37 are lost
    file_system_id = add_file_system(lab, load="steady:240@256%50", balance_pct=80)

    result = cli.run("which", "home")

    text = " ".join(result.out.split())
    assert result.code == 0
    assert f"No limit applies to {file_system_id} (home) now." in text
    assert "Next: the burst credits of the file system are used up in 7 h" in text
    assert "; then 2.8 MiB/s applies." in text
    assert "of its limit of 100 MiB/s" in text
    assert all(len(line) <= 80 for line in result.out.splitlines())
    assert f"next: burstctl explain {file_system_id}" in result.err


def test_empty_burst_credits_apply_now_and_the_permitted_throughput_is_not_a_second_limit(cli, lab):
    file_system_id = add_file_system(lab, load="steady:400@256%0", balance_pct=0)

    result = cli.run("which", file_system_id)

    assert result.code == 3
    text = " ".join(result.out.split())
    assert (
        "is limited now by the burst credits of the file system: they are used up, so the baseline of" in text
    )
    document = cli.run("which", file_system_id, "--json").document
    assert [limit["kind"] for limit in document["applies_now"]] == ["file-system-credits"]
    assert "file-system-throughput" not in states_of(document)


def test_a_limit_that_fell_after_the_load_was_served_was_higher_then(cli, lab):
    file_system_id = add_file_system(lab, load="steady:400@256%0", balance_pct=100)
    lab.fleet.file_systems.set_balance(file_system_id, 0.01)
    lab.clock.advance(180)
    text = " ".join(cli.run("which", file_system_id).out.split())
    assert "its limit is 2.8 MiB/s now, and was higher then" in text
    assert " % of its limit of 2.8 MiB/s" not in text


def test_provisioned_throughput_that_is_reached_applies_now(cli, lab):
    file_system_id = add_file_system(
        lab, load="steady:400@256%0", throughput_mode="provisioned", provisioned_mib_s=50
    )
    result = cli.run("which", file_system_id)
    assert result.code == 3
    text = " ".join(result.out.split())
    assert "is limited now by the throughput limit of the file system: it serves 50 MiB/s at most" in text
    assert states_of(cli.run("which", file_system_id, "--json").document)["file-system-credits"] == "never"


def test_a_load_that_cannot_be_read_is_unknown_and_a_failure(cli, lab):
    add_file_system(lab)
    lab.faults.add(Fault(action="GetMetricData", code="AccessDenied", status=403))
    result = cli.run("which", "home", "--json")
    assert result.code == 1
    assert set(states_of(result.document).values()) == {"unknown"}


def test_a_file_system_that_does_not_exist(cli, lab):
    result = cli.run("which", "fs-0123456789abcdef0")
    assert result.code == 1
    assert "no file system fs-0123456789abcdef0 in us-east-1" in result.err
