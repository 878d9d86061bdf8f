"""The house's rules. A rule that is not a test does not exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import index
import index.dataflow
import index.tools
from tests.support.checkout import project_files
from tests.support.code_lines import code_lines
from tests.support.paths import ROOT

PACKAGES = ("streamer", "index")
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
FOLDER_MODULES_MAX = 18

CODE_LINES_MAX = {
    "index": 910,
    "index/dataflow": 2740,
    "index/decide": 1434,
    "index/frames": 182,
    "index/kernels": 2089,
    "index/lsm": 916,
    "index/matching": 572,
    "index/storage": 2328,
    "index/stories": 311,
    "index/tools": 1645,
    "index/versions": 234,
    "streamer": 267,
    "streamer/ask": 830,
    "streamer/audit": 517,
    "streamer/clusters": 300,
    "streamer/cli": 1940,
    "streamer/delivered": 154,
    "streamer/demo": 493,
    "streamer/doctor": 451,
    "streamer/evaluation": 1257,
    "streamer/explain": 1246,
    "streamer/fingerprint": 1489,
    "streamer/flink": 945,
    "streamer/give_back": 432,
    "streamer/index_admin": 706,
    "streamer/observe": 1164,
    "streamer/parts": 1368,
    "streamer/protected": 225,
    "streamer/records": 1885,
    "streamer/service": 2281,
    "streamer/settings": 915,
    "streamer/text": 1912,
    "streamer/transports": 6495,
    "streamer/verification": 1328,
    "streamer/what_if": 395,
    "streamer/workers": 658,
}
"""Lines of code by package. A ceiling falls with its package, and rises only with a decision that says why."""

OTHER_CODE_LINES_MAX = {"tests": 57_500, "bench": 7_720, "deploy": 4_160}
"""The same for what proves and measures the product: without a ceiling it grew by a third in three days."""

ONLY_IMPORTERS = {
    "confluent_kafka": {
        "streamer.transports.kafka.confluent.clients",
        "streamer.transports.kafka.confluent.reader",
        "streamer.transports.kafka.confluent.producer",
    },
    "kafka": {
        "streamer.flink.partition_keys",
        "streamer.parts.batches",
        "streamer.parts.undelivered",
        "streamer.parts.verdict_log",
        "streamer.transports.kafka.changelog",
        "streamer.transports.kafka.clients",
        "streamer.transports.kafka.confluent.clients",
        "streamer.transports.kafka.confluent.producer",
        "streamer.transports.kafka.diagnosis",
        "streamer.transports.kafka.handshake",
        "streamer.transports.kafka.kafka_python.continuity",
        "streamer.transports.kafka.kafka_python.filling",
        "streamer.transports.kafka.kafka_python.key_hashes",
        "streamer.transports.kafka.kafka_python.reader",
        "streamer.transports.kafka.kafka_python.producer",
        "streamer.transports.kafka.output_log",
        "streamer.transports.kafka.ownership",
        "streamer.transports.kafka.refusals",
        "streamer.transports.kafka.rights",
        "streamer.transports.kafka.topic_reader",
        "streamer.transports.kafka.topics",
        "streamer.transports.kafka.transactions.hanging",
        "streamer.transports.kafka.transactions.open",
        "streamer.transports.kafka.transport",
        "streamer.transports.kafka.unreadable",
        "streamer.transports.kafka.writer",
    },
    "publicsuffixlist": {"streamer.records.hosts"},
    "pyflink": {"streamer.flink.job"},
    "brotli": {"streamer.transports.files.http_body"},
    "fastavro": {"streamer.records.schemas"},
    "sqlite3": {"streamer.audit.store", "streamer.delivered.temporary"},
    "fsspec": {"streamer.transports.files.store"},
    "aiohttp": {"streamer.transports.files.store"},
    "botocore": {"streamer.transports.files.store"},
    "pyarrow": {"streamer.transports.files.columns", "streamer.transports.files.parquet"},
    "chardetng_py": {"streamer.records.charsets"},
    "webencodings": {"streamer.records.charsets"},
    "warcio": {"streamer.transports.files.warc"},
    "lmdb": {"index.storage.data_file", "index.storage.store", "index.tools.backup"},
    "jieba": {"streamer.text.segmentation"},
    "prometheus_client": {"streamer.observe.metrics"},
    "confusable_homoglyphs": {"streamer.text.look_alikes"},
    "opencc": {"streamer.text.normalisation"},
    "numba": {"index.kernels.jit"},
    "scrapy": {"streamer.ask.scrapy"},
    "selectolax": {"streamer.text.normalisation"},
    "trafilatura": {"streamer.text.markup.main_text"},
    "uvicorn": {"streamer.observe.http"},
    "h11": {"streamer.observe.http"},
    "starlette": {"streamer.observe.application"},
}

LAYERS = (
    ("streamer.__main__", "streamer.flink.job"),
    ("streamer.cli",),
    ("streamer.workers",),
    ("streamer.ask",),
    ("streamer.demo", "streamer.what_if"),
    ("streamer.index_admin", "streamer.verification", "streamer.doctor", "streamer.give_back", "streamer.clusters"),
    ("streamer.flink",),
    ("streamer.parts",),
    ("streamer.service", "streamer.evaluation"),
    ("streamer.audit", "streamer.delivered"),
    ("streamer.explain",),
    ("streamer.protected",),
    ("streamer.fingerprint.warm_up",),
    ("streamer.fingerprint.scheme",),
    ("streamer.fingerprint.simhash", "streamer.fingerprint.minhash"),
    ("streamer.fingerprint.methods",),
    ("streamer.fingerprint", "streamer.transports.kafka", "streamer.transports.files"),
    ("streamer.transports", "streamer.observe"),
    ("streamer.text", "streamer.records"),
    ("streamer.settings",),
    ("streamer.packages",),
    ("streamer.errors",),
    ("index.tools",),
    ("index.index",),
    ("index.dataflow", "index.stories.listing"),
    ("index.decide",),
    ("index.frames", "index.stories", "index.versions"),
    ("index.sets", "index.below"),
    ("index.session", "index.turn"),
    ("index.lsm",),
    ("index.storage",),
    ("index.matching",),
    ("index.kernels",),
    ("index.entry", "index.errors"),
)
"""Rooms from top to bottom: a module imports from its own room and from rooms further down."""

PUBLIC_NAMES = {
    "index": set(index.__all__),
    "index.dataflow": set(index.dataflow.__all__),
    "index.tools": set(index.tools.__all__),
}

PURE = {f"index.matching.{name}" for name in ("distance", "host_sketch", "minhash", "second_look", "simhash", "frame")}


def modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's syntax."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


ALL_MODULES = dict(modules())
ROOMS = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def is_package(name: str) -> bool:
    return ALL_MODULES[name].name == "__init__.py"


def room_of(module: str) -> str | None:
    """The innermost room that holds a module."""
    parts = module.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in ROOMS), None)


def own_imports(name: str) -> set[str]:
    """The modules of the house that a module imports; of a name in a module the module."""
    found = {used if used in ALL_MODULES else used.rpartition(".")[0] for used in imports(ALL_MODULES[name])}
    return {used for used in found if used in ALL_MODULES and not is_package(used)} - {name}


def test_only_one_module_imports_each_outside_client() -> None:
    roots = {name: {used.split(".")[0] for used in imports(path)} for name, path in ALL_MODULES.items()}
    importers = {client: {name for name in roots if client in roots[name]} for client in ONLY_IMPORTERS}
    assert importers == ONLY_IMPORTERS


def test_neither_client_of_kafka_knows_the_other() -> None:
    folders = {f"streamer.transports.kafka.{name}" for name in ("confluent", "kafka_python")}
    for name in ALL_MODULES:
        for folder in folders:
            if name.startswith(folder):
                others = tuple(folders - {folder})
                assert not {used for used in own_imports(name) if used.startswith(others)}, name


def test_the_index_knows_nothing_of_the_streamer() -> None:
    for name, path in ALL_MODULES.items():
        if name.split(".")[0] == "index":
            assert not {used for used in imports(path) if used.split(".")[0] == "streamer"}, name


def test_every_module_stands_in_a_room_of_the_layers() -> None:
    assert [name for name in ALL_MODULES if not is_package(name) and room_of(name) is None] == []


def points_upwards(name: str, used: str) -> bool:
    """Whether an import leads from a module's room to one that is not below it, within the same package."""
    room, target = room_of(name), room_of(used)
    if room is None or target is None or room == target or room.split(".")[0] != target.split(".")[0]:
        return False
    return ROOMS[target] <= ROOMS[room]


def test_imports_point_downwards_only() -> None:
    assert [
        f"{name} imports {used}"
        for name in ALL_MODULES
        if not is_package(name)
        for used in sorted(own_imports(name))
        if points_upwards(name, used)
    ] == []


INDEX_FOR_THE_STREAMER = {"index", "index.errors", "index.dataflow", "index.tools", "index.kernels.jit"}


def private_names_of_the_index(path: Path) -> set[str]:
    """What a file imports from the index and is not for the streamer."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "index":
            public = PUBLIC_NAMES.get(node.module)
            if node.module not in INDEX_FOR_THE_STREAMER:
                found.add(node.module)
            elif public is not None:
                found |= {f"{node.module}.{alias.name}" for alias in node.names if alias.name not in public}
        if isinstance(node, ast.Import):
            found |= {
                alias.name for alias in node.names if alias.name.split(".")[0] == "index"
            } - INDEX_FOR_THE_STREAMER
    return found


def test_the_streamer_imports_the_public_names_of_the_index_alone() -> None:
    streamer = {name: path for name, path in ALL_MODULES.items() if name.split(".")[0] == "streamer"}
    found = {name: private_names_of_the_index(path) for name, path in streamer.items()}
    assert {name: names for name, names in found.items() if names} == {}


def test_nobody_outside_of_the_index_reaches_inside() -> None:
    """What opens the inside of an open index is one function, and what it opens is asked for by no other name."""
    inner = {"internals_of", "OpenIndex", "ReadSession", "WriteSession", "Transaction", "Store"}
    for name, path in ALL_MODULES.items():
        nodes = nodes_of(path)
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        if name.split(".")[0] == "streamer":
            assert not used & (inner | {"_opened"}), name
        elif not name.startswith(("index.tools", "index.index")):
            assert "internals_of" not in used, name


def test_no_imports_go_in_a_circle() -> None:
    graph = {name: own_imports(name) for name in ALL_MODULES}
    assert len(list(TopologicalSorter(graph).static_order())) == len(ALL_MODULES)


def test_what_decides_knows_no_store() -> None:
    for name in PURE:
        assert not {used for used in own_imports(name) if used.startswith(("index.storage", "index.lsm"))}, name


def all_own_imports(name: str) -> set[str]:
    """The modules of the house that a module imports, and those that they import in turn."""
    found, asked = set[str](), [name]
    while asked:
        new = own_imports(asked.pop()) - found
        found |= new
        asked += new
    return found


def test_deciding_stands_on_no_rare_operation() -> None:
    """What gives a batch its verdicts is read without restoration, giving back, forgetting and queries."""
    rare = {f"index.decide.{name}" for name in ("restore", "give_back", "forget", "find", "near", "check")}
    assert rare <= set(ALL_MODULES)
    assert not all_own_imports("index.decide.admit") & rare


def bound_names(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and names that a file gives to parameters, variables, attributes, functions and classes."""
    for node in nodes_of(path):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != "of":
            yield node.lineno, node.name


def test_names_in_the_index_say_what_they_hold() -> None:
    """No `of_rows` for the samples of rows, no `of` for the places of stories."""
    assert [
        f"{name}:{line} {bound}"
        for name, path in ALL_MODULES.items()
        if name.split(".")[0] == "index"
        for line, bound in bound_names(path)
        if re.match(r"_*of(_|$)", bound, re.IGNORECASE)
    ] == []


def test_folders_stay_small() -> None:
    for folder in {path.parent for path in ALL_MODULES.values()}:
        count = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
        assert count <= FOLDER_MODULES_MAX, f"{folder.relative_to(ROOT)} holds {count} modules"


def test_tests_stand_where_their_modules_stand() -> None:
    for package in PACKAGES:
        for path in (ROOT / "tests" / package).rglob("test_*.py"):
            folder = ROOT / path.relative_to(ROOT / "tests").parent
            assert folder.is_dir(), f"{path.relative_to(ROOT)} has no folder to mirror"


WITHOUT_TESTS_OF_THEIR_OWN = {
    "only types, names and messages": (
        "index.errors",
        "index.storage.counters",
        "index.storage.file.commit_hooks",
        "index.tools.finding",
        "streamer.ask.reply",
        "streamer.doctor.finding",
        "streamer.errors",
        "streamer.records.record",
        "streamer.service.state",
        "streamer.settings.types",
        "streamer.transports.kafka.client",
        "streamer.transports.transport",
    ),
    "tables whose values are read by the tests of whoever uses them": ("streamer.observe.definitions",),
    "kernels, compared with plain code in the tests of their callers": (
        "index.kernels.bands",
        "index.kernels.judge",
        "index.kernels.leaves",
        "index.kernels.memtable",
        "index.kernels.second_look",
        "index.kernels.sort",
        "index.kernels.versions",
        "index.kernels.walk",
        "streamer.fingerprint.minhash.kernels",
        "streamer.fingerprint.overlap_kernels",
        "streamer.fingerprint.shingle_kernels",
        "streamer.fingerprint.simhash.kernels",
        "streamer.text.character_kernels",
        "streamer.text.segmentation_kernels",
        "streamer.text.word_kernels",
    ),
    "tests/streamer/cli/test_protect.py": ("streamer.protected.texts", "streamer.service.protecting"),
    "tests/streamer/fingerprint/test_warm_up.py": ("index.tools.warm_up",),
    "tests/index/test_index.py": (
        "index.decide.batch",
        "index.decide.decide",
        "index.decide.load",
        "index.decide.rule",
        "index.storage.documents",
        "index.storage.segments.compaction_state",
        "index.storage.sources",
        "index.storage.stamp",
    ),
    "tests/index/dataflow/buckets/test_segmented.py": ("index.dataflow.buckets.segment",),
    "tests/index/dataflow/test_flow.py": (
        "index.dataflow.claim",
        "index.dataflow.history",
        "index.dataflow.join",
        "index.dataflow.name",
        "index.dataflow.recall",
        "index.dataflow.resolve",
        "index.dataflow.verify",
    ),
    "tests/index/dataflow/test_updates.py": (
        "index.dataflow.resolving.deciding",
        "index.dataflow.resolving.known",
        "index.dataflow.resolving.page_states",
        "index.dataflow.versions",
    ),
    "tests/index/dataflow/resolving/test_forgotten.py": ("index.dataflow.resolving.kept_rows",),
    "tests/index/dataflow/test_retention.py": (
        "index.dataflow.ages",
        "index.dataflow.ledger",
        "index.dataflow.resolving.horizon",
        "index.dataflow.resolving.retention",
    ),
    "tests/index/decide/test_retention.py": ("index.decide.retire",),
    "tests/index/decide/test_recrawl.py": ("index.versions.history",),
    "tests/index/decide/test_forget.py": ("index.versions.by_id",),
    "tests/streamer/fingerprint/test_digests.py": ("streamer.text.passage_kernels",),
    "tests/index/tools/test_frames.py": ("index.tools.verify_frames",),
    "tests/index/stories/test_fold.py": (
        "index.stories.host_names",
        "index.stories.rows",
        "index.tools.verify_stories",
    ),
    "tests/index/lsm/test_tree.py": (
        "index.lsm.hash_table",
        "index.lsm.shape",
    ),
    "tests/index/tools/test_verify.py": (
        "index.storage.scan",
        "index.tools.verify_log",
        "index.tools.verify_tables",
    ),
    "tests/streamer/doctor/test_doctor.py": ("streamer.cli.doctor",),
    "tests/streamer/cli/test_index.py": (
        "streamer.index_admin.tables",
        "streamer.index_admin.tools",
    ),
    "tests/streamer/clusters/test_clusters.py": ("streamer.clusters.table",),
    "tests/streamer/cli/test_templates.py": ("streamer.index_admin.templates",),
    "tests/streamer/cli/test_main.py": ("streamer.cli.complaints", "streamer.cli.methods"),
    "tests/streamer/explain/test_why.py": ("streamer.explain.near",),
    "tests/streamer/parts/test_formats.py": (
        "streamer.parts.envelope",
        "streamer.parts.fingerprint_batch",
        "streamer.parts.verdict_batch",
    ),
    "tests/streamer/cli/test_start.py": ("streamer.workers.worker_process",),
    "tests/streamer/workers/test_readiness.py": ("streamer.transports.kafka.silence",),
    "tests/streamer/service/test_pipeline.py": ("streamer.fingerprint.documents",),
    "tests/streamer/service/test_loop.py": (
        "streamer.observe.batch_report",
        "streamer.service.index_steps",
        "streamer.service.outputs",
        "streamer.service.steps_ahead",
        "streamer.service.stream_names",
    ),
    "tests/processes/test_parts_at_every_point.py": (
        "streamer.parts.batches",
        "streamer.parts.decide",
        "streamer.parts.deciding",
        "streamer.parts.fingerprint",
        "streamer.parts.messages",
        "streamer.parts.route",
        "streamer.parts.steps_in_turn",
        "streamer.parts.verdict_log",
        "streamer.parts.wiring",
        "streamer.parts.wrapper",
    ),
    "tests/processes/test_parts_over_kafka.py": ("streamer.parts.undelivered",),
    "tests/streamer/settings/test_settings.py": (
        "streamer.settings.decode",
        "streamer.settings.removed",
        "streamer.settings.kafka",
        "streamer.settings.methods",
        "streamer.settings.toml",
        "streamer.settings.relations",
        "streamer.settings.values",
    ),
    "tests/streamer/test_main.py": ("streamer.__main__",),
    "tests/streamer/transports/files/test_line_reader.py": ("streamer.transports.files.formats",),
    "tests/streamer/verification/test_verify.py": (
        "streamer.records.output_headers",
        "streamer.verification.comparison",
        "streamer.verification.findings",
        "streamer.verification.journal",
        "streamer.verification.report",
        "streamer.verification.texts",
        "streamer.verification.uniques",
    ),
    "tests/streamer/ask/test_openapi.py": ("streamer.ask.answering", "streamer.ask.service"),
    "tests/streamer/observe/test_http.py": ("streamer.observe.application",),
    "tests/streamer/what_if/test_compare.py": ("streamer.what_if.differences",),
    "tests/streamer/cli/test_compare.py": ("streamer.what_if.report",),
    "tests/flink": ("streamer.flink.job",),
    "tests/contract": (
        "streamer.transports.kafka.confluent.producer",
        "streamer.transports.kafka.kafka_python.reader",
        "streamer.transports.kafka.kafka_python.producer",
        "streamer.transports.kafka.transport",
    ),
    "tests/streamer/give_back/test_dead_letters.py": ("streamer.give_back.report",),
    "tests/streamer/transports/kafka/test_changelog.py": (
        "streamer.transports.kafka.topic_reader",
        "streamer.transports.kafka.transactions.open",
        "streamer.transports.output_log",
    ),
    "tests/processes": (
        "streamer.cli.dead_letters",
        "streamer.transports.kafka.output_log",
    ),
}
"""Modules without a mirrored test file, by the reason: where else they are tested, or why they need no test."""


def test_every_module_has_a_test_file_of_its_own_or_a_reason_to_have_none() -> None:
    excused = {name for names in WITHOUT_TESTS_OF_THEIR_OWN.values() for name in names}
    lacking = set()
    for name, path in ALL_MODULES.items():
        relative = path.relative_to(ROOT)
        if not is_package(name) and not (ROOT / "tests" / relative.with_name(f"test_{relative.name}")).is_file():
            lacking.add(name)
    assert not lacking - excused, "write their tests"
    assert not excused - lacking, "these have tests of their own now, or are gone: take them from the list"


def test_where_modules_are_said_to_be_tested_there_are_tests() -> None:
    for reason in WITHOUT_TESTS_OF_THEIR_OWN:
        if reason.startswith("tests/"):
            place = ROOT / reason
            assert place.is_file() or list(place.glob("test_*.py")), f"{reason} is gone"


def test_only_the_settings_read_the_environment() -> None:
    readers = {
        name
        for name, path in ALL_MODULES.items()
        if re.search(r"os\.(environ|getenv)", path.read_text(encoding="utf-8"))
    }
    assert readers <= {"streamer.settings.settings", "streamer.observe.metrics", "streamer.observe.service_manager"}


def test_packages_grow_no_further() -> None:
    lines = dict.fromkeys(CODE_LINES_MAX, 0)
    for path in ALL_MODULES.values():
        folders = path.relative_to(ROOT).parts[:-1]
        lines["/".join(folders[:2])] += code_lines(path.read_text(encoding="utf-8"))
    assert {name: count for name, count in lines.items() if count > CODE_LINES_MAX[name]} == {}


def test_what_proves_and_measures_grows_no_further() -> None:
    lines = {
        folder: sum(code_lines(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py"))
        for folder in OTHER_CODE_LINES_MAX
    }
    assert {name: count for name, count in lines.items() if count > OTHER_CODE_LINES_MAX[name]} == {}


def test_a_test_by_example_leaves_its_number_to_the_profile() -> None:
    files = set((ROOT / "tests").rglob("test_*.py")) - {ROOT / "tests" / "test_conftest.py"}
    assert [
        f"{path.relative_to(ROOT)}: @examples(...) of tests/support/examples.py in place of max_examples"
        for path in sorted(files)
        for node in nodes_of(path)
        if isinstance(node, ast.keyword) and node.arg == "max_examples"
    ] == []


def test_modules_stay_short() -> None:
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in ALL_MODULES.items()}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES_MAX} == {}


def test_functions_stay_short() -> None:
    lines = {
        f"{name}.{node.name}": node.end_lineno - node.lineno + 1
        for name, path in ALL_MODULES.items()
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert {name: count for name, count in lines.items() if count > FUNCTION_LINES_MAX} == {}


def test_no_error_is_caught_that_cannot_be_named() -> None:
    assert [
        f"{name}:{node.lineno}"
        for name, path in ALL_MODULES.items()
        for node in nodes_of(path)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
    ] == []


NOT_IMPORTED_FROM = {
    "streamer": {"bench", "deploy", "tests"},
    "index": {"bench", "deploy", "tests"},
    "deploy": {"bench", "tests"},
    "bench": {"tests"},
}
"""By folder: the folders that it does not import from."""


def test_what_is_shipped_knows_no_bench_and_a_bench_knows_no_test() -> None:
    files = {folder: sorted((ROOT / folder).rglob("*.py")) for folder in NOT_IMPORTED_FROM}
    assert all(files.values())
    assert [
        f"{path.relative_to(ROOT)} imports {used}"
        for folder, paths in files.items()
        for path in paths
        for used in sorted(imports(path))
        if used.split(".")[0] in NOT_IMPORTED_FROM[folder]
    ] == []


def shared_past_support(path: Path) -> list[str]:
    """What a file of tests imports from tests or benches; from tests/support is well, and a bench's test tests a bench."""
    allowed = ("tests.support", "bench") if path.is_relative_to(ROOT / "tests" / "bench") else ("tests.support",)
    used = {name for name in imports(path) if name.split(".")[0] in {"tests", "bench"}}
    return sorted(name for name in used if not any(name == one or name.startswith(f"{one}.") for one in allowed))


def test_tests_share_code_through_support_alone() -> None:
    """What benches share with tests is in deploy."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = {str(path.relative_to(ROOT)): shared_past_support(path) for path in files}
    assert {name: names for name, names in found.items() if names} == {}


def test_no_module_is_called_utils_or_common() -> None:
    assert not {name for name in ALL_MODULES if re.search(r"util|common|helper|misc", name)}


WRITTEN_BY_HAND = re.compile(
    r"|\.(py|md|ya?ml|toml|svg|html|txt|jsonl?|png|typed|sh|css|conf|cff|cfg|dockerignore|properties|service)"
)
"""Suffixes of files that belong to the project. Machine code, wheels and indexes do not."""


def test_no_file_that_a_program_made_is_part_of_the_project() -> None:
    assert [name for name in project_files() if not WRITTEN_BY_HAND.fullmatch(Path(name).suffix)] == []
    assert [name for name in project_files() if ".cache" in Path(name).parts] == []
