"""The small faults that can be put into a module, one at a time, and the code that has them."""

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

OTHER_SIDE = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
"""A comparison moved by one, and turned round."""

OTHER_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

OTHER_CALL = {"min": "max", "max": "min", "any": "all", "all": "any"}

HEADS = (ast.FunctionDef, ast.ClassDef, ast.If, ast.While, ast.For, ast.With, ast.Try)
"""Statements that hold others: what is faulty in one of these is in its head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault: ``new`` in place of what ``parent`` has in ``field``, at ``index`` where that is a list.

    ``function`` is the outermost function around it, ``runs_at_import`` whether it is outside every body.
    """

    module: str
    function: str
    text: str
    change: str
    nth: int
    lines: range
    first_line: int
    runs_at_import: bool
    top: ast.stmt
    parent: ast.AST
    field: str
    index: int | None
    new: ast.AST

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What tells it from all others, also when lines are added above it."""
        return self.module, self.function, self.text, self.change, self.nth

    @property
    def constant(self) -> str:
        """The name that the module gives to what is faulty; empty where it is something else."""
        match self.top:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return name
        return ""

    def __str__(self) -> str:
        where = f"{self.module}:{self.lines.start} {self.function or '(import)'}"
        return f"{where}: {self.change}   in: {self.text}"


@dataclass
class _Where:
    function: ast.FunctionDef | None = None
    name: str = ""
    top: ast.stmt | None = None
    statement: ast.AST | None = None


class Faults:
    """Every fault of one module."""

    def __init__(self, path: Path, module: str) -> None:
        self.path = path
        self.module = module
        self.source = path.read_text()
        self.tree = ast.parse(self.source)
        self._lines = self.source.splitlines()
        self._seen: Counter[tuple[str, ...]] = Counter()
        self.mutants: list[Mutant] = []
        for statement in self.tree.body:
            self._visit(statement, self.tree, "body", None, _Where(top=statement))

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[ast.Module]:
        """The tree of the module with the fault in it."""
        held = getattr(mutant.parent, mutant.field)
        old = held if mutant.index is None else held[mutant.index]
        _put(mutant.parent, mutant.field, mutant.index, mutant.new)
        try:
            yield self.tree
        finally:
            _put(mutant.parent, mutant.field, mutant.index, old)

    def compile_module(self, mutant: Mutant) -> CodeType:
        with self.planted(mutant) as tree:
            return compile(tree, self.path, "exec")

    def compile_constant(self, mutant: Mutant) -> CodeType:
        """What the module gives a name to, as an expression."""
        with self.planted(mutant):
            return compile(ast.Expression(mutant.top.value), self.path, "eval")

    def lines_with(self, name: str) -> set[int]:
        """Where a name is read."""
        return {node.lineno for node in ast.walk(self.tree) if isinstance(node, ast.Name) and node.id == name}

    def compile_function(self, mutant: Mutant) -> CodeType:
        """The code of the outermost function around the fault."""
        with self.planted(mutant):
            module = ast.Module(body=[mutant.top], type_ignores=[])
            return next(
                code
                for code in codes_within(compile(module, self.path, "exec"))
                if code.co_firstlineno == mutant.first_line and code.co_qualname == mutant.function
            )

    def _visit(self, node: ast.AST, parent: ast.AST, field: str, index: int | None, where: _Where) -> None:
        if _is_out_of_bounds(node, field):
            return
        if isinstance(node, ast.stmt):
            where = _Where(where.function, where.name, where.top, node)
        for new, change in _faults(node, parent, field):
            self._add(new, change, parent, field, index, where)
        inside = where
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and where.function is None:
            name = f"{where.name}.{node.name}".lstrip(".")
            body_of = node if isinstance(node, ast.FunctionDef) else None
            inside = _Where(body_of, name, where.top, node)
        for name, value in ast.iter_fields(node):
            deeper = inside if name == "body" else where
            if isinstance(value, list):
                for place, child in enumerate(value):
                    if isinstance(child, ast.AST):
                        self._visit(child, node, name, place, deeper)
            elif isinstance(value, ast.AST):
                self._visit(value, node, name, None, deeper)

    def _add(
        self, new: ast.AST, change: str, parent: ast.AST, field: str, index: int | None, where: _Where
    ) -> None:
        statement = where.statement
        last = statement.body[0].lineno - 1 if isinstance(statement, HEADS) else statement.end_lineno
        function = where.function
        text = " ".join(self._lines[statement.lineno - 1].split())
        name = where.name if function else ""
        self._seen[name, text, change] += 1
        self.mutants.append(
            Mutant(
                module=self.module,
                function=name,
                text=text,
                change=change,
                nth=self._seen[name, text, change],
                lines=range(statement.lineno, max(statement.lineno, last) + 1),
                first_line=_first_line(function) if function else 0,
                runs_at_import=function is None,
                top=where.top,
                parent=parent,
                field=field,
                index=index,
                new=ast.fix_missing_locations(new),
            )
        )


def codes_within(code: CodeType) -> Iterator[CodeType]:
    """A code object and all within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_within(constant)


def _first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _put(parent: ast.AST, field: str, index: int | None, value: ast.AST) -> None:
    if index is None:
        setattr(parent, field, value)
    else:
        getattr(parent, field)[index] = value


def _is_out_of_bounds(node: ast.AST, field: str) -> bool:
    """What is not run, or only says something to mypy and to readers."""
    return (
        isinstance(node, (ast.Assert, ast.Import, ast.ImportFrom))
        or field in {"annotation", "returns", "decorator_list"}
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    )


def _faults(node: ast.AST, parent: ast.AST, field: str) -> Iterator[tuple[ast.AST, str]]:
    """Each thing to be had in place of a node, with its words."""
    for new in _expressions(node):
        yield ast.copy_location(new, node), f"{_short(node)} -> {_short(new)}"
    if field == "test" or (field == "ifs" and isinstance(parent, ast.comprehension)):
        endless = isinstance(parent, ast.While)
        for value in [False] if endless else [True, False]:
            if not isinstance(node, ast.Constant):
                yield ast.copy_location(ast.Constant(value), node), f"{_short(node)} -> {value}"
    yield from _statements(node)


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for place, operator in enumerate(ops):
                for other in OTHER_SIDE[type(operator)]:
                    yield _with(node, ops=[*ops[:place], other(), *ops[place + 1 :]])
        case ast.BinOp(op=operator) if type(operator) in OTHER_ARITHMETIC and not _is_of_types(node):
            yield _with(node, op=OTHER_ARITHMETIC[type(operator)]())
        case ast.BoolOp(op=operator):
            yield _with(node, op=ast.And() if isinstance(operator, ast.Or) else ast.Or())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Call(func=ast.Name(id=name)) if name in OTHER_CALL:
            yield _with(node, func=ast.copy_location(ast.Name(OTHER_CALL[name], ast.Load()), node.func))


def _statements(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield _with(node, value=ast.copy_location(ast.Constant(None), value)), "return None"
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete() if not _asserts_never(node):
            yield ast.copy_location(ast.Pass(), node), f"without {_short(node)}"
        case ast.Break():
            yield ast.copy_location(ast.Continue(), node), "break -> continue"
        case ast.Continue():
            yield ast.copy_location(ast.Break(), node), "continue -> break"
        case ast.match_case(guard=guard, body=[first, *_]) if not _asserts_never(first):
            words = f"case {_short(node.pattern)}"
            if guard is None and not _is_default(node.pattern):
                yield (
                    _with(node, guard=ast.copy_location(ast.Constant(False), node.pattern)),
                    f"without {words}",
                )


def _is_of_types(node: ast.BinOp) -> bool:
    """Whether this is a union of types, as in isinstance."""
    return isinstance(node.op, ast.BitOr) and all(
        isinstance(side, (ast.Name, ast.Attribute, ast.Constant)) for side in (node.left, node.right)
    )


def _is_default(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _asserts_never(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("assert_never")


def _with(node: ast.AST, **changes) -> ast.AST:
    new = copy(node)
    for name, value in changes.items():
        setattr(new, name, value)
    return new


def _short(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())
