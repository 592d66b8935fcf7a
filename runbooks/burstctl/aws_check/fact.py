"""What a fact is: a question about AWS, its price, and the function that measures the answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstctl.aws_check.result import Steps

if TYPE_CHECKING:
    from burstctl.aws_check.fact_context import FactContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a fact creates, at most, for as long as it lasts."""

    instances: int = 0
    gp2_gib: int = 0
    gp3_gib: int = 0
    kms_keys: int = 0
    alarms: int = 0
    metrics_read: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A question that AWS's documentation leaves open.

    After ``minutes`` the fact is stopped, and what it created is deleted. ``actions`` are the IAM actions of
    its own calls. If it ``needs_host``, it uses the shared instance.
    """

    name: str
    question: str
    why: str
    minutes: int
    actions: tuple[str, ...]
    measure: Callable[["FactContext"], Steps]
    cost: Cost = Cost()
    needs_host: bool = False
