"""Kinds of faults by name: what each disturbs, how often it is chosen, and why it cannot be had here."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from bench.chaos import broker_faults, group_faults, index_faults, link_faults, service_faults
from bench.chaos.world import World

Part = Literal["service", "broker", "link", "index", "topics"]
Strike = Callable[[World, random.Random], None]


def always(_: World) -> str:
    """Nothing stands in the way."""
    return ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault.

    parts     what it disturbs; two faults at once have no part in common
    weight    how often it is chosen beside the others
    strike    causes the fault, waits for as long as it lasts, and ends it
    obstacle  why it cannot be had in this world now; empty where it can
    """

    parts: frozenset[Part]
    weight: int
    strike: Strike
    obstacle: Callable[[World], str] = always


def _kind(parts: str, weight: int, strike: Strike, obstacle: Callable[[World], str] = always) -> Kind:
    named: list[Part] = [part for part in ("service", "broker", "link", "index", "topics") if part in parts.split()]
    return Kind(frozenset(named), weight, strike, obstacle)


SECOND_SERVICE = "second-service"
"""Begins what lasts until its next fault."""

KINDS: Mapping[str, Kind] = {
    "everything-killed": _kind("service", 6, service_faults.everything_killed),
    "supervisor-killed": _kind("service", 4, service_faults.supervisor_killed),
    "worker-killed": _kind("service", 8, service_faults.worker_killed),
    "killed-while-starting": _kind("service", 4, service_faults.killed_while_starting),
    "worker-killed-while-starting": _kind("service", 4, service_faults.worker_killed_while_starting),
    "worker-suspended": _kind("service", 6, service_faults.worker_suspended),
    "worker-suspended-past-session": _kind("service", 2, service_faults.worker_suspended_past_session),
    "supervisor-suspended": _kind("service", 3, service_faults.supervisor_suspended),
    "machine-suspended": _kind("service", 3, service_faults.everything_suspended),
    "orphan-suspended": _kind("service", 2, service_faults.orphan_suspended),
    "stopped-in-order": _kind("service", 4, service_faults.stopped_in_order),
    "clock-jump": _kind("service", 2, service_faults.clock_jump),
    "poison": _kind("topics", 1, service_faults.poison, service_faults.why_no_poison_can_be_given),
    "broker-killed": _kind("broker", 4, broker_faults.killed),
    "broker-killed-twice": _kind("broker", 2, broker_faults.killed_twice),
    "broker-suspended": _kind("broker", 5, broker_faults.suspended),
    "broker-restarted": _kind("broker", 2, broker_faults.restarted_in_order),
    "leaders-moved": _kind("broker", 6, broker_faults.leaders_moved, broker_faults.why_no_leaders_can_be_moved),
    "link-cut": _kind("link", 8, link_faults.cut),
    "link-cut-inside-a-message": _kind("link", 10, link_faults.cut_inside_a_message),
    "link-stalled": _kind("link", 6, link_faults.stalled),
    "link-stalled-one-way": _kind("link", 6, link_faults.stalled_one_way),
    "link-half-open": _kind("link", 5, link_faults.half_open),
    "link-refused": _kind("link", 5, link_faults.refused),
    "link-slow": _kind("link", 5, link_faults.slow),
    "rival-of-the-same-name": _kind("service", 2, group_faults.rival_of_the_same_name),
    "rival-of-another-name": _kind("service", 2, group_faults.rival_of_another_name),
    SECOND_SERVICE: _kind("service", 2, group_faults.second_service_comes_or_goes),
    "partition-added": _kind("topics", 6, group_faults.partition_added, group_faults.why_no_partition_can_be_added),
    "transaction-left-open-in-input": _kind("topics", 2, group_faults.transaction_left_open_in_input),
    "transaction-left-open-in-output": _kind("topics", 2, group_faults.transaction_left_open_in_output),
    "index-deleted": _kind("service index", 2, index_faults.deleted),
    "index-from-old-backup": _kind("service index", 3, index_faults.replaced_by_old_backup),
    "index-disk-full": _kind("index", 3, index_faults.disk_full, index_faults.why_the_disk_cannot_fill_up),
}

ANSWERED_ELSEWHERE = frozenset({"transaction-left-open-in-output", "rival-of-the-same-name", "rival-of-another-name"})
"""Kinds after which documents wait for something else than the services that are asked: an output's readers do not get
what is written, or a rival holds partitions, and says itself that it is not ready."""


def obstacles(world: World, names: list[str]) -> dict[str, str]:
    """Why kinds cannot be had in a world now, by name; those that can are left out."""
    return {name: why for name in names if (why := KINDS[name].obstacle(world))}
