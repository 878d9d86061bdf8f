"""Presets by name: a method as one whole, as it was published or as the data supports it, each a TOML file."""

from pathlib import Path

from streamer.settings.methods import Fingerprint, Minhash
from streamer.settings.second_look import SecondLook

_FOLDER = Path(__file__).parent / "shipped"

METHOD_PRESETS = {file.stem: file for file in sorted(_FOLDER.glob("*.toml"))}
"""The files by name. A file says every setting of its method that its scheme reads."""

_OF_NO_METHOD = {f"fingerprint.{key}" for key in ("markup", "simplify", "segmenter", "dictionary", "key", "key_file")}
"""What texts are like and how they are read: the same for every method."""

METHOD_KEYS = frozenset(
    {f"fingerprint.{key}" for key in Fingerprint.model_fields} - _OF_NO_METHOD
    | {f"minhash.{key}" for key in Minhash.model_fields}
    | {f"second_look.{key}" for key in SecondLook.model_fields}
    | {"index.distance_max"}
)
"""The settings that a preset takes over: what it leaves out is as shipped, whatever a settings file says."""
