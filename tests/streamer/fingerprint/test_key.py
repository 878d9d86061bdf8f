"""The secret key of the hashes."""

import pickle
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index import errors
from index.matching.frame import framed_distances
from index.storage.file.commit_hooks import CommitHooks
from index.storage.stamp import secret_of
from index.storage.store import Store
from streamer.ask.filter import Filter
from streamer.errors import SettingsError
from streamer.fingerprint import shingle_kernels
from streamer.fingerprint.key import KEY_BYTES, PUBLIC, HashKey, read_key
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.scheme import key_for, require_shared_key, scheme_for
from streamer.service.wiring import open_with_scheme
from streamer.settings.settings import Settings, load
from tests.support.command_line import run
from tests.support.news import LINES

SECRETS = [bytes([number]) * KEY_BYTES for number in range(3)]
TEXT = "渔民们已经驾着小船出海捕鱼了，清晨的雾气还没有散去，港口的灯塔仍然亮着。" * 4
LATIN = "The harbour council voted on Tuesday to widen the northern quay before the winter storms arrive. " * 4
OTHER = TEXT + "傍晚的时候天气忽然变得很冷，许多人都回家了。"


def settings_of(directory: Path, *overrides: str) -> Settings:
    return load(None, [f"index.directory={directory}", *overrides], {}, over_files=True)


@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
@pytest.mark.parametrize("more", [(), ("fingerprint.bits=128",), ("minhash.shingles=words",)], ids=str)
def test_each_key_gives_other_fingerprints_and_the_same_key_the_same(scheme: str, more: tuple[str, ...]) -> None:
    settings = load(None, [f"fingerprint.scheme={scheme}", *more], {})
    texts = [TEXT, LATIN, "短文"]
    keys = [PUBLIC, *map(HashKey.of, SECRETS)]
    found = [scheme_for(settings, key).fingerprint(texts).fingerprints for key in keys]
    for row in range(len(texts)):
        assert len({each[row].tobytes() for each in found}) == len(keys)
    assert np.array_equal(scheme_for(settings, keys[1]).fingerprint(texts).fingerprints, found[1])
    assert np.array_equal(scheme_for(settings).fingerprint(texts).fingerprints, found[0])


def test_a_key_changes_which_shingles_win_and_not_how_alike_texts_are() -> None:
    estimates = []
    for number in range(64):
        key = HashKey.of(number.to_bytes(KEY_BYTES, "big"))
        found = MinHasher(Settings().minhash, key=key).fingerprint([TEXT, OTHER]).fingerprints
        estimates.append(int(framed_distances(found[:1], found[1:], 8)[0]))
    letters = [text.replace("，", "").replace("。", "") for text in (TEXT, OTHER)]
    one, other = ({text[at : at + 5] for at in range(len(text) - 4)} for text in letters)
    exact = 10_000 * (1 - len(one & other) / len(one | other))
    # 128 bins: a standard deviation of some 400 an estimate, of 50 in the mean of 64.
    assert abs(np.mean(estimates) - exact) < 200


def test_keyed_hashes_are_the_mixed_ones_lane_by_lane() -> None:
    key = HashKey.of(SECRETS[1])
    hashes = np.arange(10, dtype=np.uint64).reshape(5, 2)
    expected = shingle_kernels.mix_column(hashes ^ np.array(key.lanes, np.uint64))
    assert np.array_equal(key.keyed(hashes.copy()), expected)
    assert np.array_equal(PUBLIC.keyed(hashes), hashes)


def test_nothing_prints_a_key_and_a_process_takes_it_along() -> None:
    key = HashKey.of(SECRETS[1])
    for number in (key.multiplier, key.mask, key.seed, *key.lanes):
        assert str(number) not in repr(key) + str(key)
    assert SECRETS[1].hex() not in repr(key) + str(key.stamp())
    assert pickle.loads(pickle.dumps(key)) == key


def test_a_new_index_makes_a_key_of_its_own_and_every_opening_takes_it(tmp_path: Path) -> None:
    answers, secrets = [], []
    for name in ("one", "other"):
        settings = settings_of(tmp_path / name)
        index, scheme = open_with_scheme(settings)
        with index:
            assert index.secret is not None
            secrets.append(index.secret)
            answers.append(scheme.fingerprint([TEXT]).fingerprints.tobytes())
        again, same = open_with_scheme(settings, read_only=True)
        with again:
            assert (again.secret, same.key) == (secrets[-1], scheme.key)
            assert again.parameters.fingerprint["key"] == HashKey.of(secrets[-1]).digest
    assert len(set(answers)) == len(set(secrets)) == 2


def test_another_key_is_refused_by_the_name_of_its_setting(tmp_path: Path) -> None:
    settings, other = settings_of(tmp_path / "index"), tmp_path / "other.key"
    other.write_text(SECRETS[1].hex() + "\n")
    open_with_scheme(settings)[0].close()
    for differing in ("fingerprint.key=public", f"fingerprint.key_file={other}"):
        with pytest.raises(errors.ParametersDifferError, match=r"fingerprint\.key"):
            open_with_scheme(settings_of(tmp_path / "index", differing))
    public = settings_of(tmp_path / "public", "fingerprint.key=public")
    open_with_scheme(public)[0].close()
    with pytest.raises(SettingsError, match=r"fingerprint\.key: the index in .* keeps no secret"):
        open_with_scheme(settings_of(tmp_path / "public"))


def test_several_hosts_agree_by_a_key_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(SECRETS[2].hex())
    settings = settings_of(tmp_path / "index", f"fingerprint.key_file={file}")
    index, scheme = open_with_scheme(settings)
    with index:
        assert scheme.key == HashKey.of(SECRETS[2]) == key_for(settings, None)
        assert index.secret is None
    require_shared_key(settings)
    with pytest.raises(SettingsError, match=r"fingerprint\.key_file"):
        require_shared_key(settings_of(tmp_path / "index"))


@pytest.mark.parametrize("content", ["", "00", "zz" * KEY_BYTES, "00" * (KEY_BYTES + 1)])
def test_a_key_file_that_holds_no_key_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    with pytest.raises(SettingsError, match="32 hexadecimal digits"):
        read_key(tmp_path / "key")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_key(tmp_path / "missing")


def test_of_processes_that_make_an_index_at_the_same_time_the_first_one_chooses_its_secret(tmp_path: Path) -> None:
    with closing(
        Store(tmp_path, map_bytes_initial=2**20, map_bytes_max=2**24, read_only=False, hooks=CommitHooks())
    ) as store:
        assert secret_of(store, "here", None) is None
        assert [secret_of(store, "here", secret) for secret in SECRETS] == [SECRETS[0]] * 3
    index, scheme = open_with_scheme(settings_of(tmp_path))
    with index:
        assert (index.secret, scheme.key) == (SECRETS[0], HashKey.of(SECRETS[0]))


def test_an_export_enters_an_index_with_the_key_it_was_hashed_with_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Filter(tmp_path / "index", settings_of(tmp_path)) as opened:
        expected = [answer.verdict for answer in opened.admit(LINES[:200])]
        secret = opened.index.secret
    assert secret is not None
    at, export = ("index", "--directory", tmp_path / "index"), tmp_path / "export.jsonl"
    key = run(*at, "key").out
    assert key.strip() == secret.hex()
    assert run(*at, "export", export).code == 0
    assert secret.hex().encode() not in export.read_bytes()
    monkeypatch.setenv("STREAMER_FINGERPRINT__KEY", "secret")
    command = ("index", "--directory", tmp_path / "none", "rebuild", tmp_path / "new", "--export", export)
    refused = run(*command)
    assert (refused.code, "fingerprint.key_file" in refused.err) == (78, True)
    (tmp_path / "key").write_text(key)
    monkeypatch.setenv("STREAMER_FINGERPRINT__KEY_FILE", str(tmp_path / "key"))
    assert run(*command).code == 0
    settings = settings_of(tmp_path, f"fingerprint.key_file={tmp_path / 'key'}")
    with Filter(tmp_path / "new", settings, read_only=True) as imported:
        checked = [answer.verdict for answer in imported.check(LINES[:20])]
    assert checked.count("duplicate") >= expected[:20].count("unique") > 0


def test_a_rebuilt_index_of_an_export_keeps_the_secret_of_the_one_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMER_FINGERPRINT__KEY", "secret")
    with Filter(tmp_path / "index", settings_of(tmp_path)) as opened:
        opened.admit(LINES[:50])
        secret = opened.index.secret
    at, export = ("index", "--directory", tmp_path / "index"), tmp_path / "export.jsonl"
    assert run(*at, "export", export).code == 0
    assert run(*at, "rebuild", tmp_path / "new", "--export", export, "--switch").code == 0
    with Filter(tmp_path / "index", settings_of(tmp_path), read_only=True) as rebuilt:
        assert rebuilt.index.secret == secret
