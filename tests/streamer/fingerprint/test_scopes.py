"""Scopes in fingerprints: texts of different scopes are strangers, and without scopes nothing changes."""

from typing import Any

import numpy as np
import pytest

from index import Kind
from streamer.fingerprint.fingerprints import Fingerprints, Scheme
from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.fingerprint.scheme import parameters_for, scheme_for, settings_digest
from streamer.settings.settings import Settings, load
from tests.support.news import ARTICLES

TEXTS = [*ARTICLES.values()][:40]
SHORT = "Two words", "文字", "7"
SETTINGS: dict[str, list[str]] = {
    "characters": [],
    "words": ["minhash.shingles=words"],
    "simhash": ["fingerprint.scheme=simhash", "fingerprint.features_min=20", "fingerprint.title_factor=2"],
    "128 bits": ["fingerprint.scheme=simhash", "fingerprint.bits=128", "fingerprint.features=shingles"],
    "cosine": ["fingerprint.scheme=simhash", "fingerprint.second_look=cosine"],
}


def settings_of(name: str, *more: str) -> Settings:
    return load(None, [*SETTINGS[name], *more], {}, over_files=True)


def texts() -> list[str]:
    return [*TEXTS, *SHORT, ""]


def columns(prints: Fingerprints) -> dict[str, Any]:
    names = ("kinds", "reasons", "fingerprints", "feature_counts", "looks", "digests", "lengths")
    return {name: None if (column := getattr(prints, name)) is None else column.tolist() for name in names}


def made(scheme: Scheme, scope: str | None) -> Fingerprints:
    chosen = texts()
    titles = [text[:20] for text in chosen]
    return scheme.fingerprint(chosen, titles, None, None if scope is None else [scope] * len(chosen))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("key", [PUBLIC, HashKey.of(bytes(16))])
def test_texts_of_two_scopes_are_strangers_and_those_of_one_are_as_near_as_ever(name: str, key: HashKey) -> None:
    settings = settings_of(name, "decode.scope=/tenant")
    scheme = scheme_for(settings, key)
    parameters = parameters_for(settings, {})
    one, other, none = made(scheme, "tenant-a"), made(scheme, "tenant-b"), made(scheme, None)
    assert np.array_equal(one.kinds, none.kinds)
    assert one.lengths is not None
    assert np.array_equal(one.lengths, none.lengths)
    near = one.kinds == Kind.NEAR
    assert near.sum() > 30
    for left, right in ((one, other), (one, none)):
        apart = parameters.distances(left.fingerprints[near], right.fingerprints[near])
        assert (apart > 2 * parameters.distance_max).all()
        exact = one.kinds == Kind.EXACT
        assert exact.sum() >= 2
        assert not np.any(left.fingerprints[exact, 0] == right.fingerprints[exact, 0])
    assert columns(made(scheme, "tenant-a")) == columns(one)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_empty_scope_has_the_fingerprints_of_texts_without_scopes(name: str) -> None:
    scheme = scheme_for(settings_of(name))
    assert columns(made(scheme, "")) == columns(made(scheme, None))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_fingerprint_depends_on_its_own_scope_whatever_is_in_its_batch(name: str) -> None:
    scheme = scheme_for(settings_of(name, "decode.scope=/tenant"))
    chosen = texts()
    scopes = [("tenant-a", "", None, "租户")[row % 4] for row in range(len(chosen))]
    together = columns(scheme.fingerprint(chosen, chosen, None, scopes))
    for row in (0, 1, 3, len(TEXTS)):
        alone = columns(scheme.fingerprint(chosen[row : row + 1], chosen[row : row + 1], None, [scopes[row]]))
        for column, values in together.items():
            assert values is None or values[row] == alone[column][0], column


def test_a_document_matches_itself_in_its_own_scope() -> None:
    """Near texts stay near: the salt changes every feature alike."""
    settings = settings_of("characters", "decode.scope=/tenant")
    scheme, text = scheme_for(settings), TEXTS[0]
    left, right = (scheme.fingerprint([each], scopes=["tenant-a"]).fingerprints for each in (text, text + " One more."))
    assert parameters_for(settings, {}).distances(left, right)[0] <= parameters_for(settings, {}).distance_max


def test_the_stamp_names_the_scope_and_is_as_before_without_one() -> None:
    for name in SETTINGS:
        plain, scoped = (scheme_for(settings_of(name, *more)).stamp() for more in ([], ["decode.scope=/tenant"]))
        assert scoped == {**plain, "scope": "/tenant"}
        assert "scope" not in plain


def test_settings_without_a_scope_have_the_digest_that_they_had() -> None:
    """Parts of two versions take each other's batches, and checkpoints stay valid."""
    assert settings_digest(Settings(), {"scheme": "minhash"}) == "dd90d823"
    scoped = load(None, ["decode.scope=/tenant"], {})
    assert settings_digest(scoped, scheme_for(scoped).stamp()) != settings_digest(
        Settings(), scheme_for(Settings()).stamp()
    )


def test_salts_are_of_the_key_and_of_the_scope() -> None:
    secret = HashKey.of(bytes(16))
    scopes = ["tenant-a", "", None, "tenant-b", "tenant-a"]
    one, other = PUBLIC.salts(scopes), secret.salts(scopes)
    assert one is not None
    assert other is not None
    assert one.tolist()[1:3] == [0, 0]
    assert one[0] == one[4]
    assert len({*one.tolist(), *other.tolist()}) == 5
    assert PUBLIC.salts(["", None]) is None
