"""Texts for decisions: records read and decoded again, and compared.

Decoding recovers what the index lacks: a dead letter's message, the host, and the fingerprint of a record that entered
nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from index import Entries, Index, Kind, errors
from streamer.errors import BrokerUnavailable, SettingsError
from streamer.explain.explanation import Answer, Explanation, Likeness, Place, Protected, Side, Texts
from streamer.explain.near import NearQuery, entry_of, resembling
from streamer.explain.printable import printable
from streamer.explain.side_by_side import Compared, excerpt, side_by_side
from streamer.explain.wording import deciding, measure_of
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.scheme import Scheme, key_for, parameters_for, scheme_for
from streamer.protected.sets import Found, ProtectedSets
from streamer.protected.texts import entry_text
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.reason import Reason
from streamer.settings.settings import Settings
from streamer.text.normalisation import Normaliser
from streamer.transports.output_log import Absent, RecordsAt, RecordsByPosition

RAW_BYTES_SHOWN = 400
"""Shown bytes of an undecodable value."""

PASSAGE_SHOWN = 400
"""Characters shown from the longest new passage."""

_HOSTS_WATCHED = 1_000


def with_texts(
    answer: Answer,
    index: Index,
    settings: Settings,
    records_at: RecordsAt,
    *,
    full: bool = False,
    protected: ProtectedSets | None = None,
) -> Answer:
    """The answer with texts, recovered data, and near entries for records that entered nothing.

    full       all of the texts, else excerpts around differing words
    protected  sets to look into; None: no sets

    Without an answer from the brokers, only adds the reason.
    """
    partners = {each.position: _partner(each) for each in answer.explanations}
    positions = [each.position for each in answer.explanations if _may_be_read(each)]
    positions += [partner[0].position for partner in partners.values() if partner]
    try:
        records = records_at(list(dict.fromkeys(positions)), index.stream_names())
    except (BrokerUnavailable, SettingsError) as problem:
        return replace(answer, no_texts=str(problem))
    reader = _Reader(index, settings, records, full=full, protected=protected)
    explanations = [reader.explained(each, partners[each.position]) for each in answer.explanations]
    return replace(answer, explanations=explanations)


_Partner = tuple[Place, str]
"""The other document, and its role."""


def _partner(explanation: Explanation) -> _Partner | None:
    if explanation.original:
        return explanation.original, explanation.original.role
    return (explanation.near[0], "nearest") if explanation.near else None


def _may_be_read(explanation: Explanation) -> bool:
    return explanation.decided.kind is not Kind.DEAD_LETTER or explanation.decided.reason not in _UNREAD


_UNREAD = {
    Reason.POISON: "it is not decoded here: it ended every process that tried",
    Reason.UNREADABLE: "the brokers have no readable record at its position",
}


class _Reader:
    def __init__(
        self,
        index: Index,
        settings: Settings,
        records: RecordsByPosition,
        *,
        full: bool,
        protected: ProtectedSets | None,
    ) -> None:
        self._index, self._settings = index, settings
        self._protected = protected
        self._records, self._full = records, full
        self._decoder = Decoder(settings.decode)
        self._normaliser = Normaliser(settings.fingerprint)
        self._scheme: Scheme | None = None

    def explained(self, explanation: Explanation, partner: _Partner | None) -> Explanation:
        if not _may_be_read(explanation):
            missing = _UNREAD[Reason(explanation.decided.reason)]
            return replace(explanation, texts=Texts(self._side(explanation, None, missing)))
        document, problem = self._document(explanation)
        notes = *explanation.notes, *self._notes(explanation, document)
        texts, note = self._texts(explanation, document, problem, partner)
        explanation = replace(explanation, notes=(*notes, *note), texts=texts)
        asks_sets = self._protected is not None and self._protected.names
        if isinstance(document, Document) and (explanation.near is None or asks_sets):
            return self._with_near(explanation, document)
        return explanation

    def _document(self, place: Place) -> tuple[Document | DeadLetter | None, str]:
        """The document at a position, or why there is none; another id means another document."""
        record = self._records[place.position]
        if isinstance(record, Absent):
            return None, record.why
        (document,) = self._decoder.decode([record])
        now = document.id or record.position
        if now != place.id:
            return None, f"its position now has another id, {now!r}: the input, or decode.id, changed since"
        return document, ""

    def _notes(self, explanation: Explanation, document: Document | DeadLetter | None) -> Iterator[str]:
        if isinstance(document, DeadLetter):
            yield f"Decoding it again fails: {printable(document.detail)}."
        elif document is not None:
            if explanation.decided.kind is Kind.DEAD_LETTER:
                yield "The settings in force decode it: other settings, or another version, refused it."
            for share in self._index.watched_hosts(_HOSTS_WATCHED).worst if document.host else []:
                if share.beyond and share.host == document.host:
                    yield (
                        f"Its site exceeds the guard's limits: {share.unequal:,} of the latest {share.documents:,} documents "
                        f"of {printable(share.host)} were near-duplicates, not copies. Is a template taken for their text?"
                    )

    def _with_near(self, explanation: Explanation, document: Document) -> Explanation:
        if self._scheme is None:
            try:
                self._scheme = comparable_scheme(self._index, self._settings)
            except errors.ParametersDifferError:
                note = "Near documents are unknown: the settings give other fingerprints than those in the index."
                return replace(explanation, notes=(*explanation.notes, note))
        prints = fingerprint_documents(self._scheme, [document])
        looks = np.zeros((1, 0), np.uint8) if prints.looks is None else prints.looks
        original, parameters = explanation.original, deciding(self._index.parameters, self._settings)
        entered = original.decided.document if original and original.decided else None
        kind, length = Kind(int(prints.kinds[0])), 0 if prints.lengths is None else int(prints.lengths[0])
        place, host = explanation.decided.position, document.host
        entry = entry_of(place, kind, document.id or "", prints.fingerprints, looks, length, host)
        if self._protected is not None and self._protected.names:
            explanation = replace(
                explanation, protected=self._protected_by(self._protected, explanation, document, entry)
            )
        if explanation.near is not None:
            return explanation
        query = NearQuery(explanation.decided, entry, entered)
        likeness, near, fingerprint = resembling(self._index, parameters, query)
        measure = measure_of(original.role if original else None, likeness, parameters)
        return replace(explanation, near=near, fingerprint=fingerprint, likeness=likeness, measure=measure)

    def _protected_by(
        self, sets: ProtectedSets, place: Place, document: Document, entry: Entries
    ) -> tuple[Protected, ...]:
        """What a document resembles in protected sets, with both texts."""
        return tuple(self._side_by_side(sets, each, place, document) for each in sets.found(entry))

    def _side_by_side(self, sets: ProtectedSets, found: Found, place: Place, document: Document) -> Protected:
        match = found.match
        other, where = entry_text(sets.folders[match.set_name], found.position, match.id, self._settings)
        missing = where if other is None else ""
        role = f"in {match.set_name}"
        own_side = self._side(place, document, "")
        likeness = Likeness(similarity=match.similarity, distance=match.distance)
        if other is None:
            texts = Texts(own_side, Side(match.id, "", role=role, missing=missing))
            return Protected(match.set_name, match.id, likeness, texts)
        words = side_by_side(self._text(other), self._text(document), full=self._full)
        entry_side = Side(match.id, where, role, printable(other.title), len(other.text), words.before)
        texts = Texts(replace(own_side, spans=words.after), entry_side, words.changes, words.hidden)
        return Protected(match.set_name, match.id, likeness, texts)

    def _texts(
        self, explanation: Explanation, document: Document | DeadLetter | None, problem: str, partner: _Partner | None
    ) -> tuple[Texts, Sequence[str]]:
        """Both texts, and a note on what the later one adds."""
        own_side = self._side(explanation, document, problem)
        if partner is None or isinstance(document, DeadLetter):
            return Texts(own_side), ()
        place, role = partner
        other, problem = self._document(place)
        if isinstance(other, DeadLetter):
            other, problem = None, "the settings in force do not decode it"
        other_side = replace(self._side(place, other, problem), role=role)
        if document is None or other is None:
            return Texts(own_side, other_side), ()
        words = side_by_side(self._text(other), self._text(document), full=self._full)
        sides = replace(own_side, spans=words.after), replace(other_side, spans=words.before)
        return Texts(*sides, words.changes, words.hidden), _added(words, role)

    def _side(self, place: Place, document: Document | DeadLetter | None, missing: str) -> Side:
        if document is None:
            return Side(place.id, place.where, missing=missing)
        if isinstance(document, Document):
            title, characters, text = printable(document.title), len(document.text), self._text(document)
            return Side(place.id, place.where, title=title, characters=characters, spans=excerpt(text, full=self._full))
        record = self._records[place.position]
        value = b"" if isinstance(record, Absent) or record.value is None else record.value
        shown = (value if self._full else value[:RAW_BYTES_SHOWN]).decode(errors="backslashreplace")
        return Side(place.id, place.where, characters=len(value), spans=excerpt(shown, full=True))

    def _text(self, document: Document) -> str:
        (text,) = self._normaliser.without_markup([document.text])
        return text


def _added(words: Compared, role: str) -> Sequence[str]:
    if not words.new_letters:
        return ()
    passage = words.longest_new
    shown = passage if len(passage) <= PASSAGE_SHOWN else f"{passage[:PASSAGE_SHOWN]} ..."
    share = words.new_letters / words.letters
    return (
        f"Of its {words.letters:,} letters {words.new_letters:,} ({share:.1%}) differ from the {role}'s; the longest such "
        f"passage: {shown}",
    )


def comparable_scheme(index: Index, settings: Settings) -> Scheme:
    """The scheme of the index's fingerprints. Raises ParametersDifferError if the settings give others."""
    scheme, stored = scheme_for(settings, key_for(settings, index.secret)), index.parameters
    asked = parameters_for(settings, scheme.stamp())
    if asked.scheme == stored.scheme:
        # Thresholds do not change the order of near documents.
        asked = replace(asked, insert=stored.insert, root=stored.root).with_thresholds(stored)
    stored.require_equal(asked, str(settings.index.directory))
    return scheme
