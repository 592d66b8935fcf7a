"""A volume by what an operator calls it: its ID, its Name tag, its claim, or its instance."""

import pytest

from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_lab_instance,
    add_lab_volume,
    modification_targets,
)

CLAIM = {
    "kubernetes.io/created-for/pvc/name": "data-etcd-0",
    "kubernetes.io/created-for/pvc/namespace": "kube-system",
}
INSTANCE = "i-0123456789abcdef0"


@pytest.mark.parametrize("command", ["explain", "history", "plot"])
def test_a_unique_name_tag_is_as_good_as_the_id(cli, lab, command):
    add_calm(lab, "web-1")
    volume_id = add_critical(lab, "ci-7")
    cli.run("watch", "--once")

    by_name, by_id = cli.run(command, "ci-7"), cli.run(command, volume_id)

    assert volume_id in by_id.out
    assert (by_name.code, by_name.out) == (by_id.code, by_id.out)


def test_several_words_name_each_volume_once(cli, lab):
    web, ci = add_calm(lab, "web-1", instance_id=INSTANCE), add_critical(lab, "ci-7")
    add_calm(lab, "other")

    document = cli.run("assess", "ci-7", ci, "web-1", INSTANCE, "--json").document

    assert sorted(volume["volume_id"] for volume in document["volumes"]) == sorted([ci, web])


def test_a_flip_and_a_hold_accept_names(cli, lab):
    volume_id = add_critical(lab, "ci-7")

    flip = cli.run("flip", "ci-7", "--yes")
    hold = cli.run("hold", "ci-7", "--for", "1h", "--reason", "INC-42")

    assert modification_targets(lab, volume_id) == ["gp3"], flip.err
    assert hold.code == 0, hold.err
    assert volume_id in hold.out


@pytest.mark.parametrize(
    "name", ["claim data-etcd-0 in kube-system", "kube-system/data-etcd-0", "data-etcd-0"]
)
def test_a_claim_is_found_by_every_form_that_a_table_shows(cli, lab, name):
    volume_id = add_critical(lab, "prod-dynamic-pvc-a3ab0567-3a48-4608-8cb6-4e3b1485c808", tags=CLAIM)

    assert volume_id in cli.run("explain", name).out


def test_a_name_of_several_volumes_is_refused_with_the_ids_to_choose_from(cli, lab):
    volume_ids = [add_critical(lab, "ci-7") for _ in range(2)]

    result = cli.run("explain", "ci-7")

    assert (result.code, result.out) == (2, "")
    assert result.error_lines == ["error: 'ci-7' stands for 2 volumes in us-east-1, and one is needed here."]
    assert result.err.splitlines()[1] == "  fix: give an ID:"
    assert [line.split()[0] for line in result.err.splitlines()[2:]] == sorted(volume_ids), "one on each line"
    assert cli.run("flip", "ci-7", "--yes").code == 2, "a flip does not guess either"


def test_an_instance_means_all_its_volumes_where_only_volumes_are_possible(cli, lab):
    root = add_calm(lab, "web-1", instance_id=INSTANCE)
    data = add_lab_volume(lab, "web-1-data", instance_id=INSTANCE)

    document = cli.run("assess", INSTANCE, "--json").document
    experiment = cli.run("experiment", "credit-reset", INSTANCE, "--dry-run")

    assert sorted(volume["volume_id"] for volume in document["volumes"]) == sorted([root, data])
    assert experiment.code == 2
    assert f"{INSTANCE!r} stands for 2 volumes" in experiment.err


def test_an_instance_means_its_only_volume_that_can_burst(cli, lab):
    root = add_calm(lab, "web-1", instance_id=INSTANCE)
    add_lab_volume(lab, "fast", volume_type="gp3", iops=3000, instance_id=INSTANCE)

    result = cli.run("experiment", "credit-reset", INSTANCE, "--dry-run")

    assert root in result.out + result.err


def test_an_instance_is_explained_itself(cli, lab):
    add_calm(lab, "web-1", instance_id=INSTANCE)

    assert cli.run("explain", INSTANCE).out.startswith(f"{INSTANCE}, m5.24xlarge, running, 1 volume\n")


@pytest.mark.parametrize(
    ("command", "word", "cause"),
    [
        ("explain", "ci-8", "no volume, instance, file system or database in us-east-1 has the name 'ci-8'."),
        ("advise", "ci-8", "no volume, instance, file system or database in us-east-1 has the name 'ci-8'."),
        (
            "simulate",
            "ci-8",
            "no volume, instance, file system or database in us-east-1 has the name 'ci-8'.",
        ),
        ("advise", INSTANCE, f"no volume in us-east-1 is attached to {INSTANCE!r}."),
    ],
)
def test_a_name_without_a_resource_is_refused_with_the_way_to_find_it(cli, lab, command, word, cause):
    add_critical(lab, "ci-7")

    result = cli.run(command, word)

    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [
        f"error: {cause}",
        "  fix: burstctl assess lists the names and IDs; in another Region, add --region NAME",
    ]


@pytest.mark.parametrize("volume_type", ["gp3", "st1", "sc1"])
@pytest.mark.parametrize("command", ["explain", "which", "history", "assess"])
def test_a_volume_of_any_type_has_a_name(cli, lab, command, volume_type):
    volume_id = add_lab_volume(lab, "lake", size_gib=500, volume_type=volume_type)

    result = cli.run(command, "lake")

    assert result.code == 0, result.err
    assert volume_id in result.out + result.err


@pytest.mark.parametrize(
    ("command", "reason", "next_step"),
    [
        (
            ["flip", "--dry-run"],
            "is st1, and burstwatch changes only gp2, gp3,",
            "burstctl which",
        ),
        (
            ["flip-back", "--dry-run"],
            "is st1, and burstwatch changes only gp2, gp3,",
            "burstctl which",
        ),
        (["experiment", "credit-reset", "--dry-run"], "this is a st1 of 500 GiB", "take a gp2"),
    ],
)
def test_a_command_that_does_not_apply_to_a_type_gives_the_reason_and_a_fix(
    cli, lab, command, reason, next_step
):
    volume_id = add_lab_volume(lab, "lake", size_gib=500, volume_type="st1")

    result = cli.run(*command, "lake")

    text = " ".join((result.out + result.err).split())
    assert volume_id in text
    assert reason in text
    assert next_step in text


@pytest.mark.parametrize("command", ["explain", "which", "history", "simulate"])
def test_the_name_of_an_instance_is_as_good_as_its_id(cli, lab, command):
    add_lab_instance(lab, INSTANCE, name="db-1")
    add_lab_volume(lab, "data", volume_type="gp3", iops=3000, instance_id=INSTANCE)

    by_name, by_id = cli.run(command, "db-1"), cli.run(command, INSTANCE)

    assert (by_name.code, by_name.out) == (by_id.code, by_id.out), by_name.err
    assert INSTANCE in by_name.out + by_name.err


def test_the_name_of_an_instance_means_its_volumes_where_only_volumes_are_possible(cli, lab):
    add_lab_instance(lab, INSTANCE, name="db-1")
    volume_id = add_critical(lab, "ci-7", instance_id=INSTANCE)

    assert volume_id in cli.run("flip", "db-1", "--dry-run").out
    assert volume_id in cli.run("advise", "db-1").out
    assert INSTANCE in cli.run("plot", "db-1").out


def test_the_name_of_a_volume_comes_before_that_of_its_instance(cli, lab):
    add_lab_instance(lab, INSTANCE, name="ci-7")
    volume_id = add_critical(lab, "ci-7", instance_id=INSTANCE)
    add_calm(lab, "root", instance_id=INSTANCE)

    assert [item["volume_id"] for item in cli.run("assess", "ci-7", "--json").document["volumes"]] == [
        volume_id
    ]
    ambiguous = cli.run("which", "ci-7")
    assert "'ci-7' stands for 1 volume and 1 instance" in ambiguous.err, "which can show either"


@pytest.mark.parametrize("by_id", [False, True])
def test_a_volume_is_refused_with_its_instance_where_an_instance_is_needed(cli, lab, by_id):
    add_lab_instance(lab, INSTANCE, name="db-1")
    volume_id = add_calm(lab, "data", instance_id=INSTANCE)
    word = volume_id if by_id else "data"

    result = cli.run("simulate", word)

    assert result.code == 2
    assert result.err.splitlines() == [
        f"error: {word!r} names 1 volume, and an instance is needed here.",
        f"  fix: give its instance: {INSTANCE}",
    ]


def test_of_very_many_candidates_the_rest_is_counted(cli, lab):
    for _ in range(7):
        add_calm(lab, "web")

    lines = cli.run("explain", "web").err.splitlines()

    assert lines[1] == "  fix: give an ID:"
    assert len(lines[2:-1]) == 5
    assert lines[-1] == "    and 2 more"


@pytest.mark.parametrize("pattern", ["ci-*", "ci-?"])
def test_a_wildcard_in_a_name_is_a_character(cli, lab, pattern):
    add_critical(lab, "ci-7")
    starred = add_calm(lab, pattern)

    assert starred in cli.run("explain", pattern).out


def test_an_id_needs_no_lookup(cli, lab):
    volume_id = add_critical(lab)
    cli.run("watch", "--once")
    before = lab.faults.call_counts().get("DescribeVolumes", 0)

    assert volume_id in cli.run("history", volume_id).out
    assert lab.faults.call_counts().get("DescribeVolumes", 0) == before
