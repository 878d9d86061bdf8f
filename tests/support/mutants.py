"""Whether tests notice a change of the program: planted errors, each in a copy of the checkout, and the tests that kill them.

    python -m tests.support.mutants --mutants 60 --packages index/decide streamer/service --seed 1 -- --tier test tests/index

Everything behind `--` goes to pytest. The same seed plants the same errors, so two suites can be compared. A run prints
each error with the test that fails by it, and the survivors last.
"""

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT

LEFT_BEHIND = (".git", ".venv", ".venv-flink", "build", "site", ".hypothesis", ".mypy_cache", ".ruff_cache")
PASSED, NO_TESTS = 0, 5

OTHER_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OTHER_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


class Mutant(NamedTuple):
    """A planted error: the file, its line, what stood there, what stands there now, and the whole new text."""

    file: Path
    line: int
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}  {self.before}  ->  {self.after}"


def changed(node: ast.AST) -> ast.AST | None:
    """The node with an error in it, None where none of the kinds fits."""
    other = copy.deepcopy(node)
    if isinstance(other, ast.Compare) and type(other.ops[0]) in OTHER_COMPARISON:
        other.ops[0] = OTHER_COMPARISON[type(other.ops[0])]()
    elif isinstance(other, ast.BoolOp):
        other.op = ast.Or() if isinstance(other.op, ast.And) else ast.And()
    elif isinstance(other, ast.BinOp) and type(other.op) in OTHER_OPERATOR:
        other.op = OTHER_OPERATOR[type(other.op)]()
    elif isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not):
        return other.operand
    elif isinstance(other, ast.IfExp):
        other.body, other.orelse = other.orelse, other.body
    elif isinstance(other, ast.Expr) and isinstance(other.value, ast.Call):
        return ast.Pass()
    else:
        return None
    return other


class _Replacing(ast.NodeTransformer):
    def __init__(self, node: ast.AST, other: ast.AST) -> None:
        self._node, self._other = node, other

    def visit(self, node: ast.AST) -> ast.AST:
        return self._other if node is self._node else self.generic_visit(node)


def in_annotations(tree: ast.Module) -> set[int]:
    """Nodes of types: an error there changes nothing that runs."""
    roots = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
    return {id(node) for root in roots if root is not None for node in ast.walk(root)}


def mutants_of(file: Path) -> Iterator[Mutant]:
    """All errors that can be planted in a file, one at a time."""
    source = file.read_text(encoding="utf-8")
    first = ast.parse(source)
    types = in_annotations(first)
    for place, node in enumerate(ast.walk(first)):
        if id(node) not in types and (other := changed(node)) is not None:
            tree = ast.parse(source)
            original = next(each for number, each in enumerate(ast.walk(tree)) if number == place)
            text = ast.unparse(ast.fix_missing_locations(_Replacing(original, other).visit(tree)))
            yield Mutant(file, getattr(node, "lineno", 0), ast.unparse(node), ast.unparse(other), text)


def drawn(packages: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """So many errors in the modules of some folders: modules take turns, so that a long one has no more than others."""
    dice = random.Random(seed)
    files = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    dice.shuffle(files)
    piles = [pile for pile in ([*mutants_of(path)] for path in files) if pile]
    for pile in piles:
        dice.shuffle(pile)
    turns = [pile[turn] for turn in range(max(map(len, piles), default=0)) for pile in piles if turn < len(pile)]
    return turns[:count]


def killer_of(mutant: Mutant, checkout: Path, options: Sequence[str]) -> str:
    """A test that fails with the error in the copy of the checkout, none if all pass. Takes the error out again.

    The tests of the module's own file run first: most errors end there.
    """
    module = mutant.file.relative_to(ROOT)
    target, own = checkout / module, checkout / "tests" / module.parent / f"test_{module.name}"
    before = target.read_bytes()
    target.write_text(mutant.text, encoding="utf-8")
    flags = [word for word in options if not (checkout / word).exists()]
    try:
        return (own.exists() and first_failure(checkout, [*flags, str(own)])) or first_failure(checkout, options)
    finally:
        target.write_bytes(before)


def first_failure(checkout: Path, options: Sequence[str]) -> str:
    """The first test that fails in a checkout, none if all pass that pytest runs with these options."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode in {PASSED, NO_TESTS}:
        return ""
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return named[1] if named else f"exit code {done.returncode}"


def main(arguments: Sequence[str]) -> int:
    """Plant the errors and say which ones live. Exit with 1 if one does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=60, help="how many errors to plant")
    parser.add_argument("--packages", nargs="+", required=True, help="folders of the modules that get them")
    parser.add_argument("--seed", type=int, default=1, help="which errors")
    options, tests = parser.parse_known_args(arguments)
    chosen = [word for word in tests if word != "--"]
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        # Times of files stay: machine code that numba keeps is valid in the copy.
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
        for number, mutant in enumerate(drawn(options.packages, options.mutants, options.seed), start=1):
            killer = killer_of(mutant, checkout, chosen)
            survivors += [] if killer else [mutant]
            print(f"{number:3} {mutant}\n    {killer or 'ALIVE'}", flush=True)
    print(f"{len(survivors)} of {options.mutants} live", *survivors, sep="\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
