"""Rules of the project that no linter knows, checked over the source tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rcusim
from rcusim._jit import KERNEL_FILES

PACKAGE = Path(rcusim.__file__).parent

FLOORS = {
    "errors": 0, "units": 0, "probes": 0, "abc": 0, "_jit": 0,
    "engine": 1, "formats": 1,
    "machine": 2,
    "slab": 3, "rcu": 3,
    "reclaim": 4,
    "workloads": 5, "oracles": 5,
    "scenario": 6, "simulation": 6, "results": 6,
    "explore": 7, "campaign": 7, "record": 7, "views": 7,
    "testing": 8, "cli": 8, "__main__": 9, "__init__": 9,
}  # fmt: skip

# rooms of one floor that may see each other
NEIGHBOURS = {
    ("_jit", "abc"),
    ("simulation", "scenario"),
    ("simulation", "results"),
    ("results", "scenario"),
}

MODEL = ("engine", "machine", "slab", "rcu", "reclaim", "workloads", "oracles", "simulation")
FORBIDDEN_IN_MODEL = {"random", "time", "secrets", "uuid", "datetime"}
LONGEST_FUNCTION_LINES = 70


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module
            if node.module == "rcusim":
                for alias in node.names:
                    yield node.lineno, f"rcusim.{alias.name}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    mine = room(path)
    assert mine in FLOORS, f"{mine} is on no floor"
    for line, name in imported(ast.parse(path.read_text())):
        if not name.startswith("rcusim."):
            continue
        theirs = name.split(".")[1]
        if theirs in {mine, "__version__"} or (mine, theirs) in NEIGHBOURS:
            continue
        assert FLOORS.get(theirs, 99) < FLOORS[mine], f"{path.name}:{line}: {mine} imports {theirs}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_model_has_no_clock_and_no_dice_of_its_own(path: Path) -> None:
    allowed = (
        {"time"} if path.name == "run.py" else set()
    )  # the host's clock is read around a run only
    if room(path) in MODEL:
        for line, name in imported(ast.parse(path.read_text())):
            assert name.split(".")[0] not in FORBIDDEN_IN_MODEL - allowed, (
                f"{path.name}:{line}: {name}"
            )


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_everything_public_is_documented_and_functions_are_short(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), f"{path.name} has no docstring"
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not isinstance(node, ast.ClassDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= LONGEST_FUNCTION_LINES, (
                f"{path.name}:{node.lineno} {node.name}: {lines} lines"
            )


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_float_arithmetic_on_time(path: Path) -> None:
    if room(path) not in MODEL:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            text = ast.unparse(node)
            assert "_ns" not in text or path.name == "run.py", f"{path.name}:{node.lineno}: {text}"


def test_every_kernel_is_in_the_hash_of_the_compile_cache() -> None:
    with_kernels = {
        str(path.relative_to(PACKAGE))
        for path in sources()
        if any(line.strip() == "@kernel" for line in path.read_text().splitlines())
    }
    assert with_kernels <= set(KERNEL_FILES)
    assert set(KERNEL_FILES) <= with_kernels | {"_jit.py"}
