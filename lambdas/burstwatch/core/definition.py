"""The lines that change in the definition of a resource that is defined as code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_MAX_NAME_LENGTH: Final = 40  # keeps a printed line readable


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChange:
    """The same change in three languages; each shows only what changes, in a frame that shows where."""

    terraform: str
    cloudformation: str
    cdk: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """How the languages name a type of resource: Terraform, CloudFormation, and the CDK in Python."""

    terraform: str
    cloudformation: str
    cdk: str


def change_definition(
    vocabulary: Vocabulary,
    name: str,
    *,
    terraform: Mapping[str, str],
    cloudformation: Mapping[str, str],
    cdk: Mapping[str, str],
) -> DefinitionChange:
    """The change of a resource; each mapping has the properties of one language, written as in that language.

    ``name`` becomes an identifier; if it contains no letter to begin with, it is ``resource`` and what is
    left of the name.
    """
    parts = re.findall(r"[A-Za-z0-9]+", name[:_MAX_NAME_LENGTH])
    if not parts or not parts[0][0].isalpha():
        parts = ["resource", *parts]
    snake = "_".join(parts).lower()
    pascal = "".join(part[0].upper() + part[1:] for part in parts)
    width = max(map(len, terraform))  # aligned as `terraform fmt` does
    return DefinitionChange(
        terraform="\n".join(
            [
                f'resource "{vocabulary.terraform}" "{snake}" {{',
                *(f"  {key:<{width}} = {value}" for key, value in terraform.items()),
                "}",
            ]
        ),
        cloudformation="\n".join(
            [
                f"{pascal}:",
                f"  Type: {vocabulary.cloudformation}",
                "  Properties:",
                *(f"    {key}: {value}" for key, value in cloudformation.items()),
            ]
        ),
        cdk="\n".join(
            [
                f"{vocabulary.cdk}(",
                "    self,",
                f'    "{pascal}",',
                *(f"    {key}={value}," for key, value in cdk.items()),
                ")",
            ]
        ),
    )
