"""The settings of the second look: what the index is told, what follows from them, and what they contradict."""

from pathlib import Path

import pytest

from index.errors import ParametersDifferError
from index.matching.second_look import CosineLook, MetadataLook
from streamer.errors import SettingsError
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.service.wiring import open_index
from streamer.settings.second_look import SecondLook
from streamer.settings.settings import Decode, Fingerprint, Index, Settings, load
from streamer.settings.toml import as_toml

METADATA = ("fingerprint.second_look=metadata", "decode.metadata=/tags")


def chosen(*overrides: str) -> Settings:
    return load(None, ["fingerprint.scheme=simhash", *overrides], {})


def test_simhash_alone_is_the_preset_simhash_best_and_is_shown_as_it(tmp_path: Path) -> None:
    settings = chosen()
    assert settings == load(None, (), {}, preset="simhash-best")
    assert settings == Settings(fingerprint=Fingerprint(scheme="simhash"))
    assert (settings.fingerprint.second_look, settings.index.distance_max) == ("cosine", 7)
    shown = tmp_path / "shown.toml"
    shown.write_text(as_toml(settings), encoding="utf-8")
    assert 'second_look = "cosine"' in shown.read_text(encoding="utf-8")
    assert load(shown, (), {}) == settings


@pytest.mark.parametrize(
    ("overrides", "kind", "distance_max"),
    [
        (("index.distance_max=3",), "cosine", 3),
        (("fingerprint.second_look=none",), "none", 4),
        (("fingerprint.second_look=none", "index.distance_max=6"), "none", 6),
        (("fingerprint.second_look=cosine",), "cosine", 7),
        (("index.insert=root", "fingerprint.bits=128"), "cosine", 7),
        (("fingerprint.scheme=minhash",), "none", 4),
    ],
)
def test_what_a_person_sets_stays_and_the_rest_follows(
    overrides: tuple[str, ...], kind: str, distance_max: int
) -> None:
    settings = chosen(*overrides)
    assert (settings.fingerprint.second_look, settings.index.distance_max) == (kind, distance_max)


def test_an_index_of_the_former_default_is_refused_with_what_differs_until_the_second_look_is_off(
    tmp_path: Path,
) -> None:
    own = f"index.directory={tmp_path / 'index'}"
    former = chosen(own, "fingerprint.second_look=none")
    open_index(former, scheme_for(former)).close()
    with pytest.raises(
        ParametersDifferError,
        match=r"distance_max: stored 4, asked 7(.|\n)*second_look: stored \(not set\), asked cosine",
    ):
        open_index(chosen(own), scheme_for(chosen(own)))
    open_index(former, scheme_for(former)).close()


def test_there_is_no_second_look_where_it_is_off() -> None:
    settings = chosen("fingerprint.second_look=none")
    assert parameters_for(settings, {}).look is None
    assert "second_look" not in scheme_for(settings).stamp()
    assert scheme_for(settings).fingerprint(["a text"]).looks is None


def test_the_index_is_told_the_second_look_with_its_thresholds() -> None:
    cosine = chosen("fingerprint.second_look=cosine", "second_look.cosine_cells=64", "second_look.cosine_min=0.9")
    assert parameters_for(cosine, {}).look == CosineLook(64, 0.9)
    assert parameters_for(cosine, {}).distance_max == 7
    assert scheme_for(cosine).stamp()["second_look"] == "cosine, format 1"
    metadata = chosen(*METADATA, "second_look.metadata_functions=50", "second_look.similarity_min=0.3")
    assert parameters_for(metadata, {}).look == MetadataLook(50, 0.9, 0.3)


@pytest.mark.parametrize(("similarity_min", "distance_max"), [("0.25", 5), ("0.3", 3), ("0.5", 1), ("1.0", 0)])
def test_with_metadata_the_distance_follows(similarity_min: str, distance_max: int) -> None:
    settings = chosen(*METADATA, f"second_look.similarity_min={similarity_min}")
    assert settings.index.distance_max == distance_max
    assert parameters_for(settings, {}).distance_max == distance_max
    said = chosen(*METADATA, f"second_look.similarity_min={similarity_min}", f"index.distance_max={distance_max}")
    assert said == settings


def test_the_distance_follows_in_settings_made_of_sections_too() -> None:
    made = Settings(
        fingerprint=Fingerprint(scheme="simhash", second_look="metadata"),
        second_look=SecondLook(similarity_min=0.3),
        decode=Decode(metadata=["/tags"]),
        index=Index(insert="root"),
    )
    assert (made.index.distance_max, made.index.insert) == (3, "root")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            (*METADATA, "index.distance_max=4"),
            "index.distance_max (4, option --set index.distance_max) must be 5, or better",
        ),
        (METADATA[:1], 'fingerprint.second_look ("metadata", option --set fingerprint.second_look) has no use'),
        (
            (*METADATA, "second_look.content_weight=0.8"),
            "second_look.similarity_min (0.25, the default) must be larger, so that nothing over 7 bits apart matches",
        ),
        (
            ("fingerprint.second_look=cosine", "fingerprint.scheme=minhash"),
            'fingerprint.second_look ("cosine", option --set fingerprint.second_look) has no use',
        ),
        ((*METADATA, "second_look.similarity_min=2"), "second_look.similarity_min: must be a number from 0.01 to 1.0"),
    ],
)
def test_what_contradicts_a_second_look_is_told_in_one_line(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        chosen(*overrides)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_settings_that_follow_can_be_written_down_and_read_again(tmp_path: Path) -> None:
    settings = chosen(*METADATA)
    written = tmp_path / "settings.toml"
    written.write_text(
        '[fingerprint]\nscheme = "simhash"\nsecond_look = "metadata"\n[decode]\nmetadata = ["/tags"]\n[index]\ndistance_max = 5\n'
    )
    assert load(written, (), {}) == settings
