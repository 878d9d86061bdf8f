"""Candidates with learnt frames: indexed documents that the walk of `decide.rule` measures, and rows in bands.

The walk decides like insert = "root" by the distance of `matching.frame`, with two differences:

- A row is TEMPLATE, delivered as unique, if it has a match by the plain distance alone. It names the nearest one.
- A duplicate enters if it is far enough by the plain distance from all matches that count: in another frame it may match
  documents that they do not.
"""

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.matching.candidates import CandidateSet, ascending
from index.session import ReadSession
from index.storage import documents, log


def add_framed(session: ReadSession, candidates: CandidateSet, numbers: npt.NDArray[np.uint64]) -> None:
    """Add visible indexed documents, uint64 [m], and their roots, with what the walk needs to measure them."""
    unknown = candidates.unknown(numbers)
    stored = log.documents(session.transaction, unknown, session.words)
    roots = documents.counting_roots(session.visibility, unknown, stored)
    gone = roots == NO_NUMBER
    roots = np.where(gone, unknown, roots)
    # A root is its own root, so this needs no second round.
    others = candidates.unknown(roots[~np.isin(roots, unknown)])
    of_others = log.documents(session.transaction, others, session.words)
    fingerprints = np.concatenate([stored.fingerprints, of_others.fingerprints])
    lengths = np.concatenate([stored.lengths, of_others.lengths]).astype(np.int64)
    candidates.add(
        np.concatenate([unknown, others]), fingerprints, lengths=lengths, roots=np.concatenate([roots, others])
    )
    candidates.exclude(ascending(unknown[gone]))
