"""The schemes by name: what turns texts into fingerprints, and the index parameters that compare them."""

from collections.abc import Sequence
from typing import Protocol

from index import Parameters, minhash
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Settings
from streamer.text.normalisation import Normaliser


class Scheme(Protocol):
    """Texts -> fingerprints of one kind."""

    def fingerprint(
        self,
        texts: Sequence[str],
        titles: Sequence[str] | None = None,
        metadata: Sequence[Sequence[str]] | None = None,
    ) -> Fingerprints:
        """The fingerprint of every text, row for row. Each depends only on its text, title and metadata."""

    def stamp(self) -> dict[str, str]:
        """Everything that changes a fingerprint, by name. Programs with equal stamps give equal fingerprints."""


def scheme_for(settings: Settings) -> Scheme:
    """The scheme that the settings name, its tables loaded."""
    if settings.fingerprint.scheme == "minhash":
        return MinHasher(settings.minhash, Normaliser(settings.fingerprint))
    return Fingerprinter(settings.fingerprint, settings.second_look.look(settings.fingerprint.second_look))


def parameters_for(settings: Settings, stamp: dict[str, str]) -> Parameters:
    """The parameters of the index. Bands follow from the number of bins and from `similarity_min`."""
    index, chosen = settings.index, settings.minhash
    if settings.fingerprint.scheme == "minhash":
        banding = minhash.banding_for(chosen.bins, chosen.bin_bits, chosen.similarity_min)
        return Parameters(banding.bits, minhash.distance_of(chosen.similarity_min), index.insert, stamp, banding)
    look = settings.second_look.look(settings.fingerprint.second_look)
    return Parameters(settings.fingerprint.bits, index.distance_max, index.insert, stamp, look=look)
