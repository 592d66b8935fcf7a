"""The changed definition of a volume, for volumes that are defined as code.

Sources: the documentation of Terraform's ``aws_ebs_volume`` and ``aws_instance``. The reference of
CloudFormation on ``AWS::EC2::Volume`` (updates without interruption) and on the block devices of an
``AWS::EC2::Instance`` (an update replaces the instance, and knows no throughput), and the CDK's ``aws_ec2``.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from burstctl.advise.rightsizing import Advice, AdviceVerdict
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.text import sanitise, wrap

_ROOT_DEVICES: Final = frozenset({"/dev/xvda", "/dev/sda1", "xvda", "sda1"})
"""What images call the root volume; others may too, so that the words stay careful."""

# both keep a line of the printed configuration readable
_MAX_NAME_LENGTH: Final = 40
_COLUMNS: Final = 80


class IacKind(StrEnum):
    """A language that volumes are defined in."""

    TERRAFORM = "terraform"
    CLOUDFORMATION = "cloudformation"
    CDK = "cdk"


def render_definition(advice: Advice, kind: IacKind) -> str:
    """The lines that change, in a frame that shows where they go; a comment where nothing does."""
    comments = [_describe_change(advice)]
    if not changes_definition(advice):
        return _comment_lines([*comments, "There is nothing to change."])
    is_root = advice.volume.device in _ROOT_DEVICES
    match kind:
        case IacKind.TERRAFORM:
            return _terraform(advice, comments, is_root=is_root)
        case IacKind.CLOUDFORMATION:
            return _cloudformation(advice, comments, is_root=is_root)
        case IacKind.CDK:
            return _cdk(advice, comments, is_root=is_root)


def changes_definition(advice: Advice) -> bool:
    """Whether the definition is to be changed: also that of a flipped volume that stays as it is."""
    return advice.verdict is AdviceVerdict.MOVE or advice.inputs.flipped_from is not None


def _describe_change(advice: Advice) -> str:
    volume = advice.volume
    name = sanitise(volume.name or "", _MAX_NAME_LENGTH)
    label = f"{volume.volume_id} ({name})" if name else volume.volume_id
    change = str(advice.target)
    if advice.inputs.current != advice.target:
        change = f"{advice.inputs.current} -> {change}"
    return f"{label}, {volume.size_gib:,} GiB: {change}"


def _comment_lines(sentences: Iterable[str]) -> str:
    lines = (line for sentence in sentences for line in wrap(sentence.split(), _COLUMNS - 2))
    return "\n".join(f"# {line}" for line in lines)


def _terraform(advice: Advice, comments: list[str], *, is_root: bool) -> str:
    comments.append('Go on only if `terraform plan` says "updated in-place"; "replaced" loses data.')
    name, target = _snake_case(advice.volume), advice.target
    volume_block = _block(f'resource "aws_ebs_volume" "{name}"', _align_assignments(target, "type"))
    root_device = _block("root_block_device", _align_assignments(target, "volume_type"))
    instance_block = _block(f'resource "aws_instance" "{name}"', root_device)
    first, second = (instance_block, volume_block) if is_root else (volume_block, instance_block)
    alternative = "a separate volume" if is_root else "the root volume of an instance"
    return "\n".join([_comment_lines(comments), first, "", f"# or, if it is {alternative}:", second])


def _block(header: str, body: str) -> str:
    indented = "\n".join(f"  {line}" for line in body.split("\n"))
    return f"{header} {{\n{indented}\n}}"


def _align_assignments(target: Configuration, type_key: str) -> str:
    """Aligned as ``terraform fmt`` does."""
    values = {type_key: f'"{target.volume_type}"'}
    values |= {name.lower(): str(value) for name, value in _performance_properties(target)}
    width = max(map(len, values))
    return "\n".join(f"{key:<{width}} = {value}" for key, value in values.items())


def _cloudformation(advice: Advice, comments: list[str], *, is_root: bool) -> str:
    properties = [f"VolumeType: {advice.target.volume_type}"]
    properties += [f"{name}: {value}" for name, value in _performance_properties(advice.target)]
    lines = [
        "Resources:",
        f"  {_pascal_case(advice.volume)}:",
        "    Type: AWS::EC2::Volume",
        "    Properties:",
        *(f"      {line}" for line in properties),
    ]
    return "\n".join([_comment_lines([*comments, *_instance_warning(is_root=is_root)]), *lines])


def _cdk(advice: Advice, comments: list[str], *, is_root: bool) -> str:
    arguments = [f"volume_type=ec2.EbsDeviceVolumeType.{str(advice.target.volume_type).upper()}"]
    arguments += [f"{name.lower()}={value}" for name, value in _performance_properties(advice.target)]
    lines = [
        "ec2.Volume(",
        "    self,",
        f'    "{_pascal_case(advice.volume)}",',
        "    availability_zone=zone,  # unchanged",
        f"    size=Size.gibibytes({advice.volume.size_gib}),  # unchanged",
        *(f"    {argument}," for argument in arguments),
        ")",
    ]
    return "\n".join([_comment_lines([*comments, *_instance_warning(is_root=is_root)]), *lines])


def _instance_warning(*, is_root: bool) -> list[str]:
    """What CloudFormation does to an instance whose block devices change."""
    opening = "It looks like a root volume. If" if is_root else "If"
    warning = (
        f"{opening} it is defined in the block devices of an instance, do not change it there: CloudFormation"
        " would replace the instance. Modify the volume (burstctl flip), and write the type into the launch"
        " template of instances to come."
    )
    return [warning]


def _performance_properties(target: Configuration) -> list[tuple[str, int]]:
    properties = (("Iops", target.iops), ("Throughput", target.throughput_mib_s))
    return [(name, value) for name, value in properties if value is not None]


def _identifier_words(volume: Volume) -> list[str]:
    """The words of an identifier, from the volume's name, or from its ID if the name has none."""
    parts = re.findall(r"[A-Za-z0-9]+", (volume.name or "")[:_MAX_NAME_LENGTH])
    return parts if parts and parts[0][0].isalpha() else ["volume", *(parts or [volume.volume_id[4:]])]


def _snake_case(volume: Volume) -> str:
    return "_".join(_identifier_words(volume)).lower()


def _pascal_case(volume: Volume) -> str:
    return "".join(word[0].upper() + word[1:] for word in _identifier_words(volume))
