"""A batch of records becomes columns, and each row is what its record alone would have given."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Event, Semaphore, Timer

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Entries, Kind, Source
from streamer.fingerprint.documents import fingerprint_documents, prepare
from streamer.fingerprint.scheme import Scheme, scheme_for
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.reason import Reason
from streamer.records.record import Batch, Record
from streamer.service.pipeline import Prefetcher, Work, pure_steps
from streamer.service.poison.attempts import AttemptFile, deaths
from streamer.settings.settings import Settings
from tests.support.examples import examples
from tests.support.memory_service import SENTENCES, document

TEXTS = [f"{one} {other}" for one, other in pairwise(SENTENCES)]
"""Long enough to be compared by distance, as single sentences are not under SimHash."""

ONE, TWO, THREE = (Source("stream", number) for number in range(3))

SETTINGS = {
    "minhash": Settings(),
    "simhash-64": Settings.model_validate({"fingerprint": {"scheme": "simhash", "second_look": "none"}}),
    "simhash-128": Settings.model_validate(
        {
            "fingerprint": {
                "scheme": "simhash",
                "bits": 128,
                "features": "words",
                "features_min": 10,
                "title_factor": 5,
                "second_look": "metadata",
            },
            "decode": {"metadata": ["/keywords", "/tags"]},
        }
    ),
}
SCHEMES: dict[str, Scheme] = {name: scheme_for(chosen) for name, chosen in SETTINGS.items()}


def entries_of(name: str, records: Sequence[Record]) -> Entries:
    return prepare(Decoder(SETTINGS[name].decode), SCHEMES[name], records)


def record(offset: int, value: bytes | None, source: Source = ONE, key: bytes | None = None) -> Record:
    return Record(source, "documents", offset, key, value, 1_000 + offset)


Row = tuple[object, ...]


def test_every_row_has_the_host_of_its_document() -> None:
    values = [b'{"text": "a", "url": "https://One.example/a"}', b"no json", b'{"text": "b"}']
    entries = entries_of("minhash", [record(offset, value) for offset, value in enumerate(values)])
    assert entries.hosts == ["one.example", None, None]


def rows(entries: Entries) -> list[Row]:
    """Everything that is told about each record; a fingerprint only where somebody may read it."""
    read = entries.kinds <= Kind.EXACT
    return [
        (
            entries.sources[int(entries.source_numbers[row])],
            int(entries.offsets[row]),
            int(entries.kinds[row]),
            int(entries.reasons[row]),
            entries.fingerprints[row].tolist() if read[row] else None,
            int(entries.times_ms[row]),
            entries.ids[row],
            entries.looks[row].tolist() if entries.looks is not None and read[row] else None,
        )
        for row in range(len(entries))
    ]


VALUES = st.one_of(
    st.builds(
        lambda words, title, keywords: orjson.dumps({"text": words, "title": title, "keywords": keywords}),
        st.one_of(st.sampled_from([*SENTENCES, *TEXTS]), st.text(max_size=60)),
        st.text(max_size=5),
        st.lists(st.sampled_from(["harbour", "quay", "rice"]), max_size=3),
    ),
    st.sampled_from([None, b"", b"{", b"\xff", b"[]", b'{"id": "x"}', b'{"id": "x", "text": 3}', b'{"text": "..."}']),
)


@pytest.mark.parametrize("name", sorted(SETTINGS))
@examples(40)
@given(items=st.lists(st.tuples(st.sampled_from([ONE, TWO, THREE]), VALUES), min_size=1, max_size=12))
def test_row_for_row_a_batch_gives_what_its_records_give_alone(
    name: str, items: list[tuple[Source, bytes | None]]
) -> None:
    records = [record(offset, value, source) for offset, (source, value) in enumerate(items)]
    found = entries_of(name, records)
    assert rows(found) == [row for each in records for row in rows(entries_of(name, [each]))]
    assert [found.sources[number] for number in found.source_numbers] == [source for source, _ in items]
    # In order of appearance, each once.
    assert list(found.sources) == list(dict.fromkeys(source for source, _ in items))


@pytest.mark.parametrize(("name", "words"), [("minhash", 16), ("simhash-64", 1), ("simhash-128", 2)])
def test_the_columns_have_the_types_and_widths_that_the_index_takes(name: str, words: int) -> None:
    entries = entries_of(name, [record(3, document("a", TEXTS[0])), record(4, b"{", TWO)])
    types = {
        "source_numbers": np.uint32,
        "offsets": np.uint64,
        "kinds": np.uint8,
        "reasons": np.uint8,
        "fingerprints": np.uint64,
        "times_ms": np.int64,
    }
    assert {column: getattr(entries, column).dtype for column in types} == types
    assert {column: getattr(entries, column).shape for column in types} == dict.fromkeys(types, (2,)) | {
        "fingerprints": (2, words)
    }
    assert entries.offsets.tolist() == [3, 4]
    assert len(entries.ids) == 2


def test_a_dead_letter_keeps_its_place_its_reason_and_an_id_among_documents() -> None:
    entries = entries_of(
        "simhash-64",
        [
            record(0, document("first", TEXTS[0])),
            record(1, b"{"),
            record(2, b"{", key=b"a key"),
            record(3, None, TWO),
            record(4, b'{"id": "textless"}'),
            record(5, document("last", TEXTS[1])),
        ],
    )
    assert entries.kinds.tolist() == [Kind.NEAR, *[Kind.DEAD_LETTER] * 4, Kind.NEAR]
    assert entries.reasons.tolist() == [
        Reason.ORDINARY, Reason.NOT_JSON, Reason.NOT_JSON, Reason.TOMBSTONE, Reason.NO_TEXT, Reason.ORDINARY,
    ]  # fmt: skip
    assert list(entries.ids) == ["first", "documents/0/1", "a key", "documents/1/3", "textless", "last"]
    assert not entries.fingerprints[1:5].any()
    assert entries.fingerprints[0] != entries.fingerprints[5]


def test_a_batch_of_dead_letters_alone_is_a_batch() -> None:
    entries = entries_of("simhash-128", [record(0, None), record(1, b"{")])
    assert entries.kinds.tolist() == [Kind.DEAD_LETTER] * 2
    assert entries.fingerprints.shape == (2, 2)
    assert entries.looks is not None
    assert len(entries.looks) == 2


def test_a_text_without_features_is_undecidable_and_a_short_one_exact() -> None:
    entries = entries_of("simhash-64", [record(0, document("none", "…")), record(1, document("short", "今天下雨"))])
    assert entries.kinds.tolist() == [Kind.UNDECIDABLE, Kind.EXACT]
    assert entries.reasons.tolist() == [Reason.NO_FEATURES, Reason.SHORT_TEXT]


def test_the_time_is_the_documents_own_and_else_the_records() -> None:
    own = orjson.dumps({"text": TEXTS[0], "time": 5_000_000_000_000})
    settings = Settings.model_validate({"decode": {"time": "/time"}})
    records = [record(0, own), record(1, document("none", TEXTS[1])), record(2, b"{")]
    entries = prepare(Decoder(settings.decode), SCHEMES["minhash"], records)
    assert entries.times_ms.tolist() == [5_000_000_000_000, 1_001, 1_002]


def test_looks_stand_at_the_rows_of_their_documents() -> None:
    def metadata(*keywords: str) -> bytes:
        return orjson.dumps({"text": TEXTS[2], "keywords": keywords})

    same, other, none, again = metadata("harbour", "quay"), metadata("rice"), b"{", metadata("harbour", "quay")
    looks = entries_of(
        "simhash-128", [record(row, value) for row, value in enumerate([same, other, none, again])]
    ).looks
    assert looks is not None
    assert (looks[0] == looks[3]).all()
    assert (looks[0] != looks[1]).any()
    assert not looks[2].any()


@pytest.mark.parametrize("name", ["minhash", "simhash-64"])
def test_without_a_second_look_there_is_no_column_for_it(name: str) -> None:
    assert entries_of(name, [record(0, document("a", TEXTS[0]))]).looks is None


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_text_title_and_metadata_each_reach_the_scheme_as_what_they_are(name: str) -> None:
    value = orjson.dumps({"text": TEXTS[0], "title": SENTENCES[0], "keywords": ["rice"], "tags": ["harvest"]})
    entries = entries_of(name, [record(0, value)])
    alone = SCHEMES[name].fingerprint([TEXTS[0]], [SENTENCES[0]], [("rice", "harvest")])
    assert entries.fingerprints.tolist() == alone.fingerprints.tolist()
    assert (entries.looks is None) == (alone.looks is None)
    if entries.looks is not None and alone.looks is not None:
        assert entries.looks.tolist() == alone.looks.tolist()


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[list[AttemptFile]]:
    made = [AttemptFile(tmp_path), AttemptFile(tmp_path)]
    yield made
    for note in made:
        note.close(orderly=True)


def batch_of(*texts: str, first: int = 0) -> Batch:
    records = [record(first + number, document(str(number), text)) for number, text in enumerate(texts)]
    return Batch(records, {ONE: first + len(records)})


def test_what_is_prepared_ahead_is_what_the_batch_gives_by_itself(notes: list[AttemptFile]) -> None:
    ahead = Prefetcher(pure_steps(Decoder(SETTINGS["minhash"].decode), SCHEMES["minhash"]))
    batches = [batch_of(*TEXTS[at : at + 2], first=at) for at in range(0, 4, 2)]
    ahead.begin(batches[1], notes)
    for batch in (batches[1], batches[0]):
        work = ahead.take(batch, notes)
        assert all(pending.result() >= 0 for pending in work.pending.values())
        decoder = Decoder(SETTINGS["minhash"].decode)
        assert work.documents == decoder.decode(batch.records)
        alone = fingerprint_documents(SCHEMES["minhash"], work.documents)
        assert (work.fingerprints.fingerprints == alone.fingerprints).all()
    ahead.close()


def test_a_batch_that_another_took_the_place_of_is_thrown_away(notes: list[AttemptFile]) -> None:
    ahead = Prefetcher(pure_steps(Decoder(SETTINGS["minhash"].decode), SCHEMES["minhash"]))
    ahead.begin(batch_of(*TEXTS[:2]), notes)
    same_offsets = batch_of(*TEXTS[2:4])
    work = ahead.take(same_offsets, notes)
    work.pending["decode"].result()
    assert work.documents == Decoder(SETTINGS["minhash"].decode).decode(same_offsets.records)
    ahead.close()


class Held(Decoder):
    """A decoder that waits until it may."""

    def __init__(self) -> None:
        super().__init__(SETTINGS["minhash"].decode)
        self.may = Event()
        self.decoded = 0

    def decode(self, records: Sequence[Record]) -> list[Document | DeadLetter]:
        assert self.may.wait(60)
        self.decoded += 1
        return super().decode(records)


class Stepping:
    """Steps of two threads that each wait until they may end, and say when they begin."""

    def __init__(self) -> None:
        self.may = {name: Event() for name in ("decode", "decide")}
        self.begun = {name: Semaphore(0) for name in ("decode", "decide")}
        self.decided: list[Batch] = []

    def decode(self, _work: Work) -> None:
        self.begun["decode"].release()
        assert self.may["decode"].wait(60)

    def decide(self, work: Work) -> None:
        self.begun["decide"].release()
        assert self.may["decide"].wait(60)
        self.decided.append(work.batch)


def test_a_batch_is_decoded_while_the_one_before_is_decided_and_decisions_keep_their_order(
    notes: list[AttemptFile], tmp_path: Path
) -> None:
    steps, batches = Stepping(), [batch_of(TEXTS[0]), batch_of(TEXTS[1], first=1)]
    ahead = Prefetcher({"decode": steps.decode, "decide": steps.decide})
    steps.may["decode"].set()
    first = ahead.take(batches[0], notes)
    assert steps.begun["decide"].acquire(timeout=60)
    assert steps.begun["decode"].acquire(timeout=60)
    steps.may["decode"].clear()
    ahead.begin(batches[1], notes)
    assert steps.begun["decode"].acquire(timeout=60)
    assert not first.pending["decide"].done()
    noted = {path.read_bytes()[:16].strip() for path in tmp_path.glob("*.attempt")}
    assert noted == {b"decode", b"decide"}
    steps.may["decode"].set()
    steps.may["decide"].set()
    ahead.take(batches[1], notes).pending["decide"].result()
    assert steps.decided == batches
    ahead.close()


@pytest.mark.parametrize("waits_for", ["decode", "decide"])
def test_a_batch_that_is_not_yet_decided_is_left_and_one_amid_its_decision_is_owed(
    notes: list[AttemptFile], waits_for: str
) -> None:
    steps = Stepping()
    ahead = Prefetcher({"decode": steps.decode, "fingerprint": lambda _: None, "decide": steps.decide})
    steps.may["decide" if waits_for == "decode" else "decode"].set()
    ahead.begin(batch_of(TEXTS[0]), notes)
    assert steps.begun[waits_for].acquire(timeout=60)
    Timer(0.1, steps.may[waits_for].set).start()
    assert ahead.leave() == (waits_for == "decide")
    ahead.close()
    assert len(steps.decided) == (waits_for == "decide")


def test_whoever_settles_has_the_decoder_for_himself(notes: list[AttemptFile]) -> None:
    decoder = Held()
    ahead = Prefetcher(pure_steps(decoder, SCHEMES["minhash"]))
    ahead.begin(batch_of(*TEXTS[:2]), notes)
    decoder.may.set()
    ahead.settle()
    assert decoder.decoded == 1
    ahead.close()


def test_a_batch_that_is_prepared_and_waits_is_nothing_to_die_of(tmp_path: Path) -> None:
    notes, decoder = [AttemptFile(tmp_path)], Held()
    ahead = Prefetcher(pure_steps(decoder, SCHEMES["minhash"]))
    ahead.begin(batch_of(*TEXTS[:2]), notes)
    decoder.may.set()
    ahead.settle()
    ahead.close()
    notes[0].close(orderly=False)
    assert not list(deaths(tmp_path))


def test_what_a_decoder_raises_comes_out_where_the_batch_is_wanted_and_stays_noted(tmp_path: Path) -> None:
    class Broken(Held):
        def decode(self, records: Sequence[Record]) -> list[Document | DeadLetter]:
            raise ValueError(str(len(records)))

    notes = [AttemptFile(tmp_path)]
    ahead = Prefetcher(pure_steps(Broken(), SCHEMES["minhash"]))
    ahead.begin(batch := batch_of(*TEXTS[:2]), notes)
    work = ahead.take(batch, notes)
    for step in ("decode", "fingerprint"):
        with pytest.raises(ValueError, match="2"):
            work.pending[step].result()
    ahead.close()
    notes[0].close(orderly=False)
    (death,) = deaths(tmp_path)
    assert (death.step, death.ranges[0].offsets) == ("decode", range(2))
