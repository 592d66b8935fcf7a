"""What the definition of a volume has to say, for those who keep their volumes in code.

Sources: the documentation of Terraform's ``aws_ebs_volume`` and ``aws_instance``, the reference of
CloudFormation on ``AWS::EC2::Volume`` (updates without interruption) and on the block devices of an
``AWS::EC2::Instance`` (an update replaces the instance, and knows no throughput), and the CDK's ``aws_ec2``.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from burstctl.advise.rightsizing import Advice, Verdict
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.text import fill, printable

_ROOT_DEVICES: Final = frozenset({"/dev/xvda", "/dev/sda1", "xvda", "sda1"})
"""What images call the root volume; others may too, so that the words stay careful."""

_LONGEST_NAME: Final = 40
_COLUMNS: Final = 80


class IacKind(StrEnum):
    """A language that volumes are defined in."""

    TERRAFORM = "terraform"
    CLOUDFORMATION = "cloudformation"
    CDK = "cdk"


def definition(advice: Advice, kind: IacKind) -> str:
    """The lines that change, in a frame that shows where they go; a comment where nothing does."""
    comments = [_headline(advice)]
    if advice.verdict is not Verdict.MOVE and advice.case.flipped_from is None:
        return _commented([*comments, "It stays what it is: there is nothing to change."])
    is_root = advice.volume.device in _ROOT_DEVICES
    match kind:
        case IacKind.TERRAFORM:
            return _terraform(advice, comments, is_root=is_root)
        case IacKind.CLOUDFORMATION:
            return _cloudformation(advice, comments, is_root=is_root)
        case IacKind.CDK:
            return _cdk(advice, comments, is_root=is_root)


def _headline(advice: Advice) -> str:
    volume = advice.volume
    name = printable(volume.name or "", _LONGEST_NAME)
    called = f"{volume.volume_id} ({name})" if name else volume.volume_id
    change = str(advice.target)
    if advice.case.now != advice.target:
        change = f"{advice.case.now} -> {change}"
    return f"{called}, {volume.size_gib:,} GiB: {change}"


def _commented(sentences: Iterable[str]) -> str:
    lines = (line for sentence in sentences for line in fill(sentence.split(), _COLUMNS - 2))
    return "\n".join(f"# {line}" for line in lines)


def _terraform(advice: Advice, comments: list[str], *, is_root: bool) -> str:
    comments.append('Go on only if `terraform plan` says "updated in-place"; "replaced" loses data.')
    name, target = _snake(advice.volume), advice.target
    own = _block(f'resource "aws_ebs_volume" "{name}"', _assignments(target, "type"))
    inner = _block("root_block_device", _assignments(target, "volume_type"))
    root = _block(f'resource "aws_instance" "{name}"', inner)
    first, second = (root, own) if is_root else (own, root)
    other = "a volume of its own" if is_root else "the root volume of an instance"
    return "\n".join([_commented(comments), first, "", f"# or, if it is {other}:", second])


def _block(head: str, body: str) -> str:
    inside = "\n".join(f"  {line}" for line in body.split("\n"))
    return f"{head} {{\n{inside}\n}}"


def _assignments(target: Configuration, type_key: str) -> str:
    """Aligned as ``terraform fmt`` does."""
    values = {type_key: f'"{target.volume_type}"'}
    values |= {name.lower(): str(value) for name, value in _numbers(target)}
    width = max(map(len, values))
    return "\n".join(f"{key:<{width}} = {value}" for key, value in values.items())


def _cloudformation(advice: Advice, comments: list[str], *, is_root: bool) -> str:
    properties = [f"VolumeType: {advice.target.volume_type}"]
    properties += [f"{name}: {value}" for name, value in _numbers(advice.target)]
    lines = [
        "Resources:",
        f"  {_pascal(advice.volume)}:",
        "    Type: AWS::EC2::Volume",
        "    Properties:",
        *(f"      {line}" for line in properties),
    ]
    return "\n".join([_commented([*comments, *_instance_warning(is_root=is_root)]), *lines])


def _cdk(advice: Advice, comments: list[str], *, is_root: bool) -> str:
    arguments = [f"volume_type=ec2.EbsDeviceVolumeType.{str(advice.target.volume_type).upper()}"]
    arguments += [f"{name.lower()}={value}" for name, value in _numbers(advice.target)]
    lines = [
        "ec2.Volume(",
        "    self,",
        f'    "{_pascal(advice.volume)}",',
        "    availability_zone=zone,  # as it is",
        f"    size=Size.gibibytes({advice.volume.size_gib}),  # as it is",
        *(f"    {argument}," for argument in arguments),
        ")",
    ]
    return "\n".join([_commented([*comments, *_instance_warning(is_root=is_root)]), *lines])


def _instance_warning(*, is_root: bool) -> list[str]:
    """What CloudFormation does to an instance whose block devices change."""
    looks = "It looks like a root volume. If" if is_root else "If"
    warning = (
        f"{looks} it is defined in the block devices of an instance, do not change it there: CloudFormation"
        " would replace the instance. Modify the volume (burstctl flip), and write the type into the launch"
        " template of instances to come."
    )
    return [warning]


def _numbers(target: Configuration) -> list[tuple[str, int]]:
    named = (("Iops", target.iops), ("Throughput", target.throughput_mib_s))
    return [(name, value) for name, value in named if value is not None]


def _words(volume: Volume) -> list[str]:
    """What of its name, else of its id, may stand in an identifier."""
    found = re.findall(r"[A-Za-z0-9]+", (volume.name or "")[:_LONGEST_NAME])
    return found if found and found[0][0].isalpha() else ["volume", *(found or [volume.volume_id[4:]])]


def _snake(volume: Volume) -> str:
    return "_".join(_words(volume)).lower()


def _pascal(volume: Volume) -> str:
    return "".join(word[0].upper() + word[1:] for word in _words(volume))
