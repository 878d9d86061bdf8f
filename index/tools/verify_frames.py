"""Check of frames: every sample is readable, fits the parameters, holds no more pages than allowed, and has its host's place."""

import struct

from index.frames.hosts import hosts_with_samples
from index.session import ReadSession
from index.storage import layout
from index.storage.layout import Table, unpack_sample
from index.tools.finding import Finding


def frames(session: ReadSession) -> Finding:
    """Read all of `frames`. A sample's pages are no longer known."""
    finding, rule = Finding("frames"), session.parameters.frames
    missing = set(layout.pack_numbers(hosts_with_samples(session.transaction)))
    for key, value in session.transaction.walk(Table.FRAMES):
        finding.examined += 1
        where = f"the sample of host {bytes(key).hex()}"
        if bytes(key) not in missing:
            finding.note([f"{where} has no place in its group"])
        missing.discard(bytes(key))
        try:
            sample = unpack_sample(value)
        except (ValueError, struct.error) as problem:
            finding.note([f"{where} cannot be read: {problem}"])
            continue
        if rule is None or sample.signatures.shape[1] != session.parameters.words:
            finding.note([f"{where} is not of signatures of this index"])
        elif len(sample.signatures) != min(sample.taken, rule.sample_max):
            finding.note([f"{where} has {len(sample.signatures)} pages, and has taken {sample.taken}"])
    finding.note(f"the sample of host {key.hex()} is missing" for key in sorted(missing))
    return finding
