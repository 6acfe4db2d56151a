"""Find the places of a source that a mutant can change: operators, conditions and constants that a function runs."""

import ast
import copy
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

PACKAGE = pathlib.Path(__file__).parents[1] / "scmsim"
OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change: a replacement of the text between two positions of a file."""

    path: str  # relative to the package
    line: int
    start: int
    stop: int
    old: str
    new: str
    name: str  # name of the function, or of the constant

    @property
    def file(self) -> str:
        """Return the name of the file in code objects."""
        return str(PACKAGE / self.path)


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node with its operator or constant changed, if it has one that can be."""
    changed = copy.copy(node)
    match node:
        case ast.Compare(ops=[op, *rest]) if type(op) in OTHER:
            changed.ops = [OTHER[type(op)](), *rest]
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) if type(op) in OTHER:
            changed.op = OTHER[type(op)]()
        case ast.UnaryOp(op=ast.Not()):
            changed = node.operand
        case ast.Constant(value=bool(value)):
            changed = ast.Constant(not value)
        case ast.Constant(value=int(value)):
            changed = ast.Constant(value + 1)
        case _:
            return
    yield changed


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes that run when a function is called: no annotations, decorators, defaults or texts."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert):
                yield child
                yield from inside(child)


def parts_of(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, node) of named constants, of functions, and of methods."""
    for part in tree.body:
        if (
            isinstance(part, ast.Assign)
            and isinstance(part.value, ast.Constant)
            and isinstance(part.targets[0], ast.Name)
        ):
            yield part.targets[0].id, part
        elif isinstance(part, ast.FunctionDef):
            yield part.name, part
        elif isinstance(part, ast.ClassDef):
            yield from ((f"{part.name}.{each.name}", each) for each in part.body if isinstance(each, ast.FunctionDef))


def mutants_of(path: pathlib.Path) -> Iterator[Mutant]:
    """Yield all mutants of a file: changes of functions and of named constants."""
    text = path.read_bytes()
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for name, part in parts_of(ast.parse(text)):
        for node in inside(part):
            for changed in changes(node):
                start = lines[node.lineno - 1] + node.col_offset
                stop = lines[node.end_lineno - 1] + node.end_col_offset
                new = ast.unparse(changed)
                new = new if isinstance(node, ast.AugAssign) else f"({new})"
                yield Mutant(
                    str(path.relative_to(PACKAGE)),
                    node.lineno,
                    start,
                    stop,
                    text[start:stop].decode(),
                    new,
                    name,
                )
