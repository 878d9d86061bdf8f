"""Settings for the second look, their form for the index, and the defaults that they imply."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from streamer.settings.types import Section

if TYPE_CHECKING:
    from index import second_look

LookKind = Literal["none", "cosine", "metadata"]

LOOK_OF_SIMHASH: LookKind = "cosine"
"""SimHash's default second look."""

ROOT_SIMILARITY_MIN = 0.5
DISTANCES = {"none": 4, "cosine": 7}
"""Default index.distance_max by second look: the widest without wrong matches in the measurements (docs/simhash.md)."""


class SecondLook(Section):
    """A second look at matches within the distance, chosen by `fingerprint.second_look`. A stricter one is set by a restart."""

    cosine_min: float = Field(0.85, ge=0.0, le=1.0)
    """With "cosine": minimum cosine between the feature weights of a match."""
    cosine_cells: int = Field(128, ge=16, le=1_024)
    """Cells of the vectors that estimate the cosine: bytes of each entry."""
    similarity_min: float = Field(0.25, ge=0.01, le=1.0)
    """With "metadata": minimum similarity of a match: content_weight / (1 + distance) + (1 - content_weight) * Jaccard
    similarity of their metadata.
    """
    content_weight: float = Field(0.9, ge=0.5, le=1.0)
    """Weight of the distance in that similarity; the metadata have the rest."""
    metadata_functions: int = Field(100, ge=16, le=256)
    """Hash functions that estimate that Jaccard similarity: bytes of each entry."""

    def look(self, kind: LookKind) -> "second_look.Look | None":
        """The second look as the index takes it, or None."""
        if kind == "none":
            return None
        # Reading settings needs no kernels.
        from index import second_look

        if kind == "cosine":
            return second_look.CosineLook(self.cosine_cells, self.cosine_min)
        return second_look.MetadataLook(self.metadata_functions, self.content_weight, self.similarity_min)


def with_implied(given: Any) -> Any:
    """The given settings, with the defaults that the scheme and its second look imply. All such defaults are here.

    SimHash looks twice, by cosine, as the preset simhash-best does. index.distance_max is DISTANCES[second look], or follows from
    the thresholds for metadata. index.insert is "unique": only MinHash learns templates, and without them roots would lose more
    pages of a site. MinHash: a root need not be more similar than a match.
    """
    if not isinstance(given, Mapping):
        return given
    if _given(given, "fingerprint").get("scheme") != "simhash":
        return {**given, "index": {**_implied_root(_given(given, "minhash")), **_given(given, "index")}}
    fingerprint = {"second_look": LOOK_OF_SIMHASH, **_given(given, "fingerprint")}
    implied = {"insert": "unique", **_implied_distance(fingerprint["second_look"], given)}
    return {**given, "fingerprint": fingerprint, "index": {**implied, **_given(given, "index")}}


def _implied_root(minhash: Mapping[str, Any]) -> dict[str, Any]:
    """The index.root_similarity_min that a low minhash.similarity_min implies; validation reports a wrong value elsewhere."""
    least = minhash.get("similarity_min")
    return {"root_similarity_min": least} if isinstance(least, float) and 0 < least < ROOT_SIMILARITY_MIN else {}


def _implied_distance(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The index.distance_max that a second look implies; nothing if the thresholds are wrong, which validation reports."""
    if kind != "metadata":
        return {"distance_max": DISTANCES[kind]} if kind in list(DISTANCES) else {}
    try:
        look = SecondLook.model_validate(_given(given, "second_look")).look("metadata")
    except ValidationError:
        return {}
    from index import DISTANCE_MAX, second_look

    assert isinstance(look, second_look.MetadataLook)
    return {"distance_max": look.reach} if look.reach <= DISTANCE_MAX else {}


def _given(given: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    """The given keys in a section, which may already be a model."""
    keys = given.get(section, {})
    if isinstance(keys, BaseModel):
        return keys.model_dump(exclude_unset=True)
    return keys if isinstance(keys, Mapping) else {}
