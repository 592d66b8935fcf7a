"""botocore as it is, without what it works out again for each client that a test makes.

A process has a handful of clients, these tests make tens of thousands. To read an API's model, to copy the
handlers of events and to look which arguments they take was half of the time that the tests took.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from botocore import hooks, httpsession, useragent
from botocore.client import ClientCreator
from botocore.loaders import Loader
from botocore.model import ServiceModel


def quicken_botocore(patch: pytest.MonkeyPatch) -> None:
    loader = Loader()
    patch.setattr("botocore.session.create_loader", lambda _path: loader)
    patch.setattr(ClientCreator, "_load_service_model", _once(ClientCreator._load_service_model))
    patch.setattr(ClientCreator, "_create_client_class", _once(ClientCreator._create_client_class))
    patch.setattr(hooks._PrefixTrie, "_recursive_copy", _copy)
    patch.setattr(hooks.EventAliaser, "__init__", _alias_together(hooks.EventAliaser.__init__))
    patch.setattr(hooks, "accepts_kwargs", _takes_any(hooks.accepts_kwargs))
    patch.setattr(httpsession, "create_urllib3_context", cache(httpsession.create_urllib3_context))
    sanitize = "sanitize_user_agent_string_component"
    patch.setattr(useragent, sanitize, cache(getattr(useragent, sanitize)))


def _once(make: Callable[..., Any]) -> Callable[..., Any]:
    """What is made of a service, the same for every client: nothing changes it later."""
    clients = dict[Any, Any]()

    def make_once(creator: ClientCreator, service: str, *args: Any, **kwargs: Any) -> Any:
        key = service, ServiceModel.resolved_protocol  # which a test may set
        if key not in clients:
            clients[key] = make(creator, service, *args, **kwargs)
        return clients[key]

    return make_once


def _copy(_trie: Any, node: dict[str, Any]) -> dict[str, Any]:
    """The same as botocore's, without `copy.copy` for each list."""
    return {
        key: hooks.NodeList(value.first[:], value.middle[:], value.last[:])
        if isinstance(value, hooks.NodeList)
        else _copy(_trie, value)
        if isinstance(value, dict)
        else value
        for key, value in node.items()
    }


def _alias_together(begin: Callable[..., None]) -> Callable[..., None]:
    """Every client calls an event by the same name."""
    names = dict[str, str]()

    def begin_with_names(aliaser: Any, emitter: Any, aliases: Any = None) -> None:
        begin(aliaser, emitter, aliases)
        if aliaser._event_aliases == hooks.EVENT_ALIASES:
            aliaser._alias_name_cache = names

    return begin_with_names


def _takes_any(look: Callable[..., Any]) -> Callable[..., Any]:
    """Whether a handler takes whatever it is given: its code says so without its signature."""

    def takes_any(handler: Any) -> Any:
        code = getattr(handler, "__code__", None)
        return look(handler) if code is None else code.co_flags & inspect.CO_VARKEYWORDS

    return takes_any
