"""Every example in a docstring prints what it shows, and every public class shows one.

An example may use `folder`, which is empty, and in the index `opened`, the internals of an empty index.
"""

import ast
import doctest
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from index import Index, Parameters
from index.index import internals_of
from tests.support.paths import ROOT

SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
    for package in ("index", "streamer")
    for path in sorted((ROOT / package).rglob("*.py"))
}
WITH_EXAMPLES = [name for name, source in SOURCES.items() if ">>> " in source]
MAP_BYTES = 2**24


@contextmanager
def names(example: doctest.DocTest, folder: Path) -> Iterator[dict[str, object]]:
    """What an example may use in addition to its module's names."""
    folder.mkdir()
    if not example.name.startswith("index.") or not any("opened" in step.source for step in example.examples):
        yield {"folder": folder}
        return
    with Index.open(folder / "index", Parameters(), map_bytes_max=MAP_BYTES) as index:
        yield {"folder": folder, "opened": internals_of(index)}


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_print_what_they_show(name: str, tmp_path: Path) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        with names(example, tmp_path / example.name) as further:
            example.globs |= further
            runner.run(example)

    assert runner.tries
    assert not runner.failures


def test_a_wrong_example_is_noticed() -> None:
    """The test of the test above."""
    parser = doctest.DocTestParser()
    wrong = parser.get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)

    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda _: None).failed == 1


@cache
def tree(module: str) -> ast.Module:
    """The syntax of a module."""
    return ast.parse(SOURCES[module])


@cache
def classes() -> dict[str, ast.ClassDef]:
    """Every public class, by its full name."""
    return {
        f"{module}.{node.name}": node
        for module in SOURCES
        for node in tree(module).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


WITHOUT_EXAMPLE_BY_BASE = {"BaseModel", "Exception", "Protocol", "ValueError"}
"""Bases whose classes need no example: settings have a page, errors a message, protocols no behaviour."""

COMPILER = "index.kernels.jit"
"""Its importers hold compiled loops; their classes are columns that the loops read, and the loops' callers show them."""

SERVERS = {"confluent_kafka", "kafka", "pyflink", "scrapy", "starlette", "uvicorn"}
"""Clients and servers: a class whose module imports one needs a broker, a cluster, a crawler or a browser."""

WITHOUT_EXAMPLE: set[str] = {
    "streamer.settings.types.CalledHtml",
    "streamer.settings.types.CalledPlain",
    "streamer.settings.types.PlainText",
    "streamer.transports.files.columns.Undecoded",
    "index.dataflow.ages.Ages",
    "index.dataflow.ages.Place",
    "index.dataflow.ledger.Leaves",
    "index.dataflow.ledger.Ledger",
    "index.dataflow.message.Floor",
    "index.dataflow.resolving.forgotten.ForgottenNames",
    "index.dataflow.resolving.given_back.GivenBack",
    "index.dataflow.resolving.kept_rows.KeptRows",
    "index.dataflow.resolving.horizon.Horizon",
    "index.dataflow.resolving.page_states.KnownPages",
    "index.dataflow.resolving.retention.RetentionState",
    "index.dataflow.rows.Retained",
    "index.dataflow.buckets.in_place.Buckets",
    "index.dataflow.buckets.in_place.Opened",
    "index.dataflow.buckets.segment.Segment",
    "index.dataflow.buckets.segmented.Found",
    "index.dataflow.buckets.segmented.SegmentedBuckets",
    "index.dataflow.claim.Claim",
    "index.dataflow.resolving.fates.Fates",
    "index.dataflow.resolving.fates.FateStore",
    "index.dataflow.resolving.known.Known",
    "index.dataflow.resolving.known.Gatherer",
    "index.dataflow.resolving.deciding.Concluded",
    "index.dataflow.resolving.page_states.PageState",
    "index.dataflow.resolving.page_states.PageStates",
    "index.dataflow.versions.Versions",
    "index.dataflow.filing.Filing",
    "index.dataflow.flow.Dataflow",
    "index.dataflow.frame.Frame",
    "index.dataflow.join.Join",
    "index.dataflow.message.Stage",
    "index.dataflow.message.Kind",
    "index.dataflow.message.Message",
    "index.dataflow.message.Seeds",
    "index.dataflow.message.Arrival",
    "index.dataflow.message.Decided",
    "index.dataflow.name.Name",
    "index.dataflow.order.Recorded",
    "index.dataflow.order.Order",
    "index.dataflow.recall.Recall",
    "index.dataflow.resolve.Resolve",
    "index.dataflow.rows.Layout",
    "index.dataflow.verify.Verify",
    "streamer.give_back.give_back.GiveBack",
    "streamer.service.index_steps.ByIndex",
    "streamer.service.protecting.Entering",
}
"""Public classes that should have an example. The list only shrinks."""


def name_of(node: ast.expr) -> str:
    """The last name of a base or an annotation: `Generic[Kind]` -> `Generic`."""
    return ast.unparse(node).partition("[")[0].rpartition(".")[2]


def bases(node: ast.ClassDef) -> set[str]:
    """Names of all bases, also of bases of bases."""
    direct = {name_of(base) for base in node.bases}
    further = (bases(other) for other in classes().values() if other.name in direct and other is not node)
    return direct.union(*further)


@cache
def imported(module: str) -> set[str]:
    """Modules, or names in modules, that a module imports."""
    nodes = list(ast.walk(tree(module)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


@cache
def talks() -> set[str]:
    """Modules that talk to a server."""
    return {module for module in SOURCES if {name.split(".")[0] for name in imported(module)} & SERVERS}


def takes_a_transport(node: ast.ClassDef) -> bool:
    """Whether its constructor, or a field of its, takes a transport: only a running service has one."""
    constructors = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    annotations = [argument.annotation for each in constructors for argument in each.args.args]
    annotations += [each.annotation for each in node.body if isinstance(each, ast.AnnAssign)]
    return any(each is not None and name_of(each).endswith("Transport") for each in annotations)


def needs_no_example(full_name: str) -> bool:
    node, module = classes()[full_name], full_name.rpartition(".")[0]
    used = imported(module)
    of_a_server = module in talks() or used & talks() or takes_a_transport(node)
    return bool(of_a_server or COMPILER in used or bases(node) & WITHOUT_EXAMPLE_BY_BASE)


def has_example(full_name: str) -> bool:
    return ">>> " in (ast.get_docstring(classes()[full_name]) or "")


def test_every_public_class_shows_an_example_or_needs_a_server() -> None:
    lacking = {name for name in classes() if not has_example(name) and not needs_no_example(name)}

    assert not lacking - WITHOUT_EXAMPLE, "show in their docstrings what they are for"
    assert not WITHOUT_EXAMPLE - lacking, "these have an example, need none, or are gone: take them from the list"


def test_few_classes_need_no_example() -> None:
    """The test of the test above: what is exempt is known by a reason, and everything else counts."""
    assert needs_no_example("streamer.settings.settings.Topics")
    assert needs_no_example("index.errors.IndexFullError")
    assert needs_no_example("streamer.transports.transport.Transport")
    assert needs_no_example("streamer.transports.kafka.writer.Writer")
    assert needs_no_example("streamer.service.recovery.Recoverer")
    assert needs_no_example("index.kernels.scan.Probes")
    assert not needs_no_example("index.index.Index")
    assert not needs_no_example("streamer.ask.filter.Filter")
    assert sum(map(needs_no_example, classes())) < 0.35 * len(classes())
