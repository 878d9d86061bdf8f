"""Texts for decisions: records read and decoded again, and compared.

Decoding recovers what the index lacks: a dead letter's message, the host, and the fingerprint of a record that entered
nothing.
"""

from dataclasses import replace

import numpy as np

from index import Index, Kind, Position, errors
from streamer.errors import BrokerUnavailable, SettingsError
from streamer.explain.explanation import Answer, Explanation, Side, Texts
from streamer.explain.near import NearQuery, cosine_of, near_of
from streamer.explain.side_by_side import excerpt, printable, side_by_side
from streamer.explain.wording import deciding, measure_of
from streamer.fingerprint.fingerprints import hexadecimal
from streamer.fingerprint.scheme import Scheme, key_for, parameters_for, scheme_for
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.text.normalisation import Normaliser
from streamer.transports.output_log import Absent, RecordsAt, RecordsByPosition

RAW_BYTES_SHOWN = 400
"""Shown bytes of an undecodable value."""

_HOSTS_WATCHED = 1_000


def with_texts(
    answer: Answer, index: Index, settings: Settings, records_at: RecordsAt, *, full: bool = False
) -> Answer:
    """The answer with texts, recovered data, and near entries for records that entered nothing.

    full  all of the texts, else excerpts around differing words

    Without an answer from the brokers, only adds the reason.
    """
    partners = {each.decided.position: _partner(each) for each in answer.explanations}
    asked = [each.decided.position for each in answer.explanations if _may_be_read(each)]
    asked += [partner[0] for partner in partners.values() if partner]
    try:
        found = records_at(list(dict.fromkeys(asked)))
    except (BrokerUnavailable, SettingsError) as problem:
        return replace(answer, no_texts=str(problem))
    reader = _Reader(index, settings, found, full=full)
    explanations = [reader.explained(each, partners[each.decided.position]) for each in answer.explanations]
    return replace(answer, explanations=explanations)


_Partner = tuple[Position, str, str, str]
"""The other document: position, id, position in words, role."""


def _partner(explanation: Explanation) -> _Partner | None:
    if explanation.original:
        original = explanation.original
        return original.position, original.id, original.where, original.role
    if explanation.near:
        nearest = explanation.near[0]
        return nearest.position, nearest.id, nearest.where, "nearest"
    return None


def _may_be_read(explanation: Explanation) -> bool:
    return explanation.decided.kind is not Kind.DEAD_LETTER or explanation.decided.reason not in (
        Reason.POISON,
        Reason.UNREADABLE,
    )


_UNREAD = {
    Reason.POISON: "it is not decoded here, for it ended every process that did",
    Reason.UNREADABLE: "the brokers give no record there that could be read",
}


class _Reader:
    def __init__(self, index: Index, settings: Settings, found: RecordsByPosition, *, full: bool) -> None:
        self._index = index
        self._settings = settings
        self._found = found
        self._full = full
        self._decoder = Decoder(settings.decode)
        self._normaliser = Normaliser(settings.fingerprint)
        self._scheme: Scheme | None = None

    def explained(self, explanation: Explanation, partner: _Partner | None) -> Explanation:
        decided = explanation.decided
        if not _may_be_read(explanation):
            missing = _UNREAD[Reason(decided.reason)]
            return replace(explanation, texts=Texts(Side(decided.id, explanation.where, missing=missing)))
        own, problem = self._document(decided.position, decided.id)
        told = explanation
        if isinstance(own, DeadLetter) or (isinstance(own, Document) and decided.kind is Kind.DEAD_LETTER):
            told = self._decoded_again(told, own)
        if isinstance(own, Document):
            told = self._with_host(told, own)
            if told.near is None:
                told = self._with_near(told, own)
        return replace(told, texts=self._texts(told, own, problem, partner))

    def _document(self, position: Position, id_: str) -> tuple[Document | DeadLetter | None, str]:
        """The document at a position, or why there is none; another id means another document."""
        record = self._found[position]
        if isinstance(record, Absent):
            return None, record.why
        (document,) = self._decoder.decode([record])
        now = document.id or record.position
        if now != id_:
            return None, f"what stands there now has another id, {now!r}: the input, or decode.id, was changed since"
        return document, ""

    def _decoded_again(self, explanation: Explanation, own: Document | DeadLetter) -> Explanation:
        if isinstance(own, DeadLetter):
            note = f"Decoding it again says: {printable(own.detail)}."
        else:
            note = "The settings in force decode it: it was refused by other settings, or by another version."
        return replace(explanation, notes=(*explanation.notes, note))

    def _with_host(self, explanation: Explanation, own: Document) -> Explanation:
        shares = self._index.watched_hosts(_HOSTS_WATCHED).worst if own.host else []
        for share in shares:
            if share.beyond and share.host == own.host:
                note = (
                    f"Its site is beyond the limits of the guard: {share.unequal:,} of the latest {share.documents:,} documents "
                    f"of {printable(share.host)} were near-duplicates, and no copies. Is a template taken for their text?"
                )
                return replace(explanation, notes=(*explanation.notes, note))
        return explanation

    def _with_near(self, explanation: Explanation, own: Document) -> Explanation:
        if self._scheme is None:
            try:
                self._scheme = comparable_scheme(self._index, self._settings)
            except errors.ParametersDiffer:
                note = "What is near is not known: the settings give other fingerprints than those in the index."
                return replace(explanation, notes=(*explanation.notes, note))
        prints = self._scheme.fingerprint([own.text], [own.title], [own.metadata])
        looks = np.zeros((1, 0), np.uint8) if prints.looks is None else prints.looks
        original = explanation.original
        of_original = original.decided.document if original and original.decided else None
        sought = NearQuery(
            explanation.decided,
            Kind(int(prints.kinds[0])),
            prints.fingerprints,
            looks,
            of_original.number if of_original else None,
        )
        (fingerprint,) = hexadecimal(prints.kinds, prints.fingerprints)
        likeness, parameters = explanation.likeness, deciding(self._index.parameters, self._settings)
        if likeness and of_original and parameters.insert != "all":
            likeness = replace(likeness, cosine=cosine_of(looks, of_original, parameters))
        near = near_of(self._index, parameters, sought, self._index.stream_names())
        measure = measure_of(original.role if original else None, likeness, parameters)
        return replace(explanation, near=near, fingerprint=fingerprint, likeness=likeness, measure=measure)

    def _texts(
        self, explanation: Explanation, own: Document | DeadLetter | None, problem: str, partner: _Partner | None
    ) -> Texts:
        decided = explanation.decided
        side = Side(decided.id, explanation.where, missing=problem)
        if isinstance(own, DeadLetter):
            return Texts(self._raw(side, self._found[decided.position]))
        if partner is None:
            return Texts(side if own is None else self._alone(side, own))
        position, id_, where, role = partner
        other, problem = self._document(position, id_)
        other_side = Side(id_, where, missing=problem)
        if isinstance(other, DeadLetter):
            other_side = replace(other_side, missing="the settings in force do not decode it")
        if own is None or not isinstance(other, Document):
            shown = side if own is None else self._alone(side, own)
            return Texts(shown, self._alone(other_side, other) if isinstance(other, Document) else other_side, role)
        compared = side_by_side(self._text(other), self._text(own), full=self._full)
        return Texts(
            replace(self._headed(side, own), spans=compared.after),
            replace(self._headed(other_side, other), spans=compared.before),
            role,
            compared.changes,
            compared.hidden,
        )

    def _text(self, document: Document) -> str:
        (text,) = self._normaliser.without_markup([document.text])
        return text

    def _headed(self, side: Side, document: Document) -> Side:
        return replace(side, title=printable(document.title), characters=len(document.text))

    def _alone(self, side: Side, document: Document) -> Side:
        return replace(self._headed(side, document), spans=excerpt(self._text(document), full=self._full))

    def _raw(self, side: Side, record: Record | Absent) -> Side:
        if isinstance(record, Absent) or record.value is None:
            return side
        shown = record.value if self._full else record.value[:RAW_BYTES_SHOWN]
        spans = excerpt(shown.decode(errors="backslashreplace"), full=True)
        return replace(side, characters=len(record.value), spans=spans)


def comparable_scheme(index: Index, settings: Settings) -> Scheme:
    """The scheme of the index's fingerprints. Raises ParametersDiffer if the settings give others."""
    scheme, stored = scheme_for(settings, key_for(settings, index.secret)), index.parameters
    asked = parameters_for(settings, scheme.stamp())
    if asked.scheme == stored.scheme:
        # Thresholds do not change the order of near documents.
        asked = replace(asked, insert=stored.insert, root=stored.root).with_thresholds(stored)
    stored.require_equal(asked, str(settings.index.directory))
    return scheme
