"""The shape of a table, by index scheme. A shape is a strategy: it files, packs, moves and looks up entries."""

from index.lsm.hashes.shape import IdShape, MinhashShape
from index.lsm.simhash_shape import SimhashShape
from index.storage.parameters import Parameters

SchemeShape = SimhashShape | MinhashShape
Shape = SchemeShape | IdShape


def shape_of(parameters: Parameters) -> SchemeShape:
    """Shape for an index with these parameters."""
    if parameters.banding is None:
        return SimhashShape(parameters.stored_words)
    return MinhashShape(parameters.stored_words, parameters.banding.bands, parameters.banding)
