import pytest

from burstwatch.core.alerts.alert import describe_names
from burstwatch.core.ebs.display_name import (
    claim_of,
    cluster_of,
    display_name_of,
    format_attachment,
    shorten,
)
from support.builders.core_values import a_volume

CREATED_AT = "pvc-a3ab0567-3a48-4608-8cb6-4e3b1485c808"
CLAIM_TAGS = {
    "kubernetes.io/created-for/pvc/name": "data-etcd-0",
    "kubernetes.io/created-for/pvc/namespace": "kube-system",
    "kubernetes.io/created-for/pv/name": CREATED_AT,
}
NAME_CASES = "claim data-etcd-0 in kube-system"


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        ({}, None),
        ({"Name": "ci-7"}, "ci-7"),
        ({"Name": "  "}, None),
        (CLAIM_TAGS, NAME_CASES),
        # what a machine wrote gives way, what a person wrote does not
        (CLAIM_TAGS | {"Name": f"prod-dynamic-{CREATED_AT}"}, NAME_CASES),
        (CLAIM_TAGS | {"Name": CREATED_AT}, NAME_CASES),
        (CLAIM_TAGS | {"Name": "vol-of-prod", "kubernetes.io/created-for/pv/name": "prod"}, NAME_CASES),
        (CLAIM_TAGS | {"Name": "the etcd disk"}, "the etcd disk"),
        ({"kubernetes.io/created-for/pvc/name": "data-etcd-0"}, "claim data-etcd-0"),
        ({"kubernetes.io/created-for/pvc/namespace": "kube-system"}, None),
        # without the claim there is what kubectl get pv shows
        ({"CSIVolumeName": CREATED_AT}, CREATED_AT),
        ({"Name": "ci-7", "CSIVolumeName": CREATED_AT}, "ci-7"),
        ({"Name": "kubernetes-dynamic-x"}, "kubernetes-dynamic-x"),
        ({"ebs.csi.aws.com/cluster": "true"}, None),
    ],
)
def test_a_volume_is_called_what_people_call_it(tags, name):
    assert display_name_of(a_volume(tags=tags)) == name


@pytest.mark.parametrize(
    ("longest", "name"),
    [
        (40, NAME_CASES),
        (32, NAME_CASES),
        (31, "kube-system/data-etcd-0"),
        (22, "data-etcd-0"),
        (10, "data-et…-0"),
        (8, "data-…-0"),
    ],
)
def test_a_claim_loses_the_least_informative_part_first(longest, name):
    assert display_name_of(a_volume(tags=CLAIM_TAGS), longest) == name


@pytest.mark.parametrize(("longest", "name"), [(10, "claim data"), (9, "data"), (4, "data"), (3, "da…")])
def test_a_claim_without_a_namespace_has_none_to_drop(longest, name):
    volume = a_volume(tags={"kubernetes.io/created-for/pvc/name": "data"})
    assert display_name_of(volume, longest) == name


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("ci-7", 8, "ci-7"),
        ("build-host-17", 8, "buil…-17"),
        ("billing-db", 8, "billing…"),
        # of an ordinal alone nothing would be left
        ("x-12345", 6, "x-123…"),
        ("x-123456", 8, "x-123456"),
        ("data-12", 5, "d…-12"),
        ("data-12", 4, "dat…"),
        ("日本語-7", 6, "日…-7"),
        ("a" * 300, 4, "aaa…"),
    ],
)
def test_a_shortened_name_keeps_the_number_that_distinguishes_it(text, width, short):
    assert shorten(text, width) == short


@pytest.mark.parametrize(
    ("tags", "cluster"),
    [
        ({}, None),
        ({"KubernetesCluster": "prod"}, "prod"),
        ({"kubernetes.io/cluster/prod": "owned"}, "prod"),
        ({"kubernetes.io/cluster/prod": "shared", "kubernetes.io/cluster/test": "shared"}, None),
        ({"kubernetes.io/cluster/": "owned"}, None),
        # says that the driver made it, not for whom
        ({"ebs.csi.aws.com/cluster": "true"}, None),
    ],
)
def test_the_cluster_is_shown_when_known(tags, cluster):
    assert cluster_of(a_volume(tags=tags)) == cluster


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((None, None, None), None),
        (("/dev/sdf", "i-1", None), "/dev/sdf on i-1"),
        (("/dev/sdf", "i-1", "build-3"), "/dev/sdf on i-1 build-3"),
        ((None, "i-1", "build-3"), "i-1 build-3"),
        (("/dev/sdf", None, None), "/dev/sdf"),
    ],
)
def test_where_a_volume_is_attached(parts, expected):
    assert format_attachment(*parts) == expected


def test_programs_find_each_name_by_itself():
    volume = a_volume(tags=CLAIM_TAGS | {"Name": CREATED_AT, "KubernetesCluster": "prod"}, device="/dev/sdf")
    assert describe_names(volume) == {
        "name": CREATED_AT,
        "called": NAME_CASES,
        "claim": "data-etcd-0",
        "namespace": "kube-system",
        "cluster": "prod",
    }
    attachment = format_attachment(volume.device, volume.instance_id, volume.instance_name)
    assert (str(claim_of(volume)), attachment) == (NAME_CASES, "/dev/sdf on i-0a1")


def test_a_name_has_40_columns_by_default():
    assert display_name_of(a_volume(tags={"Name": "x" * 40})) == "x" * 40
    assert len(display_name_of(a_volume(tags={"Name": "x" * 41}))) == 40
