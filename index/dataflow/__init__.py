"""Decisions as a flow: operators with keyed state, whose verdicts equal those of one index fed in log order.

    order ──► [frame] ──► claim, [versions] ──► [recall ──► verify] ──► resolve ──► name ──► join

`Dataflow` has all operators; the runtime brings state and the progress of time. docs/flink.md says why the verdicts are right.
"""

from index.dataflow.flow import Dataflow
from index.dataflow.frame import samples_of
from index.dataflow.message import (
    KEPT_AT_ONCE,
    NO_NUMBER,
    NOTE,
    Arrival,
    Decided,
    Floor,
    Keeper,
    Kind,
    Message,
    Operator,
    Seeds,
    SourceAge,
    Stage,
    Task,
)
from index.dataflow.rows import HISTORY, UNNAMED, Retained, document_keys, name_digests

__all__ = [
    "HISTORY",
    "KEPT_AT_ONCE",
    "NOTE",
    "NO_NUMBER",
    "UNNAMED",
    "Arrival",
    "Dataflow",
    "Decided",
    "Floor",
    "Keeper",
    "Kind",
    "Message",
    "Operator",
    "Retained",
    "Seeds",
    "SourceAge",
    "Stage",
    "Task",
    "document_keys",
    "name_digests",
    "samples_of",
]
