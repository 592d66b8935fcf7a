"""botocore as it is, without what it works out again for each client and request of a test.

A process has a handful of clients, these tests make tens of thousands. To read an API's model, to copy the
handlers of events and to look which arguments they take was half of the time that the tests took. A lab does
not check signatures, so requests carry one that is not computed.
"""

import inspect
import os
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, cast

import pytest
from botocore import endpoint, hooks, httpsession, parsers, useragent, utils
from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.client import ClientCreator
from botocore.compat import get_current_datetime
from botocore.exceptions import NoCredentialsError
from botocore.loaders import Loader
from botocore.model import ServiceModel


def quicken_botocore(patch: pytest.MonkeyPatch) -> None:
    loader = Loader()
    patch.setattr("botocore.session.create_loader", lambda _path: loader)
    patch.setattr(ClientCreator, "_load_service_model", _once(ClientCreator._load_service_model))
    patch.setattr(ClientCreator, "_create_client_class", _once(ClientCreator._create_client_class))
    patch.setattr(hooks._PrefixTrie, "__copy__", _share_nodes)
    patch.setattr(hooks._PrefixTrie, "append_item", _on_own_nodes(hooks._PrefixTrie.append_item))
    patch.setattr(hooks._PrefixTrie, "remove_item", _on_own_nodes(hooks._PrefixTrie.remove_item))
    patch.setattr(hooks.EventAliaser, "__init__", _alias_together(hooks.EventAliaser.__init__))
    patch.setattr(hooks, "accepts_kwargs", _takes_any(hooks.accepts_kwargs))
    patch.setattr(httpsession, "create_urllib3_context", cache(httpsession.create_urllib3_context))
    sanitize = "sanitize_user_agent_string_component"
    patch.setattr(useragent, sanitize, cache(getattr(useragent, sanitize)))
    replace = "rebuild_and_replace_user_agent_handler"  # by the features of each request
    patch.setattr(useragent.UserAgentString, replace, lambda *_args, **_kwargs: None)
    agent = useragent.UserAgentString
    patch.setattr(agent, "to_string", _once_for_each_config(agent.to_string))
    for module in (endpoint, utils):
        patch.setattr(module, "get_environ_proxies", _if_any_is_set(utils.get_environ_proxies))
    patch.setattr(parsers, "DEFAULT_TIMESTAMP_PARSER", _parse_utc_once(parsers.DEFAULT_TIMESTAMP_PARSER))
    patch.setattr(SigV4Auth, "add_auth", _add_unchecked_signature)


def _once(make: Callable[..., Any]) -> Callable[..., Any]:
    """What is made of a service, the same for every client: nothing changes it later."""
    clients = dict[Any, Any]()

    def make_once(creator: ClientCreator, service: str, *args: Any, **kwargs: Any) -> Any:
        key = service, ServiceModel.resolved_protocol  # which a test may set
        if key not in clients:
            clients[key] = make(creator, service, *args, **kwargs)
        return clients[key]

    return make_once


def _once_for_each_config(build: Callable[[Any], str]) -> Callable[[Any], str]:
    """The user agent of a client, which is the same in each of its requests."""

    def build_once(agent: Any) -> str:
        built = agent.__dict__.get("built")
        if built is None or built[0] is not agent._client_config:  # a copy for another client has it too
            built = agent.built = agent._client_config, build(agent)
        return cast("str", built[1])

    return build_once


def _share_nodes(trie: Any) -> Any:
    """A copy that has the nodes of the original; what changes one of them makes its own before."""
    copied = trie.__class__()
    copied._root = trie._root
    return copied


def _on_own_nodes(change: Callable[..., None]) -> Callable[..., None]:
    """Change an item after copying the nodes on the way to it, which other tries may share."""

    def change_own(trie: Any, key: str, *args: Any, **kwargs: Any) -> None:
        node = trie._root = _copy_node(trie._root)
        for part in key.split("."):
            child = node["children"].get(part)
            if child is None:
                break
            node["children"][part] = node = _copy_node(child)
        change(trie, key, *args, **kwargs)

    return change_own


def _copy_node(node: dict[str, Any]) -> dict[str, Any]:
    values = node["values"]
    own_values = values and hooks.NodeList(values.first[:], values.middle[:], values.last[:])
    return {"chunk": node["chunk"], "children": node["children"].copy(), "values": own_values}


def _add_unchecked_signature(auth: SigV4Auth, request: AWSRequest) -> None:
    """The headers of a signed request, without the signature itself: the lab and moto do not check it."""
    if auth.credentials is None:
        raise NoCredentialsError
    request.context["timestamp"] = get_current_datetime().strftime(SIGV4_TIMESTAMP)
    auth._modify_request_before_signing(request)
    auth._inject_signature_to_request(request, "0" * 64)


_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def _if_any_is_set(look: Callable[[str], Any]) -> Callable[[str], Any]:
    """The proxies of the environment, which is searched only if it has one."""

    def proxies_of(url: str) -> Any:
        is_set = any(name in os.environ or name.upper() in os.environ for name in _PROXIES)
        return look(url) if is_set else {}

    return proxies_of


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


def _parse_utc_once(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same times of creation and attachment are in every answer. Others depend on the local time zone."""
    parse_once = lru_cache(maxsize=4096)(parse)
    return lambda value: (parse_once if isinstance(value, str) and value.endswith("Z") else parse)(value)
