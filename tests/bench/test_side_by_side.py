"""One table of methods and peers: every row on every set, by the figures that the other benchmarks give."""

import lzma
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from bench import accuracy, peers, side_by_side

PEERS = ("--peer", "rensa", "--peer", "simhash")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A folder `judged` of three labelled pairs: equal texts, other texts, and one that nobody judged."""
    folder = tmp_path / "judged"
    folder.mkdir()
    long, other = (" ".join(f"{word}{number}" for number in range(60)) for word in ("word", "other"))
    rows = [(long, long, 3), (long, other, 0.5), (long, other, "unknown")]
    lines = [orjson.dumps({"a": one, "b": two, "label": label}) for one, two, label in rows]
    (folder / "pairs.jsonl.xz").write_bytes(lzma.compress(b"\n".join(lines)))
    return folder


def side_by(*arguments: object) -> str:
    done = CliRunner().invoke(side_by_side.main, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_every_preset_and_peer_has_a_row_and_every_set_a_column(small_set: Path, pairs: Path) -> None:
    head, rule, *rows = side_by(small_set, pairs, *PEERS).splitlines()
    assert head == "| | tiny | judged | false of all streams |"
    assert rule.count("---") == 4
    cells = {row.split(" | ")[0]: row.strip("| ").split(" | ")[1:] for row in rows}
    simhash = ("simhash-best", "simhash-classic", "simhash-improved-1", "simhash-improved-2", "simhash-plain")
    assert list(cells) == [
        f"| {name}" for name in ("minhash", "ocr", "short-texts", *simhash, "peer: rensa", "peer: simhash")
    ]
    assert cells["| minhash"] == cells["| simhash-best"] == cells["| peer: rensa"] == ["1.000 (0)", "1.000 (0)", "0"]


def test_the_figures_are_those_of_the_other_benchmarks(small_set: Path) -> None:
    strict = "minhash minhash.similarity_min=1.0"
    names = ("--setting", "simhash-plain", "--setting", strict)
    found = {row["row"]: row for row in orjson.loads(side_by(small_set, *names, *PEERS, "--json"))["results"]}
    assert found[strict]["recall"] == 0.5
    by_accuracy = CliRunner().invoke(accuracy.main, [str(small_set), *names, "--json"], catch_exceptions=False)
    for result in orjson.loads(by_accuracy.stdout)["results"]:
        own = found[result["setting"]]
        assert (own["f1"], own["false_duplicates"]) == (result["f1"], result["false_duplicates"])
    arguments = [str(small_set), "--scheme", "simhash", "--peer", "simhash", "--rounds", "1", "--json"]
    by_peers = CliRunner().invoke(peers.main, arguments, catch_exceptions=False)
    assert found["peer: simhash"]["f1"] == orjson.loads(by_peers.stdout)["results"][1]["f1"]


def test_a_peer_judges_every_pair_by_itself(pairs: Path) -> None:
    (found,) = [
        row
        for row in orjson.loads(side_by(pairs, "--setting", "minhash", *PEERS, "--json"))["results"]
        if row["row"] == "peer: simhash"
    ]
    assert (found["precision"], found["recall"], found["false_duplicates"]) == (1.0, 1.0, 0)
