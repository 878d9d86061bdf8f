"""Presets: whole methods, each complete, above a settings file and below the command line; and what they replaced."""

import tomllib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from streamer.errors import SettingsError
from streamer.fingerprint.hashing import hash_text
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.presets import METHOD_DETAILS, METHOD_KEYS, METHOD_PRESETS
from streamer.settings.settings import Settings, load, without_use
from streamer.settings.toml import as_toml
from streamer.settings.values import fields

NAMES = sorted(METHOD_PRESETS)


def of_preset(name: str, *overrides: str, file: Path | None = None, **variables: str) -> Settings:
    return load(file, overrides, variables, preset=name)


def test_every_method_has_a_preset() -> None:
    simhash = ["simhash-best", "simhash-classic", "simhash-improved-1", "simhash-improved-2", "simhash-plain"]
    assert ["keep-text", "minhash", "ocr", "short-texts", *simhash] == NAMES


def test_the_plain_preset_is_the_classic_one_with_particles() -> None:
    assert of_preset("simhash-plain") == of_preset("simhash-classic", "fingerprint.stop_words=")
    text = ["我的书在他的家里的桌子上"]
    plain, classic = (
        Fingerprinter(of_preset(name).fingerprint).weighted_features(text, [""])[0]
        for name in ("simhash-plain", "simhash-classic")
    )
    assert weight_of("的", plain) == 3
    assert weight_of("的", classic) is None
    assert weight_of("桌子", plain) == weight_of("桌子", classic) == 1


def weight_of(word: str, features: tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]) -> float | None:
    hashes, weights = features
    return dict(zip(hashes.tolist(), weights.tolist(), strict=True)).get(hash_text(word, 1)[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_complete_and_says_nothing_without_use(name: str) -> None:
    """Keys that are unset by default may be left out, and those of a second look that is not taken."""
    said = {
        f"{section}.{key}"
        for section, keys in tomllib.loads(METHOD_PRESETS[name].read_text(encoding="utf-8")).items()
        for key in keys
    }
    settings = of_preset(name)
    assert without_use(settings) == []
    chosen = settings.fingerprint
    if chosen.scheme == "minhash":
        due = {f"minhash.{key}" for key in type(settings.minhash).model_fields} | {"fingerprint.scheme"}
    else:
        prefix = {"cosine": ("cosine_",), "metadata": ("similarity_", "content_", "metadata_"), "none": ("-",)}
        look = [key for key in type(settings.second_look).model_fields if key.startswith(prefix[chosen.second_look])]
        due = {key for key in METHOD_KEYS if key.startswith("fingerprint.")} | {"index.distance_max"}
        due |= {f"second_look.{key}" for key in look}
        due -= {f"fingerprint.{key}" for key, value in chosen if value is None}
        due -= {"fingerprint.shingle_words"} if chosen.features == "words" else set()
    assert due | {"fingerprint.second_look"} == said - {"decode.metadata", "index.new_max"}
    assert ("index.new_max" in said) == (name == "keep-text")


@pytest.mark.parametrize("methods", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_of_a_preset_gives_it_again_without_the_preset(
    name: str, methods: bool, tmp_path: Path
) -> None:
    file = tmp_path / "printed.toml"
    file.write_text(as_toml(of_preset(name), methods=methods), encoding="utf-8")
    assert load(file, (), {}) == of_preset(name)


def printed(settings: Settings, *, methods: bool) -> set[str]:
    """Keys in the TOML file of the settings, set or unset."""
    text = as_toml(settings, methods=methods).replace("# ", "").replace(" is unset", " = 0")
    keys = (line for line in text.splitlines() if not line.endswith("--all"))
    return {f"{section}.{key}" for section, rows in tomllib.loads("\n".join(keys)).items() for key in rows}


def test_presets_control_every_setting_of_methods() -> None:
    assert METHOD_DETAILS <= METHOD_KEYS
    assert {"fingerprint.weight", "fingerprint.idf", "second_look.metadata_functions"} <= METHOD_DETAILS
    assert not {"fingerprint.scheme", "minhash.similarity_min", "index.distance_max"} & METHOD_DETAILS


def test_an_operator_is_shown_no_setting_of_methods_at_its_default() -> None:
    assert printed(Settings(), methods=False) == fields(Settings).keys() - METHOD_DETAILS
    assert printed(Settings(), methods=True) == fields(Settings).keys()
    assert f"# {len(METHOD_DETAILS)} settings of methods have their defaults" in as_toml(Settings(), methods=False)


def test_an_operator_is_shown_a_setting_of_methods_that_differs_from_its_default(tmp_path: Path) -> None:
    overrides = ["fingerprint.scheme=simhash", "fingerprint.weight=tf", "fingerprint.idf=jieba"]
    by_option = load(None, overrides, {})
    assert printed(by_option, methods=False) & METHOD_DETAILS == {"fingerprint.weight", "fingerprint.idf"}
    file = tmp_path / "settings.toml"
    file.write_text('[fingerprint]\nscheme = "simhash"\nweight = "tf"\n', encoding="utf-8")
    by_file = load(file, (), {"STREAMER_FINGERPRINT__IDF": "jieba"})
    assert by_file == by_option


def test_a_preset_takes_the_place_of_the_method_in_the_file_and_the_variables_and_of_nothing_else(
    tmp_path: Path,
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        '[fingerprint]\nscheme = "minhash"\nmarkup = "html"\n[minhash]\nbins = 64\n[index]\ninsert = "unique"\n'
        '[decode]\nmetadata = ["/mine"]\n',
        encoding="utf-8",
    )
    settings = of_preset("simhash-improved-1", file=file, STREAMER_INDEX__DISTANCE_MAX="1")
    assert (settings.fingerprint.scheme, settings.index.distance_max, settings.minhash.bins) == ("simhash", 5, 128)
    assert (settings.fingerprint.markup, settings.index.insert) == ("html", "unique")
    assert settings.decode.metadata == ["/mine"]


def test_an_option_wins_over_a_preset_and_must_be_of_use() -> None:
    settings = of_preset("simhash-classic", "fingerprint.bits=128", "fingerprint.stop_words=")
    assert (settings.fingerprint.bits, settings.fingerprint.stop_words) == (128, None)
    with pytest.raises(SettingsError, match=r"^fingerprint.idf: has no effect with fingerprint.scheme = \"minhash\""):
        of_preset("minhash", "fingerprint.idf=jieba")
