"""Parameters of an index: stamped into it at creation, compared at every opening."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from index.entry import NO_DISTANCE, Insert
from index.errors import Difference, FormatUnknownError, ParametersDifferError
from index.matching.frame import FrameRule
from index.matching.minhash import Banding
from index.matching.root import RootRule
from index.matching.scheme import DISTANCE_MAX as DISTANCE_MAX
from index.matching.scheme import Scheme, scheme_of
from index.matching.second_look import NO_LOOK, Look, look_fields, look_of
from index.storage.layout import FORMAT_VERSION

_PARTS: Mapping[str, tuple[Callable[[Any], dict[str, Any]], Callable[..., Any]]] = {
    "banding": (asdict, Banding),
    "look": (look_fields, look_of),
    "root": (asdict, RootRule),
    "frames": (asdict, FrameRule),
}
"""Optional parts of the parameters: their fields, and the reverse."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What must not change during an index's life, except thresholds: a decision may use stricter ones.

    >>> Parameters(bits=128).words
    2

    bits          length of a fingerprint: 64 or 128; for MinHash bins * bin_bits
    distance_max  largest distance of near-duplicates: 0 to 7 bits; for MinHash 0 to 10,000 ten-thousandths of 1 - similarity
    insert        "unique": only unique documents become entries; "root": duplicates too, and a match counts only near its
                  root
    fingerprint   the caller's stamp: every setting that changes a fingerprint, by name. The index only compares it.
    banding       signatures and bands of MinHash; None: the scheme is SimHash
    look          SimHash's second look at documents within distance_max; None: all of them count
    root          limits of insert = "root"; None otherwise
    frames        when a host's frame is known; None: no frames. Only MinHash with insert = "root" has them
    """

    bits: int = 64
    distance_max: int = 3
    insert: Insert = "unique"
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    banding: Banding | None = None
    look: Look | None = None
    root: RootRule | None = None
    frames: FrameRule | None = None

    def __post_init__(self) -> None:
        by, look = self.comparison, self.second_look
        if self.bits not in by.possible_bits:
            raise ValueError(f"bits must be one of {by.possible_bits}, not {self.bits}")
        if not 0 <= self.distance_max <= self.distance_limit:
            raise ValueError(f"distance_max must be 0 to {self.distance_limit}, not {self.distance_max}")
        if self.insert not in get_args(Insert):
            raise ValueError(f"insert must be one of {', '.join(get_args(Insert))}, not {self.insert!r}")
        if (self.insert == "root") != (self.root is not None):
            raise ValueError("insert = 'root' needs the limits of a root, and nothing else has them")
        if self.root is not None and not self.distance_max <= self.root.distance_max <= by.farthest:
            raise ValueError(
                f"a root is at least as far as distance_max = {self.distance_max}, and at most {by.farthest}, not "
                f"{self.root.distance_max}"
            )
        if self.frames is not None and (self.root is None or self.scheme != "minhash"):
            raise ValueError("frames are learnt from MinHash signatures, with insert = 'root' alone")
        if look.bytes and self.scheme == "minhash":
            raise ValueError("there is no second look at MinHash signatures")
        if self.distance_max != (radius := look.radius(self.distance_max)):
            raise ValueError(f"distance_max must be {radius}, as far as {look} reaches")

    @property
    def words(self) -> int:
        """64-bit words per fingerprint, as in `Entries`."""
        return self.bits // 64

    @property
    def stored_words(self) -> int:
        """64-bit words of a stored fingerprint, with the frame's bits if the index learns frames."""
        return self.words if self.frames is None else self.words + self.comparison.frame_words()

    @property
    def comparison(self) -> Scheme:
        """How fingerprints are compared and filed."""
        return scheme_of(self.bits, self.banding)

    @property
    def second_look(self) -> Look:
        """The second look; NO_LOOK, which accepts every match, without one."""
        return self.look or NO_LOOK

    @property
    def scheme(self) -> Literal["simhash", "minhash"]:
        """The scheme's name."""
        return self.comparison.name

    @property
    def by_similarity(self) -> bool:
        """Whether verdicts give 1 - similarity, in ten-thousandths, instead of bits."""
        return self.comparison.by_similarity or self.second_look.by_similarity

    @property
    def look_bytes(self) -> int:
        """Bytes of an entry's look; 0 without a second look."""
        return self.second_look.bytes

    @property
    def distance_limit(self) -> int:
        """The largest possible `distance_max`."""
        return self.comparison.distance_limit

    @property
    def blocks(self) -> int:
        """Block keys per entry."""
        return self.comparison.keys

    def distances(self, left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.int16]:
        """Row-by-row distance: fingerprints uint64 [n, words] each -> int16 [n], in the unit of `distance_max`."""
        return self.comparison.distances(left, right)

    def root_distances(
        self,
        fingerprints: npt.NDArray[np.uint64],
        roots: npt.NDArray[np.uint64],
        looks: npt.NDArray[np.uint8],
        root_looks: npt.NDArray[np.uint8],
    ) -> npt.NDArray[np.int16]:
        """Distance of each document to its match's root; NO_DISTANCE if the root is too far.

        uint64 [n, words] each, uint8 [n, look bytes] each -> int16 [n]. A second look judges the root as it judges a
        match.
        """
        assert self.root is not None, "only insert = 'root' asks for the distance of roots"
        distances = self.distances(fingerprints, roots)
        judged = self.second_look.judge(distances, looks, root_looks)
        near = judged.counts & (distances <= self.root.distance_max)
        return np.where(near, judged.distances, NO_DISTANCE).astype(np.int16)

    def _parts(self) -> dict[str, dict[str, Any]]:
        """Fields of the optional parts that are set, by the part's name."""
        parts = ((name, getattr(self, name)) for name in _PARTS)
        return {name: _PARTS[name][0](part) for name, part in parts if part is not None}

    def fields(self) -> dict[str, Any]:
        """The parameters for JSON."""
        names = ("bits", "distance_max", "insert")
        return {name: getattr(self, name) for name in names} | {"fingerprint": dict(self.fingerprint)} | self._parts()

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Undo `fields`. Raises KeyError, TypeError, ValueError."""
        return cls(**{name: _PARTS[name][1](**value) if name in _PARTS else value for name, value in fields.items()})

    def stamp(self) -> bytes:
        """The stored form: parameters and format version."""
        return json.dumps({"format": FORMAT_VERSION, **self.fields()}, sort_keys=True).encode()

    @classmethod
    def from_stamp(cls, stamp: bytes, where: str) -> Self:
        """Undo `stamp`. Raises FormatUnknownError; `where` names the index in the message."""
        try:
            fields = json.loads(stamp)
            version = fields.pop("format")
        except (ValueError, KeyError, AttributeError, TypeError) as problem:
            raise FormatUnknownError(f"The index in {where} has no readable stamp.") from problem
        if version != FORMAT_VERSION:
            raise FormatUnknownError(
                f"The index in {where} is of format version {version}; this program knows version {FORMAT_VERSION}. "
                "Rebuild it from the output topics (streamer index rebuild DIRECTORY --topics --switch). Or move it away, and "
                "start the service or the filter, which restores it from what was delivered. Where only the index is left, "
                "export it with the program that wrote it, and enter the export (streamer index rebuild DIRECTORY --export FILE)."
            )
        return cls.from_fields(fields)

    def with_thresholds(self, asked: "Parameters") -> "Parameters":
        """These parameters with thresholds from `asked`, and bands that fit them.

        Unchanged if entries would have to change: another scheme, length, or kind of second look.
        """
        if self._filed() != asked._filed():
            return self
        root = self.root
        if root is not None:
            root = asked.root or replace(root, distance_max=max(root.distance_max, asked.distance_max))
        return replace(self, distance_max=asked.distance_max, look=asked.look, banding=asked.banding, root=root)

    def deciding(self, asked: "Parameters", where: str) -> "Parameters":
        """Parameters for deciding by `asked` in an index with this stamp; `where` names the index in messages.

        Thresholds may be stricter than the stored ones: matches beyond them do not count. Looser ones would need
        candidates and entries that the index lacks. What files entries stays as stored: MinHash's bands, and with
        insert = "root" the members' distance to their matches. Raises ParametersDifferError at a looser threshold, or any
        other difference.
        """
        if self._filed() != asked._filed():
            self.require_equal(asked, where)
        look, root = self.second_look.stricter(asked.second_look), self.root
        if root is not None and asked.root is not None:
            root = replace(root, distance_max=min(root.distance_max, asked.root.distance_max))
        distance_max = look.radius(min(self.distance_max, asked.distance_max))
        stricter = replace(self, distance_max=distance_max, look=look if look.bytes else None, root=root)
        if distance_max < self.distance_max:
            asked = asked._filed_as(self)
        stricter.require_equal(asked, where)
        return stricter

    def _filed(self) -> tuple[object, ...]:
        """What no threshold changes in an entry: scheme, length, kind and length of the second look."""
        return self.scheme, self.bits, self.second_look.kind, self.look_bytes

    def _filed_as(self, stored: "Parameters") -> "Parameters":
        """These parameters with the values derived from a threshold as in `stored`."""
        banding, root = self.banding, self.root
        if banding is not None and stored.banding is not None and banding.bins == stored.banding.bins:
            banding = replace(banding, bands=stored.banding.bands, rows=stored.banding.rows)
        if root is not None and stored.root is not None:
            root = replace(root, member_distance_min=stored.root.member_distance_min)
        return replace(self, banding=banding, root=root)

    def require_equal(self, asked: "Parameters", where: str) -> None:
        """Compare the stored parameters with `asked`; `where` names the index in the message.

        Raises ParametersDifferError, which names every different setting, or only the scheme if that differs.
        """
        ours, theirs = self.by_name(), asked.by_name()
        names = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        if "scheme" in names:
            names = ["scheme"]
        if names:
            raise ParametersDifferError(where, [Difference(name, ours.get(name), theirs.get(name)) for name in names])

    def by_name(self) -> dict[str, str]:
        """Every setting as text, by its name in messages."""
        settings = {name: str(getattr(self, name)) for name in ("scheme", "bits", "insert")}
        settings |= self.comparison.threshold(self.distance_max)
        for part, fields in {**self._parts(), "fingerprint": self.fingerprint}.items():
            settings |= {f"{part}.{name}": str(value) for name, value in fields.items()}
        return settings
