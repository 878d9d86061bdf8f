"""Inside the index, too, imports point one way only."""

import ast
from pathlib import Path

import index

DIRECTORY = Path(index.__file__).parent
LAYERS = (
    ("compilation", "copies", "taking"),
    ("loading",),
    ("admission", "verification"),
    ("forgetting", "fullness", "log_verification", "restoration", "retention", "statistics", "transfer"),
    ("batch", "filed"),
    ("contents", "lookup", "retirement"),
    ("documents", "equality", "search", "journal"),
    ("living", "merging", "signatures"),
    ("matching",),
    ("chunks", "log", "sources", "stamping"),
    ("directory", "overlay"),
    ("store",),
    ("schemes",),
    ("loading_kernels", "filing_kernels", "place_kernels", "signature_kernels", "packing", "parameters"),
    ("claims", "decision", "kernels", "layout", "looks"),
    ("bands", "blocks", "distance"),
    ("entry", "errors", "finding", "machine_code"),
)


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "index":
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("index."):
            found.add(node.module.removeprefix("index."))
    return found


def test_imports_in_the_index_point_downwards_only() -> None:
    depth = {module: level for level, names in enumerate(LAYERS) for module in names}
    modules = {path.stem: path for path in DIRECTORY.glob("*.py") if path.stem != "__init__"}
    assert set(modules) == set(depth)
    for module, path in modules.items():
        for used in imported(path):
            assert depth[used] > depth[module], f"{module} imports {used}"


def test_what_decides_knows_no_store() -> None:
    pure = {"decision", "blocks", "distance", "bands", "looks"}
    for module in pure:
        assert not imported(DIRECTORY / f"{module}.py") & {"store", "layout", "documents", "journal", "sources"}
