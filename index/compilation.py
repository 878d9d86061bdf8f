"""Make the machine code of all kernels before it is needed: python -m index.compilation

Otherwise the first batches do it, which takes them some ten seconds. The code is kept beside the package, or, where that
is not writable, in the cache of the user who runs this: it should be the one who runs the service.
"""

import tempfile
from pathlib import Path

import numpy as np

from index.admission import Index
from index.entry import Entries, Kind, Source
from index.merging import Merging
from index.parameters import Parameters


def compile_kernels() -> None:
    """Run every kernel once, in an index that is thrown away. Compiles what no process of this user has compiled yet."""
    source = Source("compilation", 0)
    with (
        tempfile.TemporaryDirectory() as directory,
        Index.open(Path(directory), Parameters(), map_bytes_max=2**24, merging=Merging(1, 64)) as index,
    ):
        for offset in range(3):
            entries = Entries(
                sources=(source,),
                source_numbers=np.zeros(1, np.uint32),
                offsets=np.array([offset], np.uint64),
                kinds=np.array([Kind.NEAR], np.uint8),
                reasons=np.zeros(1, np.uint8),
                # The third is near the first, which stands in chunks by then.
                fingerprints=np.array([[0 if offset != 1 else 2**64 - 1]], np.uint64),
                times_ms=np.zeros(1, np.int64),
                ids=[""],
            )
            index.admit(entries, {})


if __name__ == "__main__":
    compile_kernels()
