"""The shape of a table, by the scheme of its index. A shape is a strategy: how entries are filed, packed, moved and looked up."""

from index.lsm.hashes.shape import IdShape, MinhashShape
from index.lsm.simhash_shape import SimhashShape
from index.storage.parameters import Parameters

SchemeShape = SimhashShape | MinhashShape
Shape = SchemeShape | IdShape


def shape_of(parameters: Parameters) -> SchemeShape:
    """Shape of the entries of an index with these parameters."""
    if parameters.banding is None:
        return SimhashShape(parameters.stored_words)
    return MinhashShape(parameters.stored_words, parameters.banding.bands, parameters.banding)
