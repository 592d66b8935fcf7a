"""What a definition has to say: read back by a parser, and for the CDK by the CDK itself."""

import re
from dataclasses import replace

import pytest
import yaml

from burstwatch.core.advise import Case, advise
from burstwatch.core.iac import IacKind, definition
from burstwatch.core.prices import US_EAST_1, VolumeType
from conftest import GP2, GP3, a_volume, a_volume_as


def an_advice(*, critical=False, **volume):
    """Of a volume nobody saw anything of: gp3 with 3,000 IOPS and the 128 MiB/s it has, or io2."""
    return advise(Case(volume=a_volume(**volume), usage=None, prices=US_EAST_1, is_critical=critical))


def assignments(text):
    """What is set in Terraform's language, by the kind of resource it is set in."""
    found = {}
    for kind, body in re.findall(r'^resource "(\w+)" "\w+" \{\n(.*?)^\}', text, re.DOTALL | re.MULTILINE):
        found[kind] = dict(re.findall(r"^\s+(\w+) += (\S+)$", body, re.MULTILINE))
    return found


def test_terraform_has_the_volume_of_its_own_and_the_root_volume():
    text = definition(an_advice(device="/dev/sdf", tags={"Name": "build-3"}), IacKind.TERRAFORM)
    assert assignments(text) == {
        "aws_ebs_volume": {"type": '"gp3"', "iops": "3000", "throughput": "128"},
        "aws_instance": {"volume_type": '"gp3"', "iops": "3000", "throughput": "128"},
    }
    assert text.index("aws_ebs_volume") < text.index("aws_instance")
    assert '"build_3"' in text
    assert "updated in-place" in text


def test_what_looks_like_a_root_volume_comes_first_as_one():
    text = definition(an_advice(device="/dev/xvda"), IacKind.TERRAFORM)
    assert text.index("aws_instance") < text.index("aws_ebs_volume")


def test_io2_takes_no_throughput():
    text = definition(an_advice(critical=True), IacKind.TERRAFORM)
    assert assignments(text)["aws_ebs_volume"] == {"type": '"io2"', "iops": "3000"}
    [resource] = yaml.safe_load(definition(an_advice(critical=True), IacKind.CLOUDFORMATION))[
        "Resources"
    ].values()
    assert resource["Properties"] == {"VolumeType": "io2", "Iops": 3000}


def test_cloudformation_reads_back():
    text = definition(an_advice(tags={"Name": "build-3"}), IacKind.CLOUDFORMATION)
    assert yaml.safe_load(text) == {
        "Resources": {
            "Build3": {
                "Type": "AWS::EC2::Volume",
                "Properties": {"VolumeType": "gp3", "Iops": 3000, "Throughput": 128},
            }
        }
    }


@pytest.mark.parametrize("kind", [IacKind.CLOUDFORMATION, IacKind.CDK])
def test_block_devices_of_an_instance_are_warned_of_because_cloudformation_would_replace_it(kind):
    text = " ".join(definition(an_advice(device="/dev/sda1"), kind).replace("\n#", "").split())
    assert "It looks like a root volume." in text
    assert "CloudFormation would replace the instance" in text


def test_the_cdk_makes_of_it_what_cloudformation_was_told():
    cdk = pytest.importorskip("aws_cdk")
    from aws_cdk import assertions, aws_ec2  # noqa: PLC0415 - heavy, and only here

    stack = cdk.Stack()
    text = definition(an_advice(tags={"Name": "build-3"}), IacKind.CDK)
    names = {"ec2": aws_ec2, "Size": cdk.Size, "self": stack, "zone": "us-east-1a"}
    exec(text, names)
    assertions.Template.from_stack(stack).has_resource_properties(
        "AWS::EC2::Volume", {"VolumeType": "gp3", "Iops": 3000, "Throughput": 128, "Size": 100}
    )


@pytest.mark.parametrize("kind", IacKind)
@pytest.mark.parametrize(
    "name",
    ['x" {}\nresource "evil"', "…", "3rd", "", "a" * 300, "vol\nResources: {}", "\u202egp3", "class", "ünï"],
)
def test_a_name_from_outside_stays_a_name(kind, name):
    text = definition(an_advice(tags={"Name": name}), kind)
    code = [line for line in text.splitlines() if not line.startswith("#")]
    plain = [re.sub(r'"\w+"|\w+:$', "NAME", line) for line in code]
    harmless = definition(an_advice(tags={"Name": "x"}), kind)
    assert plain == [
        re.sub(r'"\w+"|\w+:$', "NAME", line) for line in harmless.splitlines() if not line.startswith("#")
    ]
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("kind", IacKind)
def test_what_stays_has_nothing_to_change(kind):
    text = definition(an_advice(size_gib=200), kind)
    assert all(line.startswith("# ") for line in text.splitlines())
    assert "nothing to change" in text


def test_what_stays_where_its_flip_put_it_has_to_be_written_down():
    case = Case(volume=a_volume_as(GP3), usage=None, prices=US_EAST_1, flipped_from=GP2)
    text = definition(advise(case), IacKind.TERRAFORM)
    assert assignments(text)["aws_ebs_volume"]["type"] == '"gp3"'


def test_a_critical_volume_of_another_type_gets_that():
    advice = advise(replace(an_advice(critical=True).case, critical_type=VolumeType.IO1))
    assert "VolumeType: io1" in definition(advice, IacKind.CLOUDFORMATION)
