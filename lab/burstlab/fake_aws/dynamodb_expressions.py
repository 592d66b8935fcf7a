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
_MOST_DIGITS: Final = 38


class ExpressionError(Exception):
    """An expression that DynamoDB would refuse, or that the lab does not know."""


@cache
def reserved_words() -> frozenset[str]:
    """The names that DynamoDB takes for its own."""
    listed = files("moto.dynamodb.parsing").joinpath("reserved_keywords.txt").read_text()
    return frozenset(listed.split())


class Condition:
    """``a = :b AND (attribute_exists(c) OR …)``; ``used`` are values that another expression names."""

    def __init__(self, text: str, values: Mapping[str, Any], *, used: Iterable[str] = ()) -> None:
        self._reader = _Reader(text, values)
        self._test = self._either() if text else _always
        self._reader.end()
        if unused := values.keys() - self._reader.used - set(used):
            raise ExpressionError(f"Value provided in ExpressionAttributeValues unused: {sorted(unused)}")

    def holds(self, item: Mapping[str, Any]) -> bool:
        return self._test(item)

    def _either(self) -> Test:
        tests = [self._both()]
        while self._reader.takes("OR"):
            tests.append(self._both())
        return lambda item: any(test(item) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._reader.takes("AND"):
            tests.append(self._one())
        return lambda item: all(test(item) for test in tests)

    def _one(self) -> Test:
        reader = self._reader
        if reader.takes("("):
            inner = self._either()
            reader.expect(")")
            return inner
        word = reader.next()
        if word in ("attribute_exists", "attribute_not_exists"):
            reader.expect("(")
            name = reader.name()
            reader.expect(")")
            return lambda item: (name in item) is (word == "attribute_exists")
        name, compare, value = reader.name(word), _COMPARISONS[reader.next()], reader.value()
        return lambda item: _compares(compare, item.get(name), value)


class Update:
    """``SET a = :b, … REMOVE c, … ADD d :e, …``."""

    def __init__(self, text: str, values: Mapping[str, Any]) -> None:
        self._reader = _Reader(text, values)
        self._steps: list[Callable[[Item], object]] = []
        while not self._reader.is_at_end:
            clause = self._reader.next()
            self._steps.append(self._step(clause))
            while self._reader.takes(","):
                self._steps.append(self._step(clause))
        self.used = self._reader.used

    def apply(self, item: Item) -> Item:
        """Change the item."""
        for step in self._steps:
            step(item)
        return item

    def _step(self, clause: str) -> Callable[[Item], object]:
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
                return lambda item: item.update({name: _sum(item.get(name), value)})
        raise ExpressionError(f"the lab does not know {clause} in an UpdateExpression")


class _Reader:
    """The words of an expression, one after the other."""

    def __init__(self, text: str, values: Mapping[str, Any]) -> None:
        self._words = _TOKEN.findall(text)
        if "".join(self._words) != re.sub(r"\s+", "", text):
            raise ExpressionError(f"Invalid expression: {text}")
        self._values = values
        self.used: set[str] = set()

    @property
    def is_at_end(self) -> bool:
        return not self._words

    def next(self) -> str:
        if not self._words:
            raise ExpressionError("Invalid expression: it ends too early")
        return str(self._words.pop(0))

    def takes(self, word: str) -> bool:
        is_next = bool(self._words) and self._words[0] == word
        if is_next:
            self._words.pop(0)
        return is_next

    def expect(self, word: str) -> None:
        if not self.takes(word):
            raise ExpressionError(f"Invalid expression: {word} expected before {self._words[:1]}")

    def end(self) -> None:
        if self._words:
            raise ExpressionError(f"Invalid expression: unexpected {self._words}")

    def name(self, word: str = "") -> str:
        found = word or self.next()
        if found.upper() in reserved_words() or not re.fullmatch(r"[A-Za-z]\w*", found):
            raise ExpressionError(f"Invalid expression: {found} is reserved or no name")
        return found

    def value(self) -> dict[str, Any]:
        placeholder = self.next()
        if placeholder not in self._values:
            raise ExpressionError(f"An expression attribute value is not defined: {placeholder}")
        self.used.add(placeholder)
        return dict(self._values[placeholder])


def _always(_item: Mapping[str, Any]) -> bool:
    return True


def _compares(
    compare: Callable[[Any, Any], bool], found: dict[str, Any] | None, value: dict[str, Any]
) -> bool:
    if found is None or found.keys() != value.keys():
        return compare is ne and found is not None
    return bool(compare(_comparable(found), _comparable(value)))


def _comparable(typed: Mapping[str, Any]) -> Any:
    ((kind, value),) = typed.items()
    return Decimal(value) if kind == "N" else value.encode() if kind == "S" else value


def _sum(found: dict[str, Any] | None, value: dict[str, Any]) -> dict[str, Any]:
    ((kind, added),) = value.items()
    if found and kind not in found:
        raise ExpressionError("An operand in the update expression has an incorrect data type")
    match kind:
        case "N":
            total = Decimal((found or {"N": "0"})["N"]) + Decimal(added)
            if len(total.as_tuple().digits) > _MOST_DIGITS:
                raise ExpressionError("Number overflow: more than 38 digits")
            return {"N": str(total)}
        case "SS":
            return {"SS": sorted({*(found or {"SS": []})["SS"], *added})}
    raise ExpressionError(f"ADD takes numbers and sets, not {kind}")
