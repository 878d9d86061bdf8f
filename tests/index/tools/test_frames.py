"""What an index tells of frames, and carries with it, against what was decided row by row."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from deploy.made_up_site import MadeUp, admitted, site
from index.entry import Decisions, Entries, Position, Source, Verdict
from index.index import Index, internals_of
from index.storage.layout import Table
from index.tools import BulkLoader, Importer, frames_of, kept_by_frames, portions, snapshot, verify
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


def test_a_sample_without_a_place_and_a_place_without_a_sample_are_noticed(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admit(index, site("en", 0.1, pages=20, copies=0), "www.example.org")

        def move(session):  # type: ignore[no-untyped-def]
            ((key, value),) = [(bytes(key), bytes(value)) for key, value in session.transaction.walk(Table.FRAMES)]
            session.transaction.delete(Table.FRAMES, key)
            session.transaction.put(Table.FRAMES, bytes(8), value)
            return key.hex()

        key = internals_of(index).write(move)
        (finding,) = (each for each in verify(index) if each.wrong)
    assert finding.examples == [
        f"the sample of host {bytes(8).hex()} has no place in its group",
        f"the sample of host {key} is missing",
    ]


def entries_of(index: Index, crawled: MadeUp, rows: np.ndarray) -> tuple[Entries, list[Position | None]]:
    """These made-up documents of one host as they came, and the positions of their originals."""
    prints = SCHEME.fingerprint([crawled.texts[row] for row in rows.tolist()])
    source = Source("made-up", 0)
    entries = Entries(
        (source,),
        np.zeros(len(rows), np.uint32),
        rows.astype(np.uint64),
        prints.kinds,
        prints.reasons,
        prints.fingerprints,
        np.zeros(len(rows), np.int64),
        [str(row) for row in rows.tolist()],
        hosts=["www.example.org"] * len(rows),
    )
    decided = index.decided_at([Position(source, row) for row in rows.tolist()])
    return entries, [None if each is None else each.original_position for each in decided]


def dropped_by(decisions: list[Decisions]) -> np.ndarray:
    return np.flatnonzero(np.concatenate([each.verdicts for each in decisions]) == Verdict.DUPLICATE)


def test_a_known_frame_keeps_the_pages_that_were_dropped_before_it_and_no_copies(tmp_path: Path) -> None:
    crawled = site("en", 0.1, pages=60, copies=30)
    with opened(tmp_path) as index:
        dropped = dropped_by(admit(index, crawled, "www.example.org"))
        entries, originals = entries_of(index, crawled, dropped)
        kept = kept_by_frames(index, entries, originals)
        lost = dropped[kept]
        # A copy of another lost page came later, and was kept in its place.
        assert 0 < len(lost) < len(dropped)
        missing = set(crawled.pages.tolist()) - set(np.delete(crawled.pages, dropped).tolist())
        assert set(crawled.pages[lost].tolist()) == missing
        index.give_back(entries.take(np.flatnonzero(kept)))
        assert not kept_by_frames(index, entries, originals).any()


def test_before_a_frame_is_known_no_page_counts_as_lost(tmp_path: Path) -> None:
    crawled = site("en", 0.1, pages=6, copies=0)
    with opened(tmp_path) as index:
        dropped = dropped_by(admit(index, crawled, "www.example.org"))
        assert len(dropped) == 5
        assert not kept_by_frames(index, *entries_of(index, crawled, dropped)).any()


def test_of_equal_pages_that_were_lost_one_is_kept(tmp_path: Path) -> None:
    crawled = site("en", 0.1, pages=40, copies=0)
    texts = [crawled.texts[0], crawled.texts[1], *crawled.texts[1:]]
    twice = replace(crawled, texts=texts, pages=np.append(crawled.pages, -1))
    with opened(tmp_path) as index:
        dropped = dropped_by(admit(index, twice, "www.example.org"))
        entries, originals = entries_of(index, twice, dropped)
        kept = kept_by_frames(index, entries, originals)
        assert dropped[:2].tolist() == [1, 2]
        assert kept[:2].tolist() == [True, False]
        without_first = replace(entries, hosts=[None, *(entries.hosts or ())[1:]])
        assert kept_by_frames(index, without_first, originals)[:2].tolist() == [False, True]


def test_without_frames_nothing_is_kept_by_them(tmp_path: Path) -> None:
    settings = Settings.model_validate({"index": {"templates": False}})
    with Index.open(tmp_path, parameters_for(settings, SCHEME.stamp()), map_bytes_max=2**30) as index:
        crawled = site("en", 0.1, pages=20, copies=0)
        dropped = dropped_by(admit(index, crawled, "www.example.org"))
        assert not kept_by_frames(index, *entries_of(index, crawled, dropped)).any()
