"""The filter as a library: documents in, answers out, by the service's decoder, fingerprints and index."""

import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from threading import Lock
from typing import Any, overload

import xxhash

from index import Decisions, Entries, Source, Turn, Verdict, errors
from streamer.ask.answer import Answer, answer_of
from streamer.errors import SettingsError
from streamer.fingerprint.documents import entries_of, fingerprint_documents
from streamer.fingerprint.fingerprints import hexadecimal
from streamer.fingerprint.in_place import as_in_place
from streamer.fingerprint.scheme import measure_of
from streamer.protected.sets import open_sets
from streamer.records.any_json import dumps
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Record
from streamer.records.route import explain
from streamer.service.stream_names import StreamNames
from streamer.service.wiring import open_with_scheme
from streamer.settings.settings import Settings, load

Value = Mapping[str, object] | bytes
"""A document: a mapping with the fields of `decode` (by default `id`, `title`, `text`), or a record's value as bytes."""

_CHECKED = Source("check", 0)
"""Source of checked documents; the index ignores it."""


class Filter(AbstractContextManager["Filter"]):
    """An open index that decides on documents; a thread-safe context manager.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Filter(folder, text="/body") as seen:
    ...     [answer.verdict for answer in seen.admit([{"body": "one text"}, {"body": "one text"}])]
    ['unique', 'duplicate']

    `check` only reads. `admit` decides, and unique documents enter the index. Both take a document or several, and give an
    answer or a list of them. `document in seen` is whether the filter would drop it, and `len` counts the entries.

    A filter numbers its documents from 0, and decides each position once: a second call gets the same answer
    (`Answer.replayed`). A caller stores `position` with its commit. After a crash, it repeats `admit` from there with
    the same documents.

    After `close`, and in a forked child, every call but `close` and `repr` raises IndexClosedError. A child opens a filter of its
    own.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Settings | Mapping[str, Any] | None = None,
        *,
        similarity_min: float | None = None,
        id: str | None = None,  # noqa: A002 - the setting's name
        title: str | None = None,
        text: str | None = None,
        host: str | None = None,
        scope: str | None = None,
        markup: str | None = None,
        source: str | None = None,
        read_only: bool = False,
    ) -> None:
        """Open or create the index in `directory`, also while a service uses it.

        settings        a mapping from `section.key` to a value, or what `streamer.load_settings` gives; None: the defaults. Those
                        that change fingerprints must match the index, and an unset `fingerprint.markup` is the index's own;
                        `index.directory` is ignored
        similarity_min  `minhash.similarity_min`
        id, title, text, host, scope
                        JSON pointers of `decode`, such as "/body"
        markup          `fingerprint.markup`
        source          name for this caller's documents, held by one process at a time; `position` continues after its last
                        one. None: a new source, whose positions end with `close`
        read_only       allow `check` only, on an existing index

        Raises SettingsError, NeardupIndexError (`index.errors`); TypeError for single settings with a `Settings`.
        """
        named = {
            "minhash.similarity_min": similarity_min,
            "decode.id": id,
            "decode.title": title,
            "decode.text": text,
            "decode.host": host,
            "decode.scope": scope,
            "fingerprint.markup": markup,
        }
        chosen = _chosen(settings, {key: value for key, value in named.items() if value is not None})
        chosen = as_in_place(chosen.replaced(index={"directory": Path(directory)}))
        self._directory, self._read_only = os.fspath(directory), read_only
        self._source = Source(f"filter:{uuid.uuid4().hex if source is None else source}", 0)
        self._decoder = Decoder(chosen.decode)
        self._admitting = Lock()
        self._position: int | None = None
        self._has_begun = False
        with ExitStack() as opening:
            self.index, self._scheme = open_with_scheme(chosen, read_only=read_only)
            """The index, for further operations."""
            opening.enter_context(self.index)
            self.protected = opening.enter_context(open_sets(chosen, self._scheme))
            """Protected sets, open: `index.protected`."""
            if source is not None and not read_only:
                opening.callback(_take_source(Path(directory), source).give_back)
            self._closing = opening.pop_all()
        self._measure = measure_of(chosen, self.index.parameters)
        self._names = StreamNames(self.index)

    def __repr__(self) -> str:
        try:
            state = f"{len(self):,} entries"
        except errors.NeardupIndexError as problem:
            state = "closed" if isinstance(problem, errors.IndexClosedError) else type(problem).__name__
        return f"<Filter {self._directory!r}: {state}>"

    def __len__(self) -> int:
        """Entries, those of short texts too. Raises IndexClosedError."""
        statistics = self.index.statistics()
        return statistics.entries + statistics.exact_entries

    def __bool__(self) -> bool:
        """True: an empty filter is one."""
        return True

    def __contains__(self, document: object) -> bool:
        """Whether the filter would drop this document as a near-duplicate. Raises as `check`, TypeError for several."""
        if not isinstance(document, Mapping | bytes):
            raise TypeError(f"a document is a mapping or bytes, not {type(document).__name__}")
        return self.check(document).verdict == Verdict.DUPLICATE.label

    def close(self) -> None:
        """Close the index; may be repeated."""
        self._closing.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def position(self) -> int:
        """Default position of the next admitted document. Raises IndexClosedError."""
        self.index.require_open()
        if self._position is None:
            applied = self.index.applied().get(self._source)
            self._position = 0 if applied is None else applied.offset
        return self._position

    @overload
    def check(self, documents: Value) -> Answer: ...
    @overload
    def check(self, documents: Iterable[Value]) -> list[Answer]: ...
    def check(self, documents: Value | Iterable[Value]) -> Answer | list[Answer]:
        """Answer as `admit` would for each document alone; reads only, and waits for no writer.

        The documents' times do not advance an age limit of entries. Raises TypeError for a value of another type,
        IndexDamagedError, IndexClosedError.
        """
        self.index.require_open()
        if isinstance(documents, Mapping | bytes):
            return self.check([documents])[0]
        return self._answers(_records(documents, _CHECKED, 0), self.index.check)

    @overload
    def admit(self, documents: Value, *, position: int | None = None) -> Answer: ...
    @overload
    def admit(self, documents: Iterable[Value], *, position: int | None = None) -> list[Answer]: ...
    def admit(self, documents: Value | Iterable[Value], *, position: int | None = None) -> Answer | list[Answer]:
        """Decide documents in order, each compared with the earlier ones too, in one synced transaction: all or none.

        position  position of the first document, by default `Filter.position`; may leave gaps. Decided positions keep their
                  answers

        The decision is durable on return. After a crash during the call, repeat it at its position. Raises TypeError
        for a value of another type, ValueError for a bad position or a read-only filter, IndexFullError, IndexDamagedError,
        IndexClosedError.
        """
        # Before the lock below, which another thread of the parent may have held at a fork.
        self.index.require_open()
        if self._read_only:
            raise ValueError("the filter is open with read_only=True: it can only check")
        if position is not None and position < 0:
            raise ValueError(f"position must be at least 0, not {position}")
        if isinstance(documents, Mapping | bytes):
            return self.admit([documents], position=position)[0]
        with self._admitting:
            begin = self.position if position is None else position
            records = _records(documents, self._source, begin)
            if not records:
                return []
            end = begin + len(records)

            def decide(entries: Entries) -> Decisions:
                if not self._has_begun:
                    self.index.begin(self._source, self._source.stream, 0)
                    self._has_begun = True
                return self.index.admit(entries, {self._source: end})

            answers = self._answers(records, decide)
            self._position = max(self.position, end)
            return answers

    def _answers(self, records: Sequence[Record], decide: Callable[[Entries], Decisions]) -> list[Answer]:
        if not records:
            return []
        documents: list[Document | DeadLetter] = self._decoder.decode(records)
        entries = entries_of(records, documents, fingerprint_documents(self._scheme, documents))
        reported = self.protected.matches(entries).rows
        decisions = decide(entries)
        explained = explain(
            records,
            documents,
            hexadecimal(entries.kinds, entries.fingerprints),
            decisions,
            self._names.of(decisions.original_positions),
            self._measure,
        )
        for decision, matches in zip(explained, reported, strict=True):
            decision.protected = matches
        return [answer_of(each, record.position) for each, record in zip(explained, records, strict=True)]


def _chosen(settings: Settings | Mapping[str, Any] | None, named: Mapping[str, Any]) -> Settings:
    if isinstance(settings, Settings):
        if named:
            raise TypeError(f"settings are a Settings already: set {', '.join(named)} there, or give a mapping")
        return settings
    return load(None, {**(settings or {}), **named}, environment={}, over_files=True)


def _records(documents: Iterable[Value] | str, source: Source, begin: int) -> list[Record]:
    if isinstance(documents, str):
        raise TypeError('a document is a mapping or bytes: write {"text": ...}')
    return [
        Record(source, source.stream, offset, None, _value(offset - begin, document), 0)
        for offset, document in enumerate(documents, begin)
    ]


def _value(place: int, document: Value) -> bytes:
    if isinstance(document, bytes):
        return document
    if not isinstance(document, Mapping):
        raise TypeError(f"documents[{place}] must be a mapping or bytes, not {type(document).__name__}")
    try:
        return dumps(dict(document))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"documents[{place}] cannot be written as JSON: {error}") from error


def _take_source(directory: Path, source: str) -> Turn:
    """The turn at a source: two processes in one source would share answers."""
    turn = Turn(directory / f"source-{xxhash.xxh3_64_hexdigest(source.encode())}.lock")
    if not turn.take(create=True):
        raise SettingsError(f"source {source!r} is open in another filter: close that one, or name another source")
    return turn
