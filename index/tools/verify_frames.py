"""Check of frames: every sample is readable, fits the parameters, and holds no more pages than allowed."""

import struct

from index.session import ReadSession
from index.storage.layout import Table, unpack_sample
from index.tools.finding import Finding


def frames(session: ReadSession) -> Finding:
    """Read all of `frames`. A sample's pages are no longer known."""
    finding, rule = Finding("frames"), session.parameters.frames
    for key, value in session.transaction.walk(Table.FRAMES):
        finding.examined += 1
        where = f"the sample of host {bytes(key).hex()}"
        try:
            sample = unpack_sample(value)
        except (ValueError, struct.error) as problem:
            finding.note([f"{where} cannot be read: {problem}"])
            continue
        if rule is None or sample.signatures.shape[1] != session.parameters.words:
            finding.note([f"{where} is not of signatures of this index"])
        elif len(sample.signatures) != min(sample.taken, rule.sample_max):
            finding.note([f"{where} has {len(sample.signatures)} pages, and has taken {sample.taken}"])
    return finding
