"""The house's rules. A rule that is not a test does not exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("streamer", "index")
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

ONLY_IMPORTERS = {
    "kafka": {
        "streamer.broker",
        "streamer.broker_changelog",
        "streamer.broker_clients",
        "streamer.broker_topics",
        "streamer.broker_transactions",
    },
    "lmdb": {"index.copies", "index.store"},
    "jieba": {"streamer.segmentation"},
    "prometheus_client": {"streamer.metrics"},
    "opencc": {"streamer.normalisation"},
    "numba": {"index.machine_code"},
    "selectolax": {"streamer.normalisation"},
    "trafilatura": {"streamer.main_text"},
}

LAYERS = (
    ("__main__",),
    ("cli",),
    ("compilation", "demo", "index_cli", "method_commands"),
    ("evaluation_report",),
    ("calibration",),
    ("demo_changes", "demo_differences"),
    ("demo_documents", "supervisor", "backfill", "evaluation_sets", "idf", "sample"),
    ("worker", "summary", "index_export", "index_rebuild", "index_tables"),
    ("wiring", "board", "observe", "index_tools"),
    ("service",),
    ("recovery",),
    ("pipeline",),
    ("broker", "files", "metrics", "logs", "setting_reference"),
    ("broker_transactions",),
    ("broker_changelog", "broker_topics", "delivered_lines"),
    ("broker_clients", "output_folder", "line_reader"),
    ("route", "evaluation"),
    ("scheme",),
    ("minhash",),
    ("document", "fingerprint"),
    ("word_factors", "sketches"),
    ("hashing", "simhash"),
    ("word_tables", "normalisation", "features"),
    ("weights", "segmentation", "shingles", "simhash_kernels"),
    ("word_kernels", "cutting_kernels", "minhash_kernels"),
    ("text",),
    ("transport", "text_kernels"),
    ("record", "reason", "config"),
    ("method_settings",),
    ("kafka_settings", "look_settings"),
    ("setting_values", "setting_types", "recipes", "main_text"),
    ("errors",),
)


def modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).glob("*.py")):
            yield f"{package}.{path.stem}", path


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


ALL_MODULES = dict(modules())


@pytest.mark.parametrize("client", sorted(ONLY_IMPORTERS))
def test_only_one_module_imports_each_outside_client(client: str) -> None:
    importers = {
        name for name, path in ALL_MODULES.items() if any(used.split(".")[0] == client for used in imports(path))
    }
    assert importers == ONLY_IMPORTERS[client]


def test_the_index_knows_nothing_of_the_streamer() -> None:
    for name, path in ALL_MODULES.items():
        if name.startswith("index."):
            assert not {used for used in imports(path) if used.split(".")[0] == "streamer"}, name


def test_imports_in_the_streamer_point_downwards_only() -> None:
    depth = {module: level for level, names in enumerate(LAYERS) for module in names}
    for name, path in ALL_MODULES.items():
        if not name.startswith("streamer.") or name == "streamer.__init__":
            continue
        own = name.removeprefix("streamer.")
        assert own in depth, f"{own} has no place in LAYERS"
        for used in imports(path):
            target = used.removeprefix("streamer.").split(".")[0]
            if used.startswith("streamer.") and target in depth and target != own:
                assert depth[target] > depth[own], f"{own} imports {target}"


def test_only_the_settings_read_the_environment() -> None:
    readers = {
        name
        for name, path in ALL_MODULES.items()
        if re.search(r"os\.(environ|getenv)", path.read_text(encoding="utf-8"))
    }
    assert readers <= {"streamer.config", "streamer.metrics"}


@pytest.mark.parametrize("name", sorted(ALL_MODULES))
def test_modules_and_functions_stay_short(name: str) -> None:
    text = ALL_MODULES[name].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MODULE_LINES_MAX
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < FUNCTION_LINES_MAX, f"{name}.{node.name}"


@pytest.mark.parametrize("name", sorted(ALL_MODULES))
def test_no_error_is_caught_that_cannot_be_named(name: str) -> None:
    for node in ast.walk(ast.parse(ALL_MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            assert caught not in {"everything", "Exception", "BaseException"}, f"{name}:{node.lineno}"


def test_no_module_is_called_utils_or_common() -> None:
    assert not {name for name in ALL_MODULES if re.search(r"util|common|helper|misc", name)}
