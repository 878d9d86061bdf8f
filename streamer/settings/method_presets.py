"""Method presets by name, each a TOML file: a method as it was published, or as the data supports it."""

from pathlib import Path

from streamer.settings.methods import Fingerprint, Minhash
from streamer.settings.second_look import SecondLook

_FOLDER = Path(__file__).parent / "shipped"

METHOD_PRESETS = {file.stem: file for file in sorted(_FOLDER.glob("*.toml"))}
"""The files by name. A file gives every setting that its method's scheme reads."""

_OF_NO_METHOD = {f"fingerprint.{key}" for key in ("markup", "simplify", "segmenter", "dictionary", "key", "key_file")}
"""Properties of texts and their parsing: the same for every method."""

METHOD_KEYS = frozenset(
    {f"fingerprint.{key}" for key in Fingerprint.model_fields} - _OF_NO_METHOD
    | {f"minhash.{key}" for key in Minhash.model_fields}
    | {f"second_look.{key}" for key in SecondLook.model_fields}
    | {"index.distance_max"}
)
"""Settings controlled by a preset: those it leaves out keep their defaults, whatever a settings file says."""
