"""The whole flow: its operators, and what must not change while their state lives."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from index.dataflow.claim import Claim
from index.dataflow.filing import Filing
from index.dataflow.frame import Frame
from index.dataflow.join import Join
from index.dataflow.message import Operator, Stage
from index.dataflow.name import Name
from index.dataflow.order import Order
from index.dataflow.recall import Recall
from index.dataflow.resolve import Resolve
from index.dataflow.rows import Layout, Retained
from index.dataflow.verify import Verify
from index.dataflow.versions import Versions
from index.matching.minhash import DISTANCE_UNITS
from index.session import Longer
from index.storage.parameters import Parameters

FORMAT_VERSION = 7
"""Version of the state and all messages."""


@dataclass(frozen=True, slots=True)
class Dataflow:
    """Decisions as a flow.

    parameters       the equivalent index's
    longer           the equivalent index's, but it does not change while the state lives
    shards           keys for CLAIM, RECALL, VERIFY and NAME, spread over the tasks; always more than tasks
    slot_ms          a decision slot's length: longer ones are cheaper, and delay verdicts
    chunk_entries    SimHash: most entries of a bucket rewritten by an insertion
    segment_entries  MinHash: entries of a key in memory, until they become a segment
    incomplete       whether a partition may begin without a state at later documents than its first
    retained         how long entries count, and the epochs by which the state forgets. It does not change while the state lives
    updates          whether pages crawled again are updates, as with the equivalent index's `Recrawl("update")`
    """

    parameters: Parameters
    shards: int = 64
    slot_ms: int = 500
    chunk_entries: int = 256
    segment_entries: int = 8_192
    longer: Longer | None = None
    updates: bool = False
    incomplete: bool = False
    retained: Retained | None = None

    def __post_init__(self) -> None:
        if min(self.shards, self.slot_ms, self.chunk_entries, self.segment_entries) < 1:
            raise ValueError("shards, slot_ms, chunk_entries and segment_entries are at least 1")

    @property
    def stamp(self) -> Mapping[str, str]:
        """Everything that must not change while the state lives, by name. Chunks and segments may.

        Slots may grow to a multiple. Shorter slots would decide new documents before waiting ones.
        """
        longer = "none" if self.longer is None else str(self.longer.ten_thousandths)
        # Without a limit nothing is added, so that older state goes on.
        if self.longer is not None and self.longer.new_max < DISTANCE_UNITS:
            longer += f", new {self.longer.new_max}"
        own: dict[str, object] = {
            "format": FORMAT_VERSION,
            "shards": self.shards,
            "longer": longer,
        }
        if self.updates:
            own["recrawl"] = "update"
        if self.retained is not None:
            entries_max, age_max_ms = self.retained.retention.entries_max, self.retained.retention.age_max_ms
            own |= {"entries_max": entries_max, "age_max_ms": age_max_ms, "epoch_ms": self.retained.epoch_ms}
        return {name: str(value) for name, value in own.items()} | replace(self.parameters, fingerprint={}).by_name()

    @property
    def leaves(self) -> bool:
        """Whether entries may leave: then documents can be forgotten too."""
        return self.updates or self.retained is not None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The operators in use: SimHash alone compares in CLAIM already, FRAME needs frames, and VERSIONS updates."""
        unused = {Stage.FRAME} if self.parameters.frames is None else set()
        if not self._layout.recalls:
            unused |= {Stage.RECALL, Stage.VERIFY}
        if not self.updates:
            unused |= {Stage.VERSIONS}
        return tuple(stage for stage in Stage if stage not in unused)

    def order(self) -> Order:
        """The first operator, which takes batches from the log."""
        layout = self._layout
        return Order(
            self.parameters,
            layout,
            self._filing(layout),
            self.stamp,
            self.shards,
            self.slot_ms,
            incomplete=self.incomplete,
            retained=self.retained,
            stages=self.stages,
        )

    def operators(self) -> Mapping[Stage, Operator]:
        """The operators after ORDER."""
        parameters, layout = self.parameters, self._layout
        framing = {} if parameters.frames is None else {Stage.FRAME: Frame(parameters, layout, self._filing(layout))}
        operators: dict[Stage, Operator] = {
            **framing,
            Stage.CLAIM: Claim(
                parameters, layout, self.shards, self.chunk_entries, self.segment_entries, self.retained
            ),
            Stage.VERSIONS: Versions(self.shards, self.retained),
            Stage.RECALL: Recall(layout, self.shards, self.retained),
            Stage.VERIFY: Verify(parameters, layout),
            Stage.RESOLVE: Resolve(parameters, self.longer, layout, self.shards, self.retained, updates=self.updates),
            Stage.NAME: Name(self.retained),
            Stage.JOIN: Join(),
        }
        return {stage: operators[stage] for stage in self.stages if stage is not Stage.ORDER}

    @property
    def _layout(self) -> Layout:
        return Layout.of(self.parameters, self.longer, leaves=self.leaves)

    def _filing(self, layout: Layout) -> Filing:
        return Filing(self.parameters, layout, self.shards)
