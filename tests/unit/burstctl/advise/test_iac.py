"""What a definition has to say, read back by a parser."""

import re
from dataclasses import replace

import pytest
import yaml

from burstctl.advise.iac import IacKind, render_definition
from burstctl.advise.rightsizing import AdviceInput, advise
from burstwatch.core.ebs.pricing import US_EAST_1, VolumeType
from support.builders.core_values import GP2, GP3, a_volume, a_volume_as


def an_advice(*, critical=False, **volume):
    """Of a volume without any data: gp3 with 3,000 IOPS and the 128 MiB/s it has, or io2."""
    return advise(
        AdviceInput(
            volume=a_volume(**volume),
            usage=None,
            prices=US_EAST_1,
            is_critical=critical,
            critical_type=VolumeType.IO2,
        )
    )


def parse_assignments(text):
    """What is set in Terraform's language, by the kind of resource it is set in."""
    results = {}
    for kind, body in re.findall(r'^resource "(\w+)" "\w+" \{\n(.*?)^\}', text, re.DOTALL | re.MULTILINE):
        results[kind] = dict(re.findall(r"^\s+(\w+) += (\S+)$", body, re.MULTILINE))
    return results


def test_terraform_has_the_volume_of_its_own_and_the_root_volume():
    text = render_definition(an_advice(device="/dev/sdf", tags={"Name": "build-3"}), IacKind.TERRAFORM)
    assert parse_assignments(text) == {
        "aws_ebs_volume": {"type": '"gp3"', "iops": "3000", "throughput": "128"},
        "aws_instance": {"volume_type": '"gp3"', "iops": "3000", "throughput": "128"},
    }
    assert text.index("aws_ebs_volume") < text.index("aws_instance")
    assert '"build_3"' in text
    assert "updated in-place" in text


def test_what_looks_like_a_root_volume_comes_first_as_one():
    text = render_definition(an_advice(device="/dev/xvda"), IacKind.TERRAFORM)
    assert text.index("aws_instance") < text.index("aws_ebs_volume")


def test_io2_takes_no_throughput():
    text = render_definition(an_advice(critical=True), IacKind.TERRAFORM)
    assert parse_assignments(text)["aws_ebs_volume"] == {"type": '"io2"', "iops": "3000"}
    [resource] = yaml.safe_load(render_definition(an_advice(critical=True), IacKind.CLOUDFORMATION))[
        "Resources"
    ].values()
    assert resource["Properties"] == {"VolumeType": "io2", "Iops": 3000}


def test_cloudformation_reads_back():
    text = render_definition(an_advice(tags={"Name": "build-3"}), IacKind.CLOUDFORMATION)
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
    text = " ".join(render_definition(an_advice(device="/dev/sda1"), kind).replace("\n#", "").split())
    assert "It looks like a root volume." in text
    assert "CloudFormation would replace the instance" in text


@pytest.mark.parametrize("kind", IacKind)
@pytest.mark.parametrize(
    "name",
    ['x" {}\nresource "evil"', "…", "3rd", "", "a" * 300, "vol\nResources: {}", "\u202egp3", "class", "ünï"],
)
def test_a_name_from_outside_stays_a_name(kind, name):
    text = render_definition(an_advice(tags={"Name": name}), kind)
    code = [line for line in text.splitlines() if not line.startswith("#")]
    plain = [re.sub(r'"\w+"|\w+:$', "NAME", line) for line in code]
    harmless = render_definition(an_advice(tags={"Name": "x"}), kind)
    assert plain == [
        re.sub(r'"\w+"|\w+:$', "NAME", line) for line in harmless.splitlines() if not line.startswith("#")
    ]
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("kind", IacKind)
def test_an_unchanged_volume_has_no_definition(kind):
    text = render_definition(an_advice(size_gib=200), kind)
    assert all(line.startswith("# ") for line in text.splitlines())
    assert "nothing to change" in text


def test_a_permanent_flip_has_to_be_written_down():
    case = AdviceInput(volume=a_volume_as(GP3), usage=None, prices=US_EAST_1, flipped_from=GP2)
    text = render_definition(advise(case), IacKind.TERRAFORM)
    assert parse_assignments(text)["aws_ebs_volume"]["type"] == '"gp3"'


def test_a_critical_volume_of_another_type_gets_that():
    advice = advise(replace(an_advice(critical=True).inputs, critical_type=VolumeType.IO1))
    assert "VolumeType: io1" in render_definition(advice, IacKind.CLOUDFORMATION)


def comment(text):
    """The words in front of the definition, on one line."""
    lines = text.splitlines()
    return " ".join(line.removeprefix("# ") for line in lines[: lines.index(next(filter(is_code, lines)))])


def is_code(line):
    return not line.startswith("#")


@pytest.mark.parametrize("kind", IacKind)
@pytest.mark.parametrize(
    ("tags", "called"),
    [({"Name": "build-3"}, "vol-0a1 (build-3)"), ({}, "vol-0a1"), ({"Name": ""}, "vol-0a1")],
)
def test_it_begins_with_the_volume_and_what_it_becomes(kind, tags, called):
    text = render_definition(an_advice(tags=tags), kind)
    change = "100 GiB: gp2 -> gp3 with 3,000 IOPS and 128 MiB/s"
    assert comment(text).startswith(f"{called}, {change}")


def test_an_unchanged_volume_has_no_change_to_show():
    case = AdviceInput(volume=a_volume_as(GP3), usage=None, prices=US_EAST_1, flipped_from=GP2)
    text = comment(render_definition(advise(case), IacKind.CDK))
    assert "100 GiB: gp3 with 3,000 IOPS and 128 MiB/s" in text
    assert "->" not in text


@pytest.mark.parametrize(
    ("device", "alternative"),
    [("/dev/xvda", "a separate volume"), ("/dev/sdf", "the root volume of an instance")],
)
def test_terraform_names_what_else_it_may_be(device, alternative):
    assert f"# or, if it is {alternative}:" in render_definition(an_advice(device=device), IacKind.TERRAFORM)


def test_terraforms_assignments_are_aligned():
    lines = render_definition(an_advice(), IacKind.TERRAFORM).splitlines()
    assert '  type       = "gp3"' in lines
    assert "  iops       = 3000" in lines
    assert "  throughput = 128" in lines


def test_the_cdk_definition_has_every_number():
    text = render_definition(an_advice(), IacKind.CDK)
    assert "    volume_type=ec2.EbsDeviceVolumeType.GP3," in text
    assert "    iops=3000," in text
    assert "    throughput=128," in text


@pytest.mark.parametrize("kind", [IacKind.CLOUDFORMATION, IacKind.CDK])
def test_what_is_not_called_like_a_root_volume_is_not_taken_for_one(kind):
    text = comment(render_definition(an_advice(device="/dev/sdf"), kind))
    assert "It looks like a root volume" not in text
    assert "If it is defined in the block devices of an instance" in text


@pytest.mark.parametrize(("length", "begins"), [(17, ["# vol-0a1"]), (18, ["# vol-0a1", "# MiB/s"])])
def test_comments_take_the_whole_line_and_no_more(length, begins):
    """With a name of 17 letters the first sentence takes 80 columns."""
    lines = render_definition(an_advice(tags={"Name": "a" * length}), IacKind.TERRAFORM).splitlines()
    sentence = lines[: next(number for number, line in enumerate(lines) if line.endswith("MiB/s")) + 1]
    assert [" ".join(line.split()[:2]) for line in sentence] == begins
    assert max(map(len, sentence)) == (80 if length == 17 else 75)


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        ({"Name": "build-3"}, "build_3"),
        ({"Name": "3rd"}, "volume_3rd"),
        ({}, "volume_0a1"),
        ({"Name": "…"}, "volume_0a1"),
        ({"Name": "a1 2b"}, "a1_2b"),
    ],
)
def test_a_definition_is_named_like_the_volume_or_after_its_id(tags, name):
    assert f'resource "aws_ebs_volume" "{name}"' in render_definition(an_advice(tags=tags), IacKind.TERRAFORM)
