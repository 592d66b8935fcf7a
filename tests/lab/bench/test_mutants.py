"""Which faults `make mutants` plants: one of each kind, as the code that has it."""

import libcst as cst
import pytest

from support.bench_loader import load_bench

FAULTS = [
    ("a < b", {"a <= b"}),
    ("a >= b", {"a > b"}),
    ("a == b", {"a != b"}),
    ("a is b", {"a is not b"}),
    ("a not in b", {"a in b"}),
    ("a + b", {"a - b"}),
    ("a // b", {"a / b"}),
    ("a & b", {"a | b"}),
    ("a and b", {"a or b"}),
    ("not a", {"a"}),
    ("-a", {"+a"}),
    ("True", {"False"}),
    ("5", {"6", "(4)"}),
    ("0", {"1", "(-1)"}),
    ("0.5", {"1.5", "(-0.5)"}),
    ("a if b else c", {"a if (b) or True else c", "a if (b) and False else c"}),
    ("min(a, b)", {"max(a, b)"}),
    ("any(a)", {"all(a)"}),
    ("f(a)", {"f(None)", "pass"}),
    ("[a for a in b if c]", {"[a for a in b if True]", "[a for a in b if False]"}),
    ("a += b", {"a = b", "a -= b", "pass"}),
    ("a = b", {"a = None"}),
    ("del a", {"pass"}),
    ("raise a", {"pass"}),
    ("return a", {"return None"}),
    ("if a:\n    b", {"if True:\n    b", "if False:\n    b"}),
    ("while a:\n    b", {"while False:\n    b"}),
    ("while a: break", {"while a: return"}),
    ("while a: continue", {"while a: break"}),
    ("match a:\n    case 1: b\n    case _: c", {"match a:\n    case _: c"}),
]


@pytest.mark.parametrize(("code", "faults"), FAULTS)
def test_each_kind_of_fault_is_planted(code, faults):
    assert faults <= set(planted(code))


@pytest.mark.parametrize("code", ["'words'", '"""A docstring."""', "return", "return None"])
def test_words_are_left_as_they_are_and_nothing_is_left_out_twice(code):
    assert planted(code) == []


def planted(code):
    """Every faulty version of it, without what only its line end adds."""
    module = cst.parse_module(code)
    return [
        module.deep_replace(node, new).code.strip()
        for node in nodes_below(module)
        for kinds, operator in load_bench("source/mutants").OPERATORS
        if isinstance(node, kinds)
        for new in operator(node)
    ]


def nodes_below(node):
    yield node
    for child in node.children:
        yield from nodes_below(child)
