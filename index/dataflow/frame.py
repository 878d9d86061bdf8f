"""FRAME: gives pages of hosts their frames, in order, and files them. Keyed by host group.

A host's frame depends on the earlier documents in its group alone (`index.frames.samples`), and on no verdict.
"""

import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from index.dataflow.filing import Filing
from index.dataflow.message import Decided, Message, Task
from index.dataflow.rows import Layout, rows_of
from index.frames.samples import NOTHING_TAKEN, admit_hosts, counting_by, framed
from index.storage import layout as stored
from index.storage.parameters import Parameters

_GROUP = b"group"
_PLACE = struct.Struct(">H")


class Frame:
    """The operator FRAME."""

    def __init__(self, parameters: Parameters, layout: Layout, filing: Filing):
        """See `Dataflow`."""
        assert parameters.frames is not None
        assert parameters.banding is not None
        self._layout, self._filing = layout, filing
        self._counting = counting_by(parameters.frames, parameters.banding.bin_bits)
        # Compiled loops hang in a JVM's thread: they ask for the thread state of whichever operator came there first.
        self._own_thread = ThreadPoolExecutor(1)

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Set frames for a slot's pages, and sample the pages."""
        pages = rows_of((each.content for each in messages), self._layout.page)
        pages = np.take(pages, np.lexsort((pages["low"], pages["high"])))
        groups = stored.unpack_host_groups([task.get(_GROUP)])
        of_groups = np.zeros(len(pages), np.int64)
        admitted = self._own_thread.submit(admit_hosts, groups, pages["host"], of_groups).result()
        names = [_PLACE.pack(place) for place in admitted.places.tolist()]
        samples = [
            NOTHING_TAKEN if is_new else stored.unpack_sample(task.get(name) or b"")
            for name, is_new in zip(names, admitted.are_new.tolist(), strict=True)
        ]
        prints, rows = np.ascontiguousarray(pages["whole"]["fingerprint"]), admitted.rows
        setting = self._own_thread.submit(
            framed, prints, rows, admitted.of_rows, samples, self._counting, learning=True
        )
        prints, changed = setting.result()
        # A place has its last sample.
        contents = {names[number]: stored.pack_sample(changed[number]) for number in sorted(changed)}
        task.put_all({_GROUP: stored.pack_host_groups(groups)[0], **contents})
        signatures = np.zeros(len(pages), self._layout.signature)
        signatures["high"], signatures["low"], signatures["whole"] = pages["high"], pages["low"], pages["whole"]
        signatures["whole"]["fingerprint"] = prints
        yield from self._filing.filed(signatures, slot)
