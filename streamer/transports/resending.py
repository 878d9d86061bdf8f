"""The seam of what a person sends once more: drops to the unique output, dead letters to the input.

What stands in the target is the truth: a record that was sent once more names the position that it was sent for. So a
command that died, or another one, reads there what is done. One process sends at a time: a newcomer of the same way takes
over, and its predecessor can send no more. Whoever reads the target after `open` sees all that any predecessor sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from index import Position, Source
from streamer.records.record import Destination, Headers, Record
from streamer.records.route import is_given_back, parse_position, parse_replayed_position
from streamer.transports.evidence import Output
from streamer.transports.transport import Claim


def _given_back_position(headers: Headers) -> Position | None:
    return parse_position(headers) if is_given_back(headers) else None


@dataclass(frozen=True, slots=True)
class Way:
    """Where records come from, and where they go once more.

    name      of the sender, one of the group at a time
    origin    output whose records go once more
    target    output that they go to; None: the input
    position  position for which a record of the target was sent once more; None where it was not
    """

    name: str
    origin: Destination
    target: Destination | None
    position: Callable[[Headers], Position | None]


GIVE_BACK = Way("give-back", Destination.DUPLICATE, Destination.UNIQUE, _given_back_position)
REPLAY = Way("replay", Destination.DEAD_LETTER, None, parse_replayed_position)


class Resending(Protocol):
    """Sender of records that came out before. Times are timestamps of records, which keep theirs on every way."""

    def open(self, *, to_send: bool) -> None:
        """Connect; to_send: take over, and end what a predecessor left open.

        Raises BrokerUnavailable, SettingsError, TransactionHanging.
        """

    def claims(self) -> Mapping[Source, Claim]:
        """Committed offsets of the group, and what they say of the index by which was decided."""

    def outputs(self, since_ms: int | None, /) -> Iterator[list[Output]]:
        """Committed records of the origin as of now, with all of their headers.

        since_ms  at least those whose timestamp is not before; None: all
        """

    def sent(self, since_ms: int | None, /) -> Iterator[list[Position]]:
        """Positions for which committed records of the target, as of now, were sent once more; since_ms: as in `outputs`."""

    def send(self, records: Sequence[Record]) -> None:
        """Send all of these, with just these headers, or none. Raises DeliveryDoubtful, SettingsError; then do not go on."""

    def close(self) -> None:
        """Release every resource; never raises."""
