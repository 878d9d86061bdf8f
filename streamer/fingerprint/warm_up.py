"""Warm the JIT cache with all kernels before the first batch: python -m streamer.fingerprint.warm_up

Otherwise the first batches take some twenty seconds longer. numba keeps its cache in the packages' folder, or, if that is not
writable, in the user's own. So run this as the user who runs the service.
"""

import index.tools
from streamer.fingerprint.key import KEY_BYTES, HashKey
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Fingerprint, Minhash


def compile_kernels() -> None:
    """Run every kernel once, to compile those missing from the cache."""
    index.tools.compile_kernels()
    minhash = MinHasher(Minhash())
    minhash.sampled_one_in = 1
    minhash.fingerprint(["杭研大厦 in spring, пoра"])
    simhash = Fingerprint(features="shingles", topic_length=True, idf="jieba")
    Fingerprinter(simhash, key=HashKey.of(bytes(KEY_BYTES))).fingerprint(["杭研大厦 in spring, пoра"])


if __name__ == "__main__":
    compile_kernels()
