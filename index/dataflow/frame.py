"""FRAME: gives pages of hosts their frames, in order, and files them. Keyed by host group.

A host's frame depends on the earlier documents in its group alone (`index.frames.samples`), and on no verdict.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from index.dataflow.filing import Filing
from index.dataflow.message import Decided, Kind, Message, Task
from index.dataflow.rows import Layout, Rows, rows_of, run_begins
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
        """Set frames for a slot's pages, and sample the pages that are new."""
        task.put_all(dict(_named(each.content) for each in messages if each.kind == Kind.SAMPLE))
        for pages, are_known in self._in_order(messages):
            yield from self._filed(self._known(task, pages) if are_known else self._sampled(task, pages), pages, slot)

    def _in_order(self, messages: Sequence[Message]) -> Iterator[tuple[Rows, bool]]:
        """Pages in order, in runs of those that their host has met and those that it has not."""
        kinds = Kind.PAGES, Kind.KNOWN_PAGES
        parts = [rows_of((each.content for each in messages if each.kind == kind), self._layout.page) for kind in kinds]
        pages, are_known = np.concatenate(parts), np.repeat([False, True], [len(part) for part in parts])
        order = np.lexsort((pages["low"], pages["high"]))
        pages, are_known = np.take(pages, order), are_known[order]
        bounds = pairwise([*run_begins(are_known).tolist(), len(pages)])
        yield from ((pages[begin:end], bool(are_known[begin])) for begin, end in bounds)

    def _sampled(self, task: Task, pages: Rows) -> npt.NDArray[np.uint64]:
        """The pages' fingerprints with frames. Their hosts sample them."""
        groups = stored.unpack_host_groups([task.get(_GROUP)])
        group_places = np.zeros(len(pages), np.int64)
        admitted = self._own_thread.submit(admit_hosts, groups, pages["host"], group_places).result()
        names = [_PLACE.pack(place) for place in admitted.places.tolist()]
        samples = [
            NOTHING_TAKEN if is_new else stored.unpack_sample(task.get(name) or b"")
            for name, is_new in zip(names, admitted.are_new.tolist(), strict=True)
        ]
        prints, rows = np.ascontiguousarray(pages["whole"]["fingerprint"]), admitted.rows
        setting = self._own_thread.submit(
            framed, prints, rows, admitted.samples, samples, self._counting, learning=True
        )
        prints, changed = setting.result()
        # A place has its last sample.
        contents = {names[number]: stored.pack_sample(changed[number]) for number in sorted(changed)}
        task.put_all({_GROUP: stored.pack_host_groups(groups)[0], **contents})
        return prints

    def _known(self, task: Task, pages: Rows) -> npt.NDArray[np.uint64]:
        """The pages' fingerprints with frames by their hosts' samples, which stay as they are. See `frames.hosts.with_frames`."""
        hosts = stored.unpack_host_groups([task.get(_GROUP)]).hosts[0]
        sampled, places = np.intersect1d(hosts, pages["host"], return_indices=True)[:2]
        rows = np.flatnonzero(np.isin(pages["host"], sampled))
        samples = [stored.unpack_sample(task.get(_PLACE.pack(place)) or b"") for place in places.tolist()]
        prints, counting = np.ascontiguousarray(pages["whole"]["fingerprint"]), self._counting._replace(new_min=0)
        numbers = np.searchsorted(sampled, pages["host"][rows])
        return self._own_thread.submit(framed, prints, rows, numbers, samples, counting, learning=False).result()[0]

    def _filed(self, prints: npt.NDArray[np.uint64], pages: Rows, slot: int) -> Iterator[Message]:
        signatures = np.zeros(len(pages), self._layout.signature)
        for name in ("high", "low", "whole", "tag"):
            signatures[name] = pages[name]
        signatures["whole"]["fingerprint"] = prints
        yield from self._filing.filed(signatures, slot)


def samples_of(
    groups: stored.HostGroups, samples: Iterable[tuple[int, stored.HostSample]]
) -> Iterator[tuple[int, bytes]]:
    """What an index knows about hosts, as this operator's state: groups' numbers, and contents of messages.

    samples  with their host keys
    """
    places: dict[int, tuple[int, int]] = {}
    for group, value in enumerate(stored.pack_host_groups(groups)):
        yield group, _GROUP + value
        places |= {host: (group, place) for place, host in enumerate(groups.hosts[group].tolist())}
    for host, sample in samples:
        group, place = places[host]
        yield group, _PLACE.pack(place) + stored.pack_sample(sample)


def _named(content: bytes) -> tuple[bytes, bytes]:
    """Name and value of a state's content: no place begins as the group's name does."""
    end = len(_GROUP) if content.startswith(_GROUP) else _PLACE.size
    return content[:end], content[end:]
