"""The part of DynamoDB's expressions that the ledger uses, read strictly."""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, TypeAlias

Item: TypeAlias = dict[str, dict[str, Any]]
Test: TypeAlias = Callable[[Mapping[str, Any]], bool]

_TOKEN: Final = re.compile(r"\s*(:?\w+|<>|<=|>=|[=<>(),])")
_COMPARISONS: Final = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_MAX_DIGITS: Final = 38  # Source: DynamoDB developer guide, "Data types", Number


class ExpressionError(Exception):
    """An expression that DynamoDB would refuse, or that the lab does not support."""


@cache
def reserved_words() -> frozenset[str]:
    """DynamoDB's reserved words, which an expression may not contain. Source: DynamoDB developer guide."""
    text = files("moto.dynamodb.parsing").joinpath("reserved_keywords.txt").read_text()
    return frozenset(text.split())


class Condition:
    """``a = :b AND (attribute_exists(c) OR …)``; ``used`` are values that another expression uses."""

    def __init__(self, text: str, values: Mapping[str, Any], *, used: Iterable[str] = ()) -> None:
        self._reader = _TokenReader(text, values)
        self._test = self._parse_or() if text else _always_true
        self._reader.expect_end()
        if unused := values.keys() - self._reader.used - set(used):
            raise ExpressionError(f"Value provided in ExpressionAttributeValues unused: {sorted(unused)}")

    def holds(self, item: Mapping[str, Any]) -> bool:
        return self._test(item)

    def _parse_or(self) -> Test:
        tests = [self._parse_and()]
        while self._reader.accept("OR"):
            tests.append(self._parse_and())
        return lambda item: any(test(item) for test in tests)

    def _parse_and(self) -> Test:
        tests = [self._parse_term()]
        while self._reader.accept("AND"):
            tests.append(self._parse_term())
        return lambda item: all(test(item) for test in tests)

    def _parse_term(self) -> Test:
        reader = self._reader
        if reader.accept("("):
            inner = self._parse_or()
            reader.expect(")")
            return inner
        token = reader.next()
        if token in ("attribute_exists", "attribute_not_exists"):
            reader.expect("(")
            name = reader.name()
            reader.expect(")")
            return lambda item: (name in item) is (token == "attribute_exists")  # noqa: S105 - a token of the grammar
        name, compare, value = reader.name(token), _COMPARISONS[reader.next()], reader.value()
        return lambda item: _compares(compare, item.get(name), value)


class UpdateExpression:
    """``SET a = :b, … REMOVE c, … ADD d :e, …``."""

    def __init__(self, text: str, values: Mapping[str, Any]) -> None:
        self._reader = _TokenReader(text, values)
        self._steps: list[Callable[[Item], object]] = []
        while not self._reader.is_at_end:
            clause = self._reader.next()
            self._steps.append(self._parse_step(clause))
            while self._reader.accept(","):
                self._steps.append(self._parse_step(clause))
        self.used = self._reader.used

    def apply(self, item: Item) -> Item:
        """Change the item."""
        for step in self._steps:
            step(item)
        return item

    def _parse_step(self, clause: str) -> Callable[[Item], object]:
        reader, name = self._reader, self._reader.name()
        match clause:
            case "SET":
                reader.expect("=")
                value = reader.value()
                return lambda item: item.update({name: value})
            case "REMOVE":
                return lambda item: item.pop(name, None)
            case "ADD":
                value = reader.value()
                return lambda item: item.update({name: _add(item.get(name), value)})
        raise ExpressionError(f"the lab does not know {clause} in an UpdateExpression")


class _TokenReader:
    """The words of an expression, one after the other."""

    def __init__(self, text: str, values: Mapping[str, Any]) -> None:
        self._tokens = _TOKEN.findall(text)
        if "".join(self._tokens) != re.sub(r"\s+", "", text):
            raise ExpressionError(f"Invalid expression: {text}")
        self._values = values
        self.used: set[str] = set()

    @property
    def is_at_end(self) -> bool:
        return not self._tokens

    def next(self) -> str:
        if not self._tokens:
            raise ExpressionError("Invalid expression: it ends too early")
        return str(self._tokens.pop(0))

    def accept(self, token: str) -> bool:
        is_next = bool(self._tokens) and self._tokens[0] == token
        if is_next:
            self._tokens.pop(0)
        return is_next

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise ExpressionError(f"Invalid expression: {token} expected before {self._tokens[:1]}")

    def expect_end(self) -> None:
        if self._tokens:
            raise ExpressionError(f"Invalid expression: unexpected {self._tokens}")

    def name(self, token: str = "") -> str:
        identifier = token or self.next()
        if identifier.upper() in reserved_words() or not re.fullmatch(r"[A-Za-z]\w*", identifier):
            raise ExpressionError(f"Invalid expression: {identifier} is reserved or no name")
        return identifier

    def value(self) -> dict[str, Any]:
        placeholder = self.next()
        if placeholder not in self._values:
            raise ExpressionError(f"An expression attribute value is not defined: {placeholder}")
        self.used.add(placeholder)
        return dict(self._values[placeholder])


def _always_true(_item: Mapping[str, Any]) -> bool:
    return True


def _compares(
    compare: Callable[[Any, Any], bool], attribute: dict[str, Any] | None, value: dict[str, Any]
) -> bool:
    if attribute is None or attribute.keys() != value.keys():
        return compare is ne and attribute is not None
    return bool(compare(_comparable(attribute), _comparable(value)))


def _comparable(typed: Mapping[str, Any]) -> Any:
    ((attribute_type, value),) = typed.items()
    return Decimal(value) if attribute_type == "N" else value.encode() if attribute_type == "S" else value


def _add(attribute: dict[str, Any] | None, value: dict[str, Any]) -> dict[str, Any]:
    ((attribute_type, added),) = value.items()
    if attribute and attribute_type not in attribute:
        raise ExpressionError("An operand in the update expression has an incorrect data type")
    match attribute_type:
        case "N":
            total = Decimal((attribute or {"N": "0"})["N"]) + Decimal(added)
            if len(total.as_tuple().digits) > _MAX_DIGITS:
                raise ExpressionError("Number overflow: more than 38 digits")
            return {"N": str(total)}
        case "SS":
            return {"SS": sorted({*(attribute or {"SS": []})["SS"], *added})}
    raise ExpressionError(f"ADD takes numbers and sets, not {attribute_type}")
