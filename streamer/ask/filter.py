"""The filter as a library: documents in, answers out, by the path that the service walks.

A document is decoded and fingerprinted as a record with the same content would be, and the same index decides.
"""

import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

import orjson
import xxhash

from index import Decisions, Entries, Index, Source
from streamer.ask.answer import Answer, answer_of
from streamer.errors import SettingsError
from streamer.fingerprint.fingerprints import hexadecimal
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Record
from streamer.records.route import explain
from streamer.service.pipeline import entries_of, fingerprint_documents
from streamer.service.wiring import open_with_scheme
from streamer.settings.settings import Settings

Value = Mapping[str, object] | bytes
"""A document: the object that `decode` expects (by default with `id`, `title`, `text`), or a record's value as bytes."""

_CHECKED = Source("check", 0)
"""Source of documents that are only checked: the index does not read it."""


class Filter:
    """An index that answers about documents; a context manager. Threads may share one.

    `check` looks and changes nothing. `admit` decides: what is new enters the index.

    Positions make `admit` repeatable. A filter numbers its documents from 0, as the offsets of a source of its own. A
    position is decided once: asked again, it gets the same answer (`Answer.replayed`), whatever came between. So a
    caller whose process died between `admit` and its own commit calls `admit` again with the same documents and the same
    `position`, which it keeps with its own commit.
    """

    def __init__(self, index: Index, settings: Settings, scheme: Scheme, source: Source, *, read_only: bool) -> None:
        """Use `Filter.open`."""
        self._index = index
        self._by_similarity = index.parameters.by_similarity
        self._decoder = Decoder(settings.decode)
        self._scheme = scheme
        self._source = source
        self._read_only = read_only
        self._admitting = Lock()
        self._stream_names: dict[str, str] = {}
        self._closing = ExitStack()
        self._position: int | None = None
        self._has_begun = False

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        settings: Settings | None = None,
        *,
        source: str | None = None,
        read_only: bool = False,
    ) -> Self:
        """Open the index in `directory`, also beside a running service; creates one where there is none.

        settings   what `streamer.load_settings` gives, or `Settings()`, which None stands for. All that changes a
                   fingerprint must be as the index was made with; `index.directory` is not read
        source     name of this caller's documents. One process at a time may have it; `position` goes on where the last
                   one ended. None: a source of this opening alone, whose positions nobody can ask for again
        read_only  only `check`: writes nothing, and the index must exist

        Raises SettingsError, IndexProblem (`index.errors`).
        """
        given = Settings() if settings is None else settings
        chosen = given.model_copy(update={"index": given.index.model_copy(update={"directory": Path(directory)})})
        stream = f"filter:{uuid.uuid4().hex if source is None else source}"
        with ExitStack() as opening:
            index, scheme = open_with_scheme(chosen, read_only=read_only)
            opening.enter_context(index)
            opened = cls(index, chosen, scheme, Source(stream, 0), read_only=read_only)
            if source is not None and not read_only:
                opening.callback(os.close, _taken(Path(directory), source))
            opened._closing = opening.pop_all()
        return opened

    def close(self) -> None:
        """Close the index; further calls do nothing."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def position(self) -> int:
        """Position that the next document admitted will get where the caller names none."""
        if self._position is None:
            applied = self._index.applied().get(self._source)
            self._position = 0 if applied is None else applied.offset
        return self._position

    @property
    def index(self) -> Index:
        """The index itself, for what a filter does not do."""
        return self._index

    def check(self, documents: Iterable[Value]) -> list[Answer]:
        """What `admit` would say of each document if it came next; changes nothing, and waits for no writer.

        Each document is held against the index as it is, not against the others of the call. Where the settings bound
        the age of entries, a document's own time does not move that bound on. A document that cannot be decoded is a
        `dead-letter`. Raises TypeError for what is no document, IndexDamaged.
        """
        return self._answers(_records(documents, _CHECKED, 0), self._index.check)

    def admit(self, documents: Iterable[Value], *, position: int | None = None) -> list[Answer]:
        """Decide documents in order, each seeing those before it, in one synced transaction: all of them, or none.

        position  of the first document, the others follow it; None: `Filter.position`. Positions that were decided before
                  keep their answers; gaps are allowed

        When it returns, the decision outlives the process. Where it dies before, the caller cannot know: it asks again at
        the same position. Raises TypeError for what is no document, ValueError for a bad position or a filter that only
        reads, IndexFull, IndexDamaged.
        """
        if self._read_only:
            raise ValueError("this filter was opened with read_only=True: it can only check")
        if position is not None and position < 0:
            raise ValueError(f"position must be at least 0, not {position}")
        with self._admitting:
            begin = self.position if position is None else position
            records = _records(documents, self._source, begin)
            if not records:
                return []
            end = begin + len(records)

            def decide(entries: Entries) -> Decisions:
                if not self._has_begun:
                    self._index.begin(self._source, self._source.stream, 0)
                    self._has_begun = True
                return self._index.admit(entries, {self._source: end})

            answers = self._answers(records, decide)
            self._position = max(self.position, end)
            return answers

    def _answers(self, records: Sequence[Record], decide: Callable[[Entries], Decisions]) -> list[Answer]:
        if not records:
            return []
        documents: list[Document | DeadLetter] = self._decoder.decode(records)
        fingerprints = fingerprint_documents(self._scheme, documents)
        entries = entries_of(records, documents, fingerprints)
        decisions = decide(entries)
        explained = explain(
            records,
            documents,
            hexadecimal(entries.kinds, entries.fingerprints),
            decisions,
            self._names_of(decisions),
            by_similarity=self._by_similarity,
        )
        return [answer_of(each, record.position) for each, record in zip(explained, records, strict=True)]

    def _names_of(self, decisions: Decisions) -> dict[str, str]:
        """Names of all streams that originals come from; read again only for a new stream."""
        named = {position.source.stream for position in decisions.original_positions if position is not None}
        if not named <= self._stream_names.keys():
            self._stream_names = self._index.stream_names()
        return self._stream_names


def _records(documents: Iterable[Value], source: Source, begin: int) -> list[Record]:
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
        return orjson.dumps(dict(document), option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        # It refuses lone surrogates and long numbers too, which the decoder takes.
        try:
            return json.dumps(dict(document)).encode()
        except (TypeError, ValueError) as error:
            raise TypeError(f"documents[{place}] cannot be written as JSON: {error}") from error


def _taken(directory: Path, source: str) -> int:
    """Descriptor of a lock that only one process has: two that number the same source would get each other's answers."""
    name = f"source-{xxhash.xxh3_64_hexdigest(source.encode())}.lock"
    descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise SettingsError(
            f"source {source!r}: another filter has it open: close that one, or name another source"
        ) from error
    return descriptor
