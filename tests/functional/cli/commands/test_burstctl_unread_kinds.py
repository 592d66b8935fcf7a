"""What burstctl says of file systems and databases that it may not read, or that another command is for."""

import pytest

from burstlab.fake_aws.faults import Fault
from support.cli.cli_session import add_draining_instance

WATCHING = "version: 1\nresources:\n  efs: {watch: true}\n  rds: {watch: true}\n"

pytestmark = [pytest.mark.usefixtures("two_databases_and_a_file_system"), pytest.mark.policy_file(WATCHING)]

USER = "arn:aws:iam::123456789012:user/anna"


def deny(lab, action):
    service, _, name = action.partition(":")
    lab.faults.add(
        Fault(
            service={"cloudwatch": "monitoring"}.get(service, service),
            action=name,
            code="AccessDenied",
            message=f"User: {USER} is not authorized to perform: {action}",
            status=403,
        )
    )


def test_a_resource_whose_buckets_were_not_all_read_is_not_ok(cli, lab):
    deny(lab, "ec2:DescribeInstanceTypes")
    document = cli.run("assess", "--json").document
    assert {database["level"] for database in document["databases"]} == {"unknown"}
    assert document["totals"]["by_level"] == {"ok": 1, "unknown": 2}


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (
            "ec2:DescribeInstanceTypes",
            "the class buckets of 2 databases could not be read: db:big, db:small.",
        ),
        ("cloudwatch:GetMetricData", "3 resources could not be read: db:big, db:small, home."),
    ],
)
def test_a_denied_permission_is_printed_once_with_the_names_of_the_resources(cli, lab, action, names):
    deny(lab, action)
    for command in (["assess"], ["watch", "--once"]):
        error = cli.run(*command).err
        assert error.count("may not call") == 1
        assert f"error: {USER} may not call {action}; {names}" in " ".join(error.split())
        assert "#" not in error
    [failure] = cli.run("assess", "--json").document["failures"] or [action]
    assert action in failure


def test_the_credits_of_an_instance_are_unread_and_not_the_instance(cli, lab):
    add_draining_instance(lab)
    deny(lab, "ec2:DescribeInstanceTypes")
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {instance: {watch: true}}\n")
    result = cli.run("assess")
    error = " ".join(result.err.split())
    assert "; the EBS credits of 1 instance could not be read: build-host." in error
    (cli.directory / "policy.yaml").write_text(f"{WATCHING}  instance: {{watch: true}}\n")
    error = " ".join(cli.run("assess").err.split())
    assert "class buckets" in error
    assert "of 3 resources could not be read: build-host, db:big, db:small." in error
    assert result.code == 1


def test_in_several_regions_a_denied_permission_is_printed_once_too(cli, lab):
    deny(lab, "cloudwatch:GetMetricData")
    error = cli.run("assess", "--region", "us-east-1,eu-west-1").err
    assert error.count("may not call") == 1
    assert "3 resources could not be read: db:big, db:small, home." in " ".join(error.split())


def test_history_invents_no_level(cli, lab):
    deny(lab, "cloudwatch:GetMetricData")
    cli.run("watch", "--once")
    assert "rds-io: unknown: reading it failed; never judged" in cli.run("history", "big").out
    now = cli.run("history", "big", "--json").document["now"]
    assert now["level"] == "unknown"
    assert {bucket["level"] for bucket in now["buckets"]} == {"unknown"}


@pytest.mark.parametrize("command", ["flip", "advise"])
def test_a_name_of_another_kind_leads_to_the_command_for_it(cli, command):
    result = cli.run(command, "home")
    assert result.code == 2
    assert "'home' names the file system fs-" in result.err
    assert "fix: burstctl explain fs-" in result.err
    assert "'big' names the database db:big" in cli.run(command, "big").err


@pytest.mark.parametrize("command", ["explain", "flip", "history", "which"])
def test_a_kind_that_was_not_searched_is_not_named(cli, lab, command):
    unknown = "error: no volume, instance, file system or database in us-east-1 has the name 'oldname'."
    assert unknown in " ".join(cli.run(command, "oldname").err.split())
    deny(lab, "rds:DescribeDBInstances")
    error = " ".join(cli.run(command, "oldname").err.split())
    assert "error: no volume, instance or file system in us-east-1 has the name 'oldname'." in error
    assert f"databases were not searched: {USER} may not call rds:DescribeDBInstances" in error
