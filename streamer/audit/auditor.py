"""Auditor: keeps the sampled documents of decided batches."""

import time
from collections.abc import Sequence

from index import Decisions, Position, Verdict
from streamer.audit.store import Audited, AuditStore
from streamer.explain.positions import position_text
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.records.decode import DeadLetter, Document
from streamer.records.record import Record


class Auditor:
    """Adds every sampled document to the store, once its verdict is final."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    def observe(
        self,
        records: Sequence[Record],
        documents: Sequence[Document | DeadLetter],
        fingerprints: Fingerprints,
        decisions: Decisions,
    ) -> None:
        """Add the sampled documents of a decided batch; all columns row for row."""
        if fingerprints.samples is None:
            return
        audited = []
        for row, sample in enumerate(fingerprints.samples.tolist()):
            if sample is None:
                continue
            record, document, verdict = records[row], documents[row], Verdict(decisions.verdicts[row])
            original = decisions.original_positions[row]
            audited.append(
                Audited(
                    position_text(Position(record.source, record.offset), {}),
                    record.position,
                    document.id if isinstance(document, Document) else "",
                    (document.host if isinstance(document, Document) else None) or "",
                    sample.least,
                    sample.features,
                    dropped=verdict is Verdict.DUPLICATE,
                    named=verdict.names_original,
                    original="" if original is None else position_text(original, {}),
                    replaces=verdict is Verdict.UPDATE,
                )
            )
        self._store.add(audited, time.time())
