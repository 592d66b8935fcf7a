"""A run without threads and by one clock: all happens in one order, so that it can be repeated."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, Final, Self
from unittest.mock import patch

from burstwatch.adapters.aws import cloudwatch, metric_history
from burstwatch.adapters.ledger import dynamodb_table
from burstwatch.adapters.policy import parameter_store
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.engine import flip_executor, flip_intent, fresh_context, watch_pass
from burstwatch.engine.collector import Collector
from burstwatch.engine.services import Services

_THREADED_MODULES: Final = (flip_executor, cloudwatch, metric_history, dynamodb_table)


def run_into(future: "Future[Any]", function: Callable[..., Any], *args: Any) -> None:
    """Call the function, whose result or exception becomes that of the future."""
    try:
        future.set_result(function(*args))
    except BaseException as error:  # noqa: BLE001 - handed on to who asks for the result
        future.set_exception(error)


class InlineExecutor:
    """In place of a pool of threads: what is submitted is done before it is answered."""

    def __init__(self, *_: object, **__: object) -> None:
        """As a pool is made."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to do."""

    def submit(self, function: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        run_into(future, function, *args)
        return future

    def map(self, function: Callable[..., Any], *iterables: Any) -> Iterator[Any]:
        return map(function, *iterables)

    def shutdown(self, **_: object) -> None:
        """Nothing is left to do."""


class SimulatedServices(Services):
    """The product's own shell, but its passes take as long as the simulated clock says."""

    __slots__ = ()

    def build_collector(self, now_s: float) -> Collector:
        return replace(super().build_collector(now_s), monotonic=self.clock)


@contextmanager
def deterministic_execution(clock: Callable[[], float]) -> Iterator[None]:
    """Let nothing happen at the same time, and a policy be read once, which always says the same.

    Waiting times of passes and intents are also measured with ``clock``.
    """
    with ExitStack() as patches:
        for module in _THREADED_MODULES:
            patches.enter_context(patch.object(module, "ThreadPoolExecutor", InlineExecutor))
        for timed_module in (flip_executor, flip_intent, fresh_context, watch_pass):
            patches.enter_context(patch.object(timed_module, "monotonic", clock))
        patches.enter_context(patch.object(parameter_store, "parse_policy", parse_policy_once))
        yield


@cache
def parse_policy_once(document: bytes, *, source: str) -> Any:
    """As ``parse_policy``, once for each document."""
    return parse_policy(document, source=source)
