"""Check of families: what is noted of them, and what pages are filed by, fits the documents and the templates."""

import struct
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from index.entry import Kind
from index.families.table import POSTINGS_MAX, all_keys
from index.matching.minhash import unpack_bins
from index.session import ReadSession
from index.storage import log
from index.storage.layout import Family, Filing, Table, unpack_family, unpack_numbers, unpack_own_key
from index.storage.log import Batch
from index.tools.finding import Finding

DOCUMENTS_AT_ONCE = 2**14

Numbers = npt.NDArray[np.uint64]


def families(session: ReadSession, batches: Iterable[Batch]) -> Finding:
    """Compare `families`, `relatives` and `own` with the log and with each other; reads all of them into memory."""
    finding = Finding("families")
    known = _families(session, finding)
    numbers, heads = _relatives(session)
    finding.examined += len(known) + len(numbers)
    counts = dict(zip(*(column.tolist() for column in np.unique(heads, return_counts=True)), strict=True))
    finding.note(f"document {head} heads a family that is not told of" for head in counts if head not in known)
    finding.note(
        f"the family of document {head} counts {family.relatives} documents, there are {counts.get(head, 0)}"
        for head, family in known.items()
        if family.relatives != counts.get(head, 0)
    )
    finding.note(_retired(session, numbers))
    filed = _by_own(session, batches)
    postings = _postings(session, finding)
    finding.note(
        f"document {number} is filed by what it has of its own, and is nowhere"
        for number in np.setdiff1d(filed, postings[2]).tolist()
    )
    finding.note(f"document {number} stands in `own` wrongly" for number in np.setdiff1d(postings[2], filed).tolist())
    finding.note(_misplaced(session, known, dict(zip(numbers.tolist(), heads.tolist(), strict=True)), postings))
    return finding


def _families(session: ReadSession, finding: Finding) -> dict[int, Family]:
    banding, found = session.parameters.banding, {}
    for key, value in session.transaction.walk(Table.FAMILIES):
        head = int(unpack_numbers([key])[0])
        try:
            family = unpack_family(bytes(value))
        except (ValueError, struct.error) as problem:
            finding.note([f"the family of document {head} cannot be read: {problem}"])
            continue
        if banding is None or len(family.values) != banding.bins:
            finding.note([f"the family of document {head} has {len(family.values)} bins"])
            continue
        found[head] = family
    return found


def _relatives(session: ReadSession) -> tuple[Numbers, Numbers]:
    """Documents that are noted as relatives, ascending, and the heads of their families: uint64 [n] twice."""
    pairs = [(key, bytes(value)) for key, value in session.transaction.walk(Table.RELATIVES)]
    return unpack_numbers([key for key, _ in pairs]), unpack_numbers([head for _, head in pairs])


def _retired(session: ReadSession, numbers: Numbers) -> Iterator[str]:
    """Problems of relatives that are no documents any more."""
    there = np.zeros(len(numbers), np.bool_)
    for _, _, places in log.holding(session.transaction, numbers, session.words):
        there[places] = True
    there &= ~session.visibility.are_retired(numbers)
    yield from (f"document {number} is noted as a relative, and has left" for number in numbers[~there].tolist())


def _by_own(session: ReadSession, batches: Iterable[Batch]) -> Numbers:
    """Documents that the log says are filed by what they have of their own, and have not left: uint64 [n], ascending."""
    parts = [np.empty(0, np.uint64)]
    for batch in batches:
        rows = batch.rows[batch.entered()]
        numbers = batch.numbers()[(rows["filing"] == Filing.OWN) & (rows["kind"] == Kind.NEAR)]
        parts.append(numbers[~session.visibility.are_retired(numbers)])
    return np.concatenate(parts)


def _postings(session: ReadSession, finding: Finding) -> tuple[Numbers, npt.NDArray[np.int64], Numbers]:
    """Heads uint64 [n], keys int64 [n], and numbers uint64 [n] of `own`."""
    heads: list[int] = []
    keys: list[int] = []
    values: list[bytes] = []
    for key, value in session.transaction.walk(Table.OWN):
        head, own = unpack_own_key(key)
        heads.append(head)
        keys.append(own)
        values.append(bytes(value))
    finding.examined += len(values)
    columns = np.array(heads, np.uint64), np.array(keys, np.int64)
    places, counts = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    finding.note(
        f"{count} documents stand in `own` under one key of the family of document {int(head)}"
        for (head, _), count in zip(places.tolist(), counts.tolist(), strict=True)
        if count > POSTINGS_MAX
    )
    return *columns, unpack_numbers(values)


def _misplaced(
    session: ReadSession,
    known: dict[int, Family],
    head_of: dict[int, int],
    postings: tuple[Numbers, npt.NDArray[np.int64], Numbers],
) -> Iterator[str]:
    """Problems of documents that stand under keys that are not theirs."""
    heads, keys, numbers = postings
    distinct, inverse = np.unique(numbers, return_inverse=True)
    banding = session.parameters.banding
    if banding is None or not len(distinct):
        return
    order = np.argsort(inverse, kind="stable")
    for begin in range(0, len(distinct), DOCUMENTS_AT_ONCE):
        some = distinct[begin : begin + DOCUMENTS_AT_ONCE]
        signatures, _ = log.fingerprints(session.transaction, some, session.words)
        pages = unpack_bins(signatures, banding.bin_bits)
        begins = np.searchsorted(inverse[order], np.arange(begin, begin + len(some) + 1))
        for place, number in enumerate(some.tolist()):
            of_number = order[begins[place] : begins[place + 1]]
            head = head_of.get(number)
            family = None if head is None else known.get(head)
            if family is None or not family.is_known or (heads[of_number] != head).any():
                yield f"document {number} stands in `own` under a family that is not its own, or whose template is not known"
            elif not set(keys[of_number].tolist()) <= set(all_keys(pages[place], family.values)):
                yield f"document {number} stands in `own` under what it does not have of its own"
