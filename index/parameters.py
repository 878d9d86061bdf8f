"""What an index was built with. Stamped into it at creation, and held against what every opening asks for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from index.decision import Insert
from index.errors import FormatUnknown, ParametersDiffer
from index.layout import FORMAT_VERSION

BITS = (64, 128)
DISTANCE_MAX = 7


@dataclass(frozen=True, slots=True)
class Parameters:
    """Everything that must not change during an index's life.

    bits          length of a fingerprint, 64 or 128
    distance_max  documents this many bits apart or nearer are near-duplicates, 0 to 7
    insert        "unique": only unique documents become entries; "all": duplicates too
    fingerprint   the caller's own stamp: every setting that changes a fingerprint, by name. The index compares it and
                  does not read it.
    """

    bits: int = 64
    distance_max: int = 3
    insert: Insert = "unique"
    fingerprint: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise ValueError(f"bits must be one of {BITS}, not {self.bits}")
        if not 0 <= self.distance_max <= DISTANCE_MAX:
            raise ValueError(f"distance_max must be 0 to {DISTANCE_MAX}, not {self.distance_max}")
        if self.insert not in ("unique", "all"):
            raise ValueError(f"insert must be 'unique' or 'all', not {self.insert!r}")

    @property
    def words(self) -> int:
        """64-bit words in a fingerprint."""
        return self.bits // 64


def stamp_of(parameters: Parameters) -> bytes:
    """The parameters as they stand in the index."""
    stamp = {
        "format": FORMAT_VERSION,
        "bits": parameters.bits,
        "distance_max": parameters.distance_max,
        "insert": parameters.insert,
        "fingerprint": dict(parameters.fingerprint),
    }
    return json.dumps(stamp, sort_keys=True).encode()


def read_stamp(stamp: bytes, where: str) -> Parameters:
    """The reverse of `stamp_of`. Raises FormatUnknown; `where` names the index in the message."""
    try:
        fields = json.loads(stamp)
        version = fields.pop("format")
    except (ValueError, KeyError, AttributeError, TypeError) as problem:
        raise FormatUnknown(f"The index in {where} has no readable stamp.") from problem
    if version != FORMAT_VERSION:
        raise FormatUnknown(
            f"The index in {where} is of format version {version}; this program knows version {FORMAT_VERSION}. "
            "Use the program that wrote it, or build the index anew in another directory."
        )
    return Parameters(**fields)


def require_equal(stored: Parameters, asked: Parameters, where: str) -> None:
    """Raise ParametersDiffer, naming every setting that differs, unless both are the same."""
    of_stored, of_asked = _by_name(stored), _by_name(asked)
    names = sorted(name for name in of_stored.keys() | of_asked.keys() if of_stored.get(name) != of_asked.get(name))
    if names:
        lines = [f"  {name}: stored {_shown(of_stored, name)}, asked {_shown(of_asked, name)}" for name in names]
        raise ParametersDiffer(
            f"The index in {where} was built with other settings:\n"
            + "\n".join(lines)
            + "\nUse the stored settings, or begin a new index in another directory (index.directory)."
        )


def _by_name(parameters: Parameters) -> dict[str, str]:
    own = {name: str(getattr(parameters, name)) for name in ("bits", "distance_max", "insert")}
    return own | {f"fingerprint.{name}": value for name, value in parameters.fingerprint.items()}


def _shown(values: Mapping[str, str], name: str) -> str:
    return values.get(name, "(not set)")
