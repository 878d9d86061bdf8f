"""What an index tells of frames, and carries with it, against what was decided row by row."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from deploy.made_up_site import MadeUp, admitted, site
from index.entry import Decisions, Verdict
from index.index import Index, internals_of
from index.storage.layout import Table
from index.tools import BulkLoader, Importer, frames_of, portions, snapshot, verify
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import Settings

SCHEME = scheme_for(Settings())
PARAMETERS = parameters_for(Settings(), SCHEME.stamp())


def opened(directory: Path) -> Index:
    return Index.open(directory, PARAMETERS, map_bytes_max=2**30)


def admit(index: Index, crawled: MadeUp, host: str | None, begin: int = 0) -> list[Decisions]:
    """Decide made-up documents of one host, whose ids are their offsets."""
    return list(admitted(index, SCHEME.fingerprint(crawled.texts), begin=begin, at_once=64, host=host))


def test_a_frame_tells_its_share_and_the_pages_that_it_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        assert frames_of(index, 10) == []
        decisions = admit(index, site("en", 0.1, pages=60, copies=30), "www.example.org")
        (frame,) = frames_of(index, 10)
        assert not [each for each in verify(index) if each.wrong]
    verdicts = np.concatenate([each.verdicts for each in decisions])
    assert (frame.host, frame.is_known) == ("www.example.org", True)
    assert frame.kept == np.count_nonzero(verdicts == Verdict.TEMPLATE) > 0
    assert np.count_nonzero(verdicts != Verdict.DUPLICATE) > 50
    assert 0.8 < frame.frame_share < 0.95


def test_documents_without_a_host_have_no_frame(tmp_path: Path) -> None:
    crawled = site("en", 0.5, pages=60, copies=30)
    for name, host in (("host", "www.example.org"), ("none", None)):
        with opened(tmp_path / name) as index:
            admit(index, crawled, host)
            assert bool(frames_of(index, 10)) == (host is not None)
            frames = [document.frame for document in index.documents(range(60)) if document is not None]
            assert any(frames) == (host is not None)


def test_a_host_of_which_many_pages_were_kept_comes_first(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admit(index, site("en", 0.03, pages=30, copies=5, seed=1), "few.example.org")
        admit(index, site("zh", 0.03, pages=90, copies=5, seed=2), "many.example.org", 100)
        first, second = frames_of(index, 10)
        assert frames_of(index, 1) == [first]
    assert {first.host, second.host} == {"few.example.org", "many.example.org"}
    assert first.kept >= second.kept > 0


def test_an_import_decides_further_pages_as_the_exported_index(tmp_path: Path) -> None:
    crawled = site("en", 0.1, pages=80, copies=30)
    half = len(crawled) // 2
    before = replace(crawled, texts=crawled.texts[:half], pages=crawled.pages[:half])
    after = replace(crawled, texts=crawled.texts[half:], pages=crawled.pages[half:])
    with opened(tmp_path / "first") as first, opened(tmp_path / "second") as second:
        admit(first, before, "www.example.org")
        loading = BulkLoader(second)
        importer = Importer(loading)

        def carry(taken):  # type: ignore[no-untyped-def]
            importer.begin(list(taken.streams().items()))
            for portion in portions(taken.records(), 20):
                importer.add(portion)
            importer.add_samples(dict(taken.samples()))
            importer.finish(taken.applied())

        snapshot(first, carry)
        loading.finish()
        assert frames_of(first, 10) == frames_of(second, 10)
        assert not [each for each in verify(second) if each.wrong]
        decided = [admit(index, after, "www.example.org", half) for index in (first, second)]
    verdicts = [np.concatenate([each.verdicts for each in of_index]).tolist() for of_index in decided]
    assert Verdict.TEMPLATE in verdicts[0]
    assert verdicts[0] == verdicts[1]


def test_a_sample_that_was_cut_off_is_told_of(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admit(index, site("en", 0.1, pages=20, copies=0), "www.example.org")

        def cut(session):  # type: ignore[no-untyped-def]
            ((key, value),) = [(bytes(key), bytes(value)) for key, value in session.transaction.walk(Table.FRAMES)]
            session.transaction.put(Table.FRAMES, key, value[:-3])

        internals_of(index).write(cut)
        assert [each.check for each in verify(index) if each.wrong] == ["frames"]
