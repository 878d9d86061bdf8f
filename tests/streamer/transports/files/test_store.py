"""Inputs by URL: every byte once, whatever the line and the server do, and a later run goes on where the former ended."""

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streamer.errors import InputLost, InputUnreadable, SettingsError
from streamer.transports.files import store
from streamer.transports.files.expand import NoInput, remote_files
from streamer.transports.files.line_reader import LineReader
from streamer.transports.files.remote import Remote
from streamer.transports.files.store import Changed, StoreReader
from tests.support.command_line import run
from tests.support.distant_files import Site, breaking_line, content_of, filtered, pages, serving


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAUSES", (0.01,) * 5)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as site:
        yield site


def only(address: str) -> Remote:
    (found,) = store.objects(address)
    return found.remote


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("has_sizes", [True, False])
@pytest.mark.parametrize("size", [0, 1, 2**18, 2**18 + 1, 3_000_000])
def test_each_byte_comes_once(site: Site, has_ranges: bool, has_sizes: bool, size: int) -> None:
    site.files["a.jsonl"] = random.Random(size).randbytes(size)
    site.has_ranges, site.has_sizes = has_ranges, has_sizes
    assert content_of(only(f"{site.url}/a.jsonl")) == site.files["a.jsonl"]


@pytest.mark.parametrize("has_ranges", [True, False])
def test_places_may_be_sought_out_of_order(site: Site, has_ranges: bool) -> None:
    site.files["a"] = random.Random(1).randbytes(2_000_000)
    site.has_ranges = has_ranges
    with closing(StoreReader(only(f"{site.url}/a"))) as reader:
        reader.read(10)
        reader.is_scattered = True
        for place in (1_999_990, 5, 700_000, 0):
            reader.seek(place)
            assert reader.read(20) == site.files["a"][place : place + 20]


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_line_that_breaks_loses_and_doubles_nothing(site: Site, has_ranges: bool) -> None:
    site.files["a"] = random.Random(2).randbytes(6_000_000)
    site.has_ranges = has_ranges
    port = int(site.url.rpartition(":")[2])
    with breaking_line(port, 1_500_000, breaks_max=3) as line:
        assert content_of(only(f"http://127.0.0.1:{line.port}/a")) == site.files["a"]
        assert line.breaks == 3


def test_after_a_break_only_what_did_not_come_is_asked_for_again(site: Site) -> None:
    site.files["a"] = bytes(4_000_000)
    site.cut_after = 400_000
    assert content_of(only(f"{site.url}/a")) == site.files["a"]
    begins = [int(part.split("=")[1].split("-")[0]) for _, _, part in site.asked if part]
    assert begins == sorted(begins)


def test_a_server_that_is_gone_ends_the_reading_and_says_that_nothing_is_lost(site: Site) -> None:
    site.files["a"] = pages(9_000)
    remote = only(f"{site.url}/a")
    with closing(LineReader(remote)) as reader:
        counts = [len(reader.lines(100, 10**6))]
        site.status = 503
        taken = iter(lambda: reader.lines(1_000, 10**6), [])
        with pytest.raises(InputLost, match=r"/a: the connection broke 6 times at byte [\d,]+ \(503 .*Run the same"):
            counts.extend(map(len, taken))
        # What came before the break came out.
        assert sum(counts) > 100


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_names_the_url_and_what_to_do(site: Site, status: int) -> None:
    site.files["a"], site.status = b"{}", status
    with pytest.raises(InputUnreadable, match=rf"/a: may not be read \({status} .*netrc"):
        remote_files(f"{site.url}/a")


def test_what_is_not_there_and_what_does_not_answer_are_named(site: Site) -> None:
    with pytest.raises(NoInput, match="/nothing: there is no such object"):
        remote_files(f"{site.url}/nothing")
    with pytest.raises(InputLost, match=r"http://127\.0\.0\.1:1/a: cannot be asked for \(Cannot connect"):
        remote_files("http://127.0.0.1:1/a")


def test_a_scheme_a_password_and_a_missing_package_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="ftp:// is not read"):
        remote_files("ftp://a.example/b")
    with pytest.raises(SettingsError, match=r"gs:// is not read.*AWS_ENDPOINT_URL"):
        remote_files("gs://corpora/a")
    with pytest.raises(SettingsError) as raised:
        remote_files("https://user:secret@a.example/b")
    assert "secret" not in str(raised.value)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    missing = r"s3:// needs the packages fsspec and aiohttp and s3fs, which are not installed: .* -m pip install .*s3fs"
    with pytest.raises(SettingsError, match=missing):
        remote_files("s3://corpora/a")


def test_an_object_that_changes_while_it_is_read_ends_its_lines(site: Site) -> None:
    for site.has_etags, site.modified in ((True, ""), (False, "Sun, 22 Nov 2026 10:00:00 GMT")):
        site.files["a"] = bytes(3_000_000)
        with closing(StoreReader(only(f"{site.url}/a"))) as reader:
            reader.read(10)
            site.files["a"] = b"\1" * 3_000_000
            site.modified = site.modified and "Sun, 22 Nov 2026 10:00:01 GMT"
            with pytest.raises(Changed, match="changed"):
                b"".join(iter(lambda: reader.read(2**20), b""))


def test_a_place_is_asked_for_and_nothing_before_it(site: Site) -> None:
    content = site.files["a.jsonl"] = b"\n" + pages(20_000)
    remote = only(f"{site.url}/a.jsonl")
    with closing(LineReader(remote)) as reader:
        reader.skip(15_001)
        mark, blank = reader.digest(), reader.left_out
    site.asked.clear()
    with closing(LineReader(remote)) as reader:
        assert reader.go_to(15_001, {mark}) == 15_001
        assert (reader.digest(), reader.left_out) == (mark, blank)
        assert reader.lines(10, 10**6) == content.split(b"\n")[15_001:15_011]
    begins = [int(part.split("=")[1].split("-")[0]) for _, _, part in site.asked if part]
    assert min(begins) == sum(len(line) + 1 for line in content.split(b"\n")[:15_001])


def test_a_compressed_object_is_read_through(site: Site) -> None:
    content = pages(5_000)
    site.files["a.jsonl.gz"] = gzip.compress(content)
    remote = only(f"{site.url}/a.jsonl.gz")
    with closing(LineReader(remote)) as reader:
        reader.skip(4_000)
        mark = reader.digest()
    with closing(LineReader(remote)) as reader:
        assert reader.go_to(4_000, {mark}) == 4_000
        assert reader.digest() == mark
        assert reader.lines(1, 10**6) == [content.split(b"\n")[4_000]]


def test_a_server_without_etag_and_date_proves_nothing_so_lines_do(site: Site) -> None:
    site.files["a"] = pages(100)
    site.has_etags = False
    remote = only(f"{site.url}/a")
    assert not remote.proof
    with closing(LineReader(remote)) as reader, closing(LineReader(remote)) as another:
        reader.skip(50)
        assert len(reader.digest()) == 16
        assert another.go_to(50, {reader.digest()}) == 50
        assert another.digest() == reader.digest()


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_run_that_lost_its_server_goes_on_and_comes_out_as_from_a_file(
    site: Site, tmp_path: Path, has_ranges: bool
) -> None:
    content = site.files["a.jsonl"] = pages(9_000)
    (tmp_path / "a.jsonl").write_bytes(content)
    code, _, local = filtered(tmp_path / "local", tmp_path / "a.jsonl")
    assert code == 0

    # Without ranges each answer begins anew, and ends here.
    site.has_ranges, site.gone_after, site.cut_after = has_ranges, 2_200_000 if has_ranges else None, 2_000_000
    url = f"{site.url}/a.jsonl"
    code, error, before = filtered(tmp_path / "far", url)
    assert code == 75
    assert f"{url}: the connection broke" in error
    assert 0 < len(before["verdicts.jsonl"].splitlines()) < 9_000

    site.gone_after = site.cut_after = None
    site.asked.clear()
    code, _, far = filtered(tmp_path / "far", url)
    assert code == 0
    assert far["unique.jsonl"] == local["unique.jsonl"]
    assert far["duplicate.jsonl"] == local["duplicate.jsonl"]
    assert far["verdicts.jsonl"] == local["verdicts.jsonl"].replace(str(tmp_path / "a.jsonl").encode(), url.encode())
    if has_ranges:
        # The first look at the input's kind asks for its begin.
        begins = [int(part.split("=")[1].split("-")[0]) for _, _, part in site.asked if part]
        assert not [begin for begin in begins if 2**20 < begin < len(before["unique.jsonl"])]


def test_a_changed_object_is_refused_by_name(site: Site, tmp_path: Path) -> None:
    site.files["a.jsonl"], url = pages(300), f"{site.url}/a.jsonl"
    assert filtered(tmp_path, url)[0] == 0
    before = filtered(tmp_path, url)
    assert before[0] == 0
    site.files["a.jsonl"] = pages(300, seed=1)
    code, error, after = filtered(tmp_path, url)
    assert code == 65
    assert f"{url}: its first 300 lines are not those" in error
    assert after == before[2]


def test_a_signature_stands_in_no_output_and_a_new_one_means_the_same_object(site: Site, tmp_path: Path) -> None:
    site.files["a.jsonl"] = pages(30)
    assert filtered(tmp_path, f"{site.url}/a.jsonl?X-Amz-Signature=secret1")[0] == 0
    code, _, outputs = filtered(tmp_path, f"{site.url}/a.jsonl?X-Amz-Signature=secret2")
    assert code == 0
    assert len(outputs["verdicts.jsonl"].splitlines()) == 30
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]


def test_outputs_and_indexes_stay_here(site: Site, tmp_path: Path) -> None:
    for option in ("--out", "--index"):
        folders = {"--out": str(tmp_path / "out"), "--index": str(tmp_path / "index"), option: "s3://corpora/out"}
        done = run("filter", tmp_path, *(part for pair in folders.items() for part in pair))
        assert done.code == 2
        assert "s3://corpora/out is a URL" in done.err


def test_verify_reads_the_objects_and_says_which_it_cannot_read(site: Site, tmp_path: Path) -> None:
    site.files["a.jsonl"] = pages(60)
    assert filtered(tmp_path, f"{site.url}/a.jsonl")[0] == 0
    checked = run("verify", "--out", tmp_path / "out", "--index", tmp_path / "index", "--json")
    assert (checked.code, json.loads(checked.out)["counts"]["input"]) == (0, 60)
    asked = run("why", "30", "--out", tmp_path / "out", "--index", tmp_path / "index")
    assert asked.code == 0
    site.status = 403
    checked = run("verify", "--out", tmp_path / "out", "--index", tmp_path / "index", "--json")
    found = json.loads(checked.out)
    assert (found["counts"]["input"], found["unchecked"]["outputs of records that have left the input"]) == (0, 60)
    site.status = 503
    assert run("verify", "--out", tmp_path / "out", "--index", tmp_path / "index").code == 75


def test_an_index_is_rebuilt_from_objects_and_filters_on_without_reading_them_again(site: Site, tmp_path: Path) -> None:
    site.files["a.jsonl"], url = pages(3_000), f"{site.url}/a.jsonl"
    assert filtered(tmp_path, url)[0] == 0
    rebuilt = run("index", "rebuild", tmp_path / "new", url, "--set", f"index.directory={tmp_path / 'index'}")
    assert rebuilt.code == 0, rebuilt.err
    site.asked.clear()
    again = run("filter", url, "--out", tmp_path / "another", "--index", tmp_path / "new", "--processes", 1)
    assert again.code == 0, again.err
    outputs = [(tmp_path / folder / "unique.jsonl").read_bytes() for folder in ("out", "another")]
    assert outputs[0] == outputs[1]


def test_what_was_produced_before_a_server_was_lost_is_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.files["a.jsonl"] = site.files["b.jsonl"] = pages(9_000)
    site.cut_after, site.gone_after = 2_000_000, 1_000_000
    produced: list[bytes] = []

    def produce(_settings: object, _topic: str, lines: Iterator[bytes]) -> int:
        produced.extend(lines)
        return len(produced)

    monkeypatch.setattr("streamer.transports.kafka.topics.produce", produce)
    done = run("topics", "produce", f"{site.url}/a.jsonl", f"{site.url}/b.jsonl")
    assert done.code == 75
    assert "a.jsonl: the connection broke" in done.err
    assert 0 < len(produced) < 9_000
    assert done.out.split() == [str(len(produced)), "documents"]
