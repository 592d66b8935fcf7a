"""A volume by what an operator calls it: its ID, its Name tag, its claim, or its instance."""

import pytest

from support.cli_session import add_calm, add_critical, add_lab_volume, modification_targets

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
    assert all(volume_id in result.err for volume_id in volume_ids)
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
        ("explain", "ci-8", "no volume and no instance in us-east-1 has the name 'ci-8'."),
        ("advise", "ci-8", "no volume in us-east-1 has the name 'ci-8'."),
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
