"""Make the machine code of all kernels before it is needed: python -m streamer.fingerprint.warm_up

Otherwise the first batches do it, which takes them some twenty seconds. The code is kept beside the packages, or, where
that is not writable, in the cache of the user who runs this: it should be the one who runs the service.
"""

from index.tools import warm_up
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Fingerprint, Minhash


def compile_kernels() -> None:
    """Run every kernel once. Compiles what no process of this user has compiled yet."""
    warm_up.compile_kernels()
    MinHasher(Minhash()).fingerprint(["杭研大厦 in spring"])
    Fingerprinter(Fingerprint(features="shingles", topic_length=True, idf="jieba")).fingerprint(["杭研大厦 in spring"])


if __name__ == "__main__":
    compile_kernels()
