"""Filing: claims to CLAIM, and signatures to RECALL and VERIFY. ORDER and FRAME file alike."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import xxhash

from index.dataflow.message import Kind, Message, Stage
from index.dataflow.rows import (
    ADDS,
    ASKS,
    EXACT_PAGES,
    PAGE_BITS,
    STAYS,
    Layout,
    Rows,
    packed_by_group,
    shard_of,
    shard_of_batches,
)
from index.lsm.shape import MinhashShape
from index.matching.frame import without_frames
from index.matching.minhash import HASH_BITS, band_hashes
from index.matching.simhash import BLOCK_BITS, flips, probe_keys, probe_radii
from index.storage.parameters import Parameters


class _Shape(MinhashShape):
    """Without compiled loops, which hang in a JVM's threads (see `frame`)."""

    def band_hashes(self, values: npt.NDArray[np.uint8], rows: int) -> npt.NDArray[np.uint64]:
        return band_hashes(values, self.tables, rows) << np.uint64(64 - HASH_BITS)


class Filing:
    """Messages that file documents."""

    def __init__(self, parameters: Parameters, layout: Layout, shards: int):
        """See `Dataflow`."""
        self._parameters, self._layout, self._shards = parameters, layout, shards
        # RECALL keeps whole batches on arrival, and parts of them once all have come.
        kept = Kind.SIGNATURES if parameters.frames is None else Kind.PARTS
        self._kinds: Mapping[Stage, Kind] = (
            {Stage.RECALL: kept, Stage.VERIFY: Kind.SIGNATURES} if layout.recalls else {}
        )
        if parameters.banding is None:
            masks = [flips(radius) for radius in probe_radii(parameters.blocks, parameters.distance_max)]
            self._adds = np.concatenate(masks) == 0

    def wholes(
        self, fingerprints: npt.NDArray[np.uint64], looks: npt.NDArray[np.uint8], letters: npt.NDArray[np.uint32]
    ) -> Rows:
        """`Layout.whole` for n documents; their fingerprints may lack frames."""
        wholes = np.zeros(len(fingerprints), self._layout.whole)
        wholes["fingerprint"] = without_frames(fingerprints, self._parameters.stored_words)
        wholes["look"], wholes["letters"] = looks, letters[:, None]
        return wholes

    def filed(
        self, signatures: Rows, slot: int, exact: Rows | None = None, *, seeded: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[Message]:
        """Messages for NEAR documents of a batch in order, as `Layout.signature`, and for EXACT ones.

        seeded  bool [n], which rows are entries: the batch asks for nothing. None: it asks
        """
        claims = [self._near_claims(signatures)] + ([] if exact is None else [self._exact_claims(exact)])
        if self._layout.leaves and exact is not None:
            signatures = np.concatenate([signatures, exact])
            # A leaf has its documents in order, and is kept at once.
            signatures = np.take(signatures, np.argsort(signatures["low"], kind="stable"))
        shards = shard_of_batches(signatures["high"], self._shards)
        for stage, kind in self._kinds.items():
            if seeded is None or self._layout.leaves or stage is not Stage.VERIFY:
                for shard, content in packed_by_group(signatures, shards):
                    yield Message(stage, shard, slot, kind, content)
        filed = np.concatenate(claims)
        if seeded is not None:
            filed = filed[(filed["use"] & ADDS != 0) & seeded[filed["low"]]]
            # RESOLVE does not learn which are alike.
            filed["use"] = ADDS | STAYS if self._layout.leaves else ADDS
        for shard, content in packed_by_group(filed, shard_of(filed["page"], self._shards)):
            yield Message(Stage.CLAIM, shard, slot, Kind.CLAIMS, content)

    def _near_claims(self, signatures: Rows) -> Rows:
        wholes, parameters = signatures["whole"], self._parameters
        fingerprints = np.ascontiguousarray(wholes["fingerprint"])
        if parameters.banding is not None:
            shape = _Shape(parameters.stored_words, parameters.blocks, parameters.banding)
            hashes = shape.hashes(fingerprints) >> np.uint64(64 - HASH_BITS)
            bands = np.arange(parameters.blocks, dtype=np.uint64) << np.uint64(PAGE_BITS)
            pages = bands | hashes
            # The page has the whole hash.
            words = np.broadcast_to(_digests(wholes)[:, None, None], (*hashes.shape, 1))
            uses = np.full(hashes.shape, ADDS | ASKS, np.uint8)
        else:
            keys = probe_keys(fingerprints, parameters.distance_max).astype(np.uint64)
            blocks = (keys >> np.uint64(BLOCK_BITS)) << np.uint64(PAGE_BITS)
            pages = blocks | (keys & np.uint64(2**BLOCK_BITS - 1))
            words = np.broadcast_to(fingerprints[:, None, :], (*keys.shape, fingerprints.shape[1]))
            uses = np.broadcast_to(np.where(self._adds, ADDS | ASKS, ASKS).astype(np.uint8), keys.shape)
        claims = np.zeros(pages.shape, self._layout.claim)
        claims["high"], claims["low"] = signatures["high"][:, None], signatures["low"][:, None]
        claims["page"], claims["use"], claims["words"] = pages, uses, words
        claims["letters"] = wholes["letters"][:, None, :]
        if claims["alike"].size:
            claims["alike"] = _digests(wholes)[:, None, None]
        return claims.reshape(-1)

    def _exact_claims(self, exact: Rows) -> Rows:
        """Claims of EXACT documents, as `Layout.signature` without looks and letters."""
        claims, digests = np.zeros(len(exact), self._layout.claim), _digests(exact["whole"])
        claims["high"], claims["low"], claims["use"] = exact["high"], exact["low"], ADDS | ASKS
        claims["words"] = exact["whole"]["fingerprint"][:, : claims["words"].shape[1]]
        if self._parameters.banding is not None:
            claims["words"] = digests[:, None]
        claims["alike"], claims["page"] = digests[:, None], EXACT_PAGES | digests >> np.uint64(2)
        return claims


def _digests(rows: Rows) -> npt.NDArray[np.uint64]:
    """XXH3 of each row, uint64 [n]."""
    octets = np.ascontiguousarray(rows).view(f"V{rows.itemsize}").tolist()
    return np.array([xxhash.xxh3_64_intdigest(each) for each in octets], np.uint64)
