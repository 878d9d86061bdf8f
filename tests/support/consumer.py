"""A small program of somebody who installed the packages. It passes `mypy --strict` only if both bring their types."""

import sys
from pathlib import Path
from typing import assert_type

import numpy as np
import numpy.typing as npt

from index.entry import Verdict
from index.index import Index
from index.storage.parameters import Parameters
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import load

settings = load(None, ["fingerprint.scheme=simhash"])
fingerprints = Fingerprinter(settings.fingerprint).fingerprint(["rain over the hills"])
assert_type(settings.index.distance_max, int)
assert_type(fingerprints, Fingerprints)
assert_type(fingerprints.fingerprints, npt.NDArray[np.uint64])
parameters = Parameters(settings.fingerprint.bits, settings.index.distance_max)
with Index.open(Path(sys.argv[1]), parameters, map_bytes_max=2**24) as index:
    assert_type(index, Index)
    assert_type(Verdict.UNIQUE.label, str)
    print(index.parameters.words, len(fingerprints), Verdict.UNIQUE.label)
