"""The rule: what makes a document a duplicate.

Documents are decided in order. Each one's candidates are the entries that share a band or a block with it, also
earlier ones of its batch. The judge (`index.kernels.judge`) gives one reason a candidate:

1. LOST: an update of the same batch replaced it.
2. OTHER_ID: the document's id was given back, and the candidate is no version of that document.
3. TOO_FAR: it is farther than `distance_max`, with frames also by the plain distance (`index.matching.frame`).
4. REFUSED: the second look refuses it.
5. ROOT_GONE: it was dropped, and its root, the document that it was dropped for, no longer counts. A document that went
   out as unique goes on as its own root.
6. TEMPLATE_ONLY: it is near enough by the plain distance, and not by the one with frames.
7. ROOT_TOO_FAR: the document is too far from the root, so that copies of copies do not drift (`index.matching.root`).
8. TOO_SHORT: the document is much longer than the root.
9. COUNTS.

The nearest candidate that counts is the match, the earliest on ties. The document is a DUPLICATE of its root. Without
one it is EXTENDS if a candidate is only TOO_SHORT, else TEMPLATE if one is TEMPLATE_ONLY, else UNIQUE. A document whose id
was given back is never TEMPLATE.
What a known id means comes first: see `index.decide.recrawl`.

A duplicate enters, as a member of its root, if all candidates that count are farther than `member_distance_min` by the
plain distance: a nearer one would match hardly anything that they do not. With insert = "unique" none enters.
"""

from index.kernels import second_look as kernels
from index.kernels.judge import Rule
from index.kernels.second_look import LookRule
from index.matching.frame import OWN_LIMITS
from index.matching.minhash import DISTANCE_UNITS, distance_of
from index.matching.second_look import CosineLook, Look, MetadataLook
from index.storage.parameters import Parameters

_BEYOND = 2**15
"""Farther than any two documents."""


def rule_of(parameters: Parameters, longer: int) -> Rule:
    """The limits of decisions by these parameters; longer: `Longer.ten_thousandths`, or 0.

    >>> rule_of(Parameters(distance_max=3), longer=1_000).distance_max
    3
    """
    root, banding = parameters.root, parameters.banding
    return Rule(
        parameters.distance_max,
        _BEYOND if root is None else root.distance_max,
        _BEYOND if root is None else root.member_distance_min,
        0 if banding is None else banding.bin_bits,
        DISTANCE_UNITS,
        OWN_LIMITS,
        _look_rule(parameters.second_look),
        longer,
        # A document with all of its root's text and a tenth more is at a distance of 1 - 1 / 1.1 from it.
        longer * DISTANCE_UNITS // (DISTANCE_UNITS + longer),
    )


def _look_rule(look: Look) -> LookRule:
    if isinstance(look, CosineLook):
        return LookRule(kernels.COSINE, look.cosine_min, 0.0, 0, DISTANCE_UNITS)
    if isinstance(look, MetadataLook):
        limits = 0.0, look.content_weight, distance_of(look.similarity_min)
        return LookRule(kernels.METADATA, *limits, DISTANCE_UNITS)
    return LookRule(kernels.NO_LOOK, 0.0, 0.0, 0, DISTANCE_UNITS)
