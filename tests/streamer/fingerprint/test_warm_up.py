"""Warming the JIT cache."""

import subprocess
import sys

from tests.support.paths import ROOT

PROGRAM = """
from itertools import product
from index.kernels import checksums, hash_segments, memtable, minhash, numbers, scan, sort
from index.matching.second_look import CosineLook
from streamer.fingerprint.minhash import kernels as minhash_kernels
from streamer.fingerprint.simhash import kernels as simhash_kernels
from streamer.fingerprint import shingle_kernels
from streamer.text import character_kernels, segmentation_kernels, word_kernels
from streamer.fingerprint.warm_up import compile_kernels
from streamer.settings.settings import Fingerprint, Minhash
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.fingerprint.minhash.minhash import MinHasher

def compiled():
    modules = (segmentation_kernels, minhash_kernels, simhash_kernels, shingle_kernels, character_kernels, word_kernels,
      checksums, hash_segments, memtable, minhash, numbers, scan, sort)
    found = [one for module in modules for one in vars(module).values()]
    return {f"{one.__module__}.{one.__name__}": len(one.signatures) for one in found if hasattr(one, "py_func")}

compile_kernels()
ahead = compiled()
assert len(ahead) > 25
# Only kernels call these: a process that takes their callers from the cache never compiles them.
shared = (".mix_column", ".smallest", ".xxh64_of", ".grown")
inner = {name for name in ahead if name.endswith(shared) or name.split(".")[-1].startswith("_")}
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


def test_warming_up_leaves_out_no_kernel_and_no_types_of_its_arguments() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n[]\n", 0), done.stderr
