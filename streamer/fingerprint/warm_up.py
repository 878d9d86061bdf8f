"""Warm the JIT cache with all kernels before the first batch: python -m streamer.fingerprint.warm_up

Otherwise the first batches take some twenty seconds longer. numba keeps its cache in the packages' folder, or, if that is not
writable, in the user's own. So run this as the user who runs the service.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np

import index.tools
from index import Parameters
from index.kernels.jit import is_kept
from streamer.fingerprint import overlap_kernels
from streamer.fingerprint.key import KEY_BYTES, HashKey
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.scheme import parameters_for
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Fingerprint, Minhash, Settings
from streamer.text.character_kernels import write


def compile_kernels() -> None:
    """Run every kernel once, to compile those missing from the cache."""
    index.tools.compile_kernels()
    _compile_fingerprints()


def _compile_fingerprints() -> None:
    minhash = MinHasher(Minhash())
    minhash.sampled_one_in = 1
    minhash.fingerprint(["杭研大厦 in spring, пoра"], scopes=["scope"])
    overlap_kernels.overlaps(np.frombuffer(bytes(8), np.uint32), np.arange(3), np.array([-1]))
    simhash = Fingerprint(features="shingles", topic_length=True, idf="jieba")
    Fingerprinter(simhash, key=HashKey.of(bytes(KEY_BYTES))).fingerprint(["杭研大厦 in spring, пoра"], scopes=["scope"])


@contextmanager
def compile_first(settings: Settings) -> Iterator[None]:
    """If the cache is empty, compile the index's kernels in another process, while this one creates its scheme.

    Waits at the end for the kernels of a first batch.
    """
    if is_kept(write):
        yield
        return
    context = get_context("spawn")
    compiled, ended = context.Pipe(duplex=False)
    context.Process(target=_compile, args=(parameters_for(settings, {}), ended), daemon=True).start()
    ended.close()
    yield
    # Also true if the process has ended.
    compiled.poll(None)


def _compile(parameters: Parameters, ended: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for _ in index.tools.compile_first(parameters):
        ended.close()


def main() -> int:
    """Compile the index's kernels in another process, and the others here meanwhile; 0, or 1 if that process failed."""
    elsewhere = get_context("spawn").Process(target=index.tools.compile_kernels)
    elsewhere.start()
    _compile_fingerprints()
    elsewhere.join()
    # Those that both compiled: the list on disk of one may lack what the other added.
    compile_kernels()
    return int(elsewhere.exitcode != 0)


if __name__ == "__main__":
    sys.exit(main())
