"""Method presets by name, each a TOML file: a method as it was published, or as the data supports it."""

from pathlib import Path

from pydantic import BaseModel

from streamer.settings.methods import Fingerprint, Minhash
from streamer.settings.second_look import SecondLook

_FOLDER = Path(__file__).parents[1] / "fingerprint" / "methods" / "presets"

METHOD_PRESETS = {file.stem: file for file in sorted(_FOLDER.glob("*.toml"))}
"""The files by name. A file gives every setting that its method's scheme reads."""


def _keys(section: str, model: type[BaseModel]) -> frozenset[str]:
    return frozenset(f"{section}.{key}" for key in model.model_fields)


_FINGERPRINT = _keys("fingerprint", Fingerprint)

_OF_BOTH_SCHEMES = {f"fingerprint.{key}" for key in ("scheme", "markup", "simplify", "key", "key_file")}

READ_BY_MINHASH = _keys("minhash", Minhash) | {"index.root_similarity_min"}
"""Settings without effect on SimHash."""

READ_BY_SIMHASH = (
    _FINGERPRINT - _OF_BOTH_SCHEMES
    | _keys("second_look", SecondLook)
    | {"index.distance_max", "index.root_distance_max"}
)
"""Settings without effect on MinHash."""

METHOD_KEYS = (
    _FINGERPRINT
    - {f"fingerprint.{key}" for key in ("markup", "simplify", "segmenter", "dictionary", "key", "key_file")}
    | _keys("minhash", Minhash)
    | _keys("second_look", SecondLook)
    | {"index.distance_max"}
)
"""Settings controlled by a preset: those it leaves out keep their defaults, whatever a settings file says.

The others describe texts and their parsing, and are the same for every method.
"""

METHOD_DETAILS = frozenset(
    {
        f"fingerprint.{key}"
        for key in (
            *("features", "shingle_words", "character_shingle_size", "weight", "idf", "topic_length", "word_length"),
            *("part_of_speech", "marker_factor", "markers", "title_factor", "stop_words"),
        )
    }
    | {f"minhash.shingle{key}" for key in ("s", "_words", "_characters_wide", "_characters_narrow")}
    | {f"second_look.{key}" for key in ("cosine_cells", "similarity_min", "content_weight", "metadata_functions")}
)
"""Settings that make one method another, as its paper has it: the content of presets, not an operator's settings."""
