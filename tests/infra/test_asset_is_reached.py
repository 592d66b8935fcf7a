"""What is deployed is what a function may run: every module of the asset is imported from a handler."""

import grimp

HANDLERS = "burstwatch.handlers"


def find_unreached_modules(graph: grimp.ImportGraph) -> list[str]:
    """The modules that no handler imports, directly or by others; a package represents its modules."""
    handlers = graph.find_children(HANDLERS)
    reached = set(handlers).union(*(graph.find_upstream_modules(handler) for handler in handlers))
    return sorted(module for module in graph.modules - reached if not graph.find_children(module))


def test_every_module_of_the_asset_is_reached_from_a_handler():
    """What only burstctl uses belongs below runbooks/burstctl."""
    graph = grimp.build_graph("burstwatch", cache_dir=None)
    assert graph.find_children(HANDLERS)
    assert find_unreached_modules(graph) == []


def test_a_module_that_nothing_imports_is_found():
    graph = grimp.ImportGraph()
    graph.add_import(importer=f"{HANDLERS}.watch", imported="burstwatch.engine.tick_pass")
    for module in ("burstwatch", HANDLERS, "burstwatch.engine", "burstwatch.engine.unused"):
        graph.add_module(module)
    assert find_unreached_modules(graph) == ["burstwatch.engine.unused"]
