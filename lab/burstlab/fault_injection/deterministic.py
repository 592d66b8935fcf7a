"""A run without threads and by one clock: all happens in one order, so that it can be repeated."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any, Final, Self
from unittest.mock import patch

from burstwatch.adapters.aws import cloudwatch, metric_history
from burstwatch.adapters.ledger import dynamodb_table
from burstwatch.adapters.policy import parameter_store
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.engine import flip_executor, watch_pass

_WITH_THREADS: Final = (flip_executor, cloudwatch, metric_history, dynamodb_table)


class Inline:
    """In place of a pool of threads: what is submitted is done before it is answered."""

    def __init__(self, *_: object, **__: object) -> None:
        """As a pool is made."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to do."""

    def submit(self, do: Callable[..., Any], *given: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(do(*given))
        except BaseException as error:  # noqa: BLE001 - handed on to who asks for the result
            future.set_exception(error)
        return future

    def map(self, do: Callable[..., Any], *given: Any) -> Iterator[Any]:
        return map(do, *given)

    def shutdown(self, **_: object) -> None:
        """Nothing is left to do."""


@contextmanager
def alone(clock: Callable[[], float]) -> Iterator[None]:
    """Let nothing happen at the same time, and a policy be read once, which always says the same.

    How long a pass or an intent has waited is told by ``clock``, like all else.
    """
    with ExitStack() as changed:
        for module in _WITH_THREADS:
            changed.enter_context(patch.object(module, "ThreadPoolExecutor", Inline))
        for passing in (flip_executor, watch_pass):
            changed.enter_context(patch.object(passing, "monotonic", clock))
        changed.enter_context(
            patch.object(flip_executor, "_Task", partial(vars(flip_executor)["_Task"], monotonic=clock))
        )
        changed.enter_context(patch.object(parameter_store, "parse_policy", _parse))
        yield


@cache
def _parse(document: bytes, *, source: str) -> Any:
    return parse_policy(document, source=source)
