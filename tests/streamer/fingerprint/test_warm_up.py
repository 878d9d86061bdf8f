"""Warming the JIT cache, and a first run without it."""

import multiprocessing
import operator
import subprocess
import sys
from pathlib import Path

import pytest

from streamer.fingerprint import warm_up
from streamer.settings.settings import Settings
from tests.support.paths import ROOT
from tests.support.tiers import first_of

PROGRAM = """
from itertools import product
from index.kernels import bins, checksums, hash_segments, held, judge, memtable, scan, sort, walk
from index.matching.second_look import CosineLook
from streamer.fingerprint.minhash import kernels as minhash_kernels
from streamer.fingerprint.simhash import kernels as simhash_kernels
from streamer.fingerprint import overlap_kernels, shingle_kernels
from streamer.text import character_kernels, segmentation_kernels, word_kernels
from streamer.fingerprint.warm_up import compile_kernels
from streamer.settings.settings import Fingerprint, Minhash
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.fingerprint.minhash.minhash import MinHasher

def compiled():
    modules = (overlap_kernels, segmentation_kernels, minhash_kernels, simhash_kernels, shingle_kernels, character_kernels,
      word_kernels, bins, checksums, hash_segments, held, judge, memtable, scan, sort, walk)
    found = [one for module in modules for one in vars(module).values()]
    return {f"{one.__module__}.{one.__name__}": len(one.signatures) for one in found if hasattr(one, "py_func")}

compile_kernels()
ahead = compiled()
assert len(ahead) > 25
# Only kernels call these: a process that takes their callers from the cache never compiles them.
shared = (".mix_column", ".smallest", ".xxh64_of", ".grown", ".shape_at", ".part_of", ".prefetch_page")
entered = {"distances", "exceeds", "judge_pairs", "distances_to", "walk", "choose_members"}
walked = {f"index.kernels.{name}" for name in ("bins", "judge", "meet", "second_look", "versions", "walk")}
inner = {name for name in ahead if name.endswith(shared) or name.split(".")[-1].startswith("_")}
inner |= {name for name in ahead if name.rpartition(".")[0] in walked and name.rpartition(".")[2] not in entered}
print([name for name, count in ahead.items() if not count and name not in inner])

texts, titles = ["", "杭研大厦 in spring \u0e44\u0e31 " + "x" * 200, "北京"], ["北京", "", "a"]
for bits, features, weight, more in product(
    (64, 128), ("words", "shingles"), ("tf", "log-tf"), ({}, {"idf": "jieba", "part_of_speech": "n=2", "word_length": True,
      "marker_factor": 5, "title_factor": 5},
     {"simplify": True, "markup": "html"})
):
    chosen = Fingerprint(bits=bits, features=features, weight=weight, **more)
    for batch in ((texts, titles), ([], [])):
        Fingerprinter(chosen, CosineLook(16, 0.8)).fingerprint(*batch)
for shingles in ("characters", "words"):
    MinHasher(Minhash(shingles=shingles)).fingerprint(texts)
print([name for name, count in compiled().items() if count > max(1, ahead[name])])
"""


@pytest.mark.rest
def test_warming_up_leaves_out_no_kernel_and_no_types_of_its_arguments() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n[]\n", 0), done.stderr


FIRST_RUN = """
import importlib, pkgutil, sys
from pathlib import Path
from rich.console import Console
import index.kernels, index.tools
from streamer.fingerprint.scheme import parameters_for
from streamer.service.file_job import filter_files
from streamer.settings.settings import load

modules = [importlib.import_module(f"index.kernels.{each.name}") for each in pkgutil.iter_modules(index.kernels.__path__)]

def compiled():
    found = [one for module in modules for one in vars(module).values() if hasattr(one, "py_func")]
    return {f"{one.__module__}.{one.__name__}": set(one.signatures) for one in found}

folder = Path(sys.argv[1])
settings = load(None, [f"index.directory={folder / 'index'}", *sys.argv[2:]], {})
stages = index.tools.compile_first(parameters_for(settings, {}))
next(stages)
ahead = compiled()
assert ahead["index.kernels.walk.walk"]
filter_files(settings, [folder / "texts.jsonl"], folder / "out", Console(quiet=True))
print([name for name, signatures in compiled().items() if not signatures <= ahead[name]])
"""


@pytest.mark.parametrize("scheme", first_of("minhash", "simhash"))
def test_the_other_process_compiles_all_that_the_index_needs_for_a_first_batch(tmp_path: Path, scheme: str) -> None:
    lines = [
        f'{{"id": "{row}", "text": "{"The harbour of the old town lies open. " * (row % 3 + 1)}"}}' for row in range(12)
    ]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-c", FIRST_RUN, str(tmp_path), f"fingerprint.scheme={scheme}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr


@pytest.mark.parametrize("kept", [True, False])
def test_an_empty_cache_is_filled_in_two_processes_and_a_warm_one_in_none(
    monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    # The other process ends without a word, as one that is killed: nothing waits for it.
    monkeypatch.setattr(warm_up, "_compile", operator.is_)
    monkeypatch.setattr(warm_up, "is_kept", lambda _: kept)
    before = set(multiprocessing.active_children())
    with warm_up.compile_first(Settings()):
        assert len(set(multiprocessing.active_children()) - before) == (0 if kept else 1)
