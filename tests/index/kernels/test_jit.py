"""What numba's cache asks of kernels, and the intrinsics against plain Python."""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from index.kernels import jit
from index.kernels.jit import compiled, inner
from tests.support.examples import examples
from tests.support.paths import ROOT

WORDS = st.integers(0, 2**64 - 1)


def kernels_of(path: Path) -> dict[str, ast.FunctionDef]:
    """The compiled functions of a module."""
    return {
        node.name: node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and {"compiled", "inner"} & set(map(ast.unparse, node.decorator_list))
    }


def kernel_modules() -> dict[str, dict[str, ast.FunctionDef]]:
    found = {}
    for package in ("index", "streamer"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if kernels := kernels_of(path):
                found[".".join(path.relative_to(ROOT).with_suffix("").parts)] = kernels
    return found


MODULES = kernel_modules()


def test_a_kernel_calls_those_kernels_alone_whose_sources_its_stamp_covers() -> None:
    """Those of its own module, and of index.kernels: with any other its machine code would grow stale."""
    assert len(MODULES) > 5
    for name, kernels in MODULES.items():
        tree = ast.parse((ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
        imported = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("index.kernels")
            for alias in node.names
            if alias.name in MODULES.get(node.module or "", {}) or f"{node.module}.{alias.name}" in MODULES
        }
        used = {node.id for kernel in kernels.values() for node in ast.walk(kernel) if isinstance(node, ast.Name)}
        assert not used & imported, f"{name} calls {used & imported}"


@compiled
def _counted(one: Any) -> Any:
    return jit.ones(one)


@compiled
def _summed(address: Any, count: int) -> Any:
    jit.prefetch(address)
    jit.prefetch(np.uint64(8))
    total = 0
    for value in jit.array_at(jit.pointer_at(address), count):
        total += value
    return total


@examples(50)
@given(WORDS)
def test_the_bits_of_a_word_are_counted_as_plain_python_does(one: int) -> None:
    assert _counted(np.uint64(one)) == one.bit_count()


def test_an_address_is_read_where_it_points_and_prefetched_wherever_it_points() -> None:
    column = np.array([1, 2, 65_535], np.uint16)
    assert _summed(np.uint64(column.ctypes.data), 3) == 65_538


@compiled
def _word(address: Any) -> Any:
    return jit.word_at(address)


@examples(20)
@given(st.binary(min_size=8, max_size=24), st.integers(0, 16))
def test_a_word_is_read_at_any_address(octets: bytes, at: int) -> None:
    column, at = np.frombuffer(octets, np.uint8), min(at, len(octets) - 8)
    assert _word(np.uint64(column.ctypes.data + at)) == int.from_bytes(octets[at : at + 8], "little")


@compiled
def _hashed(octets: Any, size: int, seed: Any) -> Any:
    address = np.uint64(octets.ctypes.data)
    return (
        jit.xxh64(address, np.uint64(size), seed),
        jit.xxh3_64(address, np.uint64(size)),
        jit.xxh3_128(address, np.uint64(size)),
    )


@examples(50)
@given(st.binary(max_size=600), WORDS)
def test_a_kernel_hashes_as_the_package_does(content: bytes, seed: int) -> None:
    octets = np.frombuffer(content + b"-", np.uint8)
    seeded, short, (low, high) = _hashed(octets, len(content), np.uint64(seed))
    assert seeded == xxhash.xxh64_intdigest(content, seed)
    assert short == xxhash.xxh3_64_intdigest(content)
    assert low | high << 64 == xxhash.xxh3_128_intdigest(content)


@inner
def _sum_and_least(values: Any, first: int) -> Any:
    part = values[first:]
    total = least = part[0]
    for value in part[1:]:
        total, least = total + value, min(least, value)
    return total, least


@inner
def _same(values: Any) -> Any:
    return values


@compiled
def _folded(values: Any) -> Any:
    total, least = _sum_and_least(values, 1)
    return total - least


@compiled
def _with_array(values: Any) -> Any:
    return _same(values)[0]


def test_an_inner_function_takes_parts_of_arrays_and_gives_numbers_to_a_compiled_one() -> None:
    values = np.arange(10)
    before = sys.getrefcount(values)
    assert [_folded(values) for _ in range(50)] == [44] * 50
    assert sys.getrefcount(values) == before
    assert values.tolist() == list(range(10))


def test_an_inner_function_that_python_calls_or_that_returns_an_array_is_refused_by_name() -> None:
    """Without these words a call would end the process, and an array would be freed that is still in use."""
    with pytest.raises(TypeError, match=r"test_jit\._sum_and_least is inner: only compiled functions call it"):
        _sum_and_least(np.arange(10), 1)
    with pytest.raises(Exception, match="_same is inner: it cannot return an array"):
        _with_array(np.arange(10))


PROGRAM = """
import numpy as np
from index.kernels import checksums
from index.kernels.jit import compilations
told = []
with compilations(lambda kernel, cache: told.append((kernel, cache.is_dir()))):
    checksums.id_hashes(np.ones(1, np.uint8), np.ones(1, np.int64))
print(told)
"""


ALL_COMPILED, NONE_COMPILED = "[(1, True), (2, True), (3, True)]\n", "[]\n"


def announced(sources: Path, cache: Path, program: str = PROGRAM) -> str:
    """The kernels that a process announces, and whether each one's cache was there; or what another program prints."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, check=True).stdout


def test_only_kernels_that_the_cache_lacks_are_announced(tmp_path: Path) -> None:
    assert [announced(ROOT, tmp_path) for _ in range(2)] == [ALL_COMPILED, NONE_COMPILED]


LOADED = """
import sys
import numba
from index.kernels.bins import exceeds
assert exceeds(111, 100, 1_000)
print("numba.typed.typeddict" in sys.modules)
assert numba.njit(lambda one: {one: 1})(2) == {2: 1}
"""


def test_machine_code_from_the_cache_loads_without_what_compiling_needs_which_may_follow(tmp_path: Path) -> None:
    assert [announced(ROOT, tmp_path, LOADED) for _ in range(2)] == ["True\n", "False\n"]


@pytest.mark.parametrize("changed", ["bands.py", "jit.py"])
def test_a_change_in_any_kernel_source_compiles_the_kernels_of_other_modules_anew(changed: str, tmp_path: Path) -> None:
    """A kernel's machine code contains the functions that it calls, from whatever module."""
    kernels, cache = tmp_path / "index" / "kernels", tmp_path / "cache"
    shutil.copytree(ROOT / "index" / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "index" / "__init__.py").touch()
    assert [announced(tmp_path, cache) for _ in range(2)] == [ALL_COMPILED, NONE_COMPILED]

    with (kernels / changed).open("a", encoding="utf-8") as source:
        source.write("# Changed.\n")

    assert [announced(tmp_path, cache) for _ in range(2)] == [ALL_COMPILED, NONE_COMPILED]


def test_code_under_the_name_of_another_signature_is_compiled_again_and_not_run(tmp_path: Path) -> None:
    """Two processes that fill an empty cache at once may leave it so."""
    source = "from index.kernels.jit import compiled\n@compiled\ndef half(one):\n    return one / 2 if one < 2 else one * one\n"
    (tmp_path / "halves.py").write_text(source, encoding="utf-8")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-c", "import halves; print(halves.half(3), halves.half(2.5))"]
    assert subprocess.run(command, env=environment, capture_output=True, check=True).stdout == b"9.0 6.25\n"
    first, second = sorted((tmp_path / "cache").rglob("*.nbc"))

    first.write_bytes(second.read_bytes())

    assert subprocess.run(command, env=environment, capture_output=True, check=True).stdout == b"9.0 6.25\n"
    assert first.read_bytes() != second.read_bytes()


def test_a_stamp_covers_the_file_and_all_kernel_sources() -> None:
    sources = sorted((ROOT / "index" / "kernels").glob("*.py"))
    own = ROOT / "streamer" / "text" / "word_kernels.py"
    covered = hashlib.sha256(b"".join(path.read_bytes() for path in (*sources, own))).hexdigest()

    assert jit.source_stamp(str(own)) == covered
    assert jit.source_stamp(str(sources[0])) != covered
