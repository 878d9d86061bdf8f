"""Stream names that decisions mention."""

from collections.abc import Sequence

from index import Index, Position


class StreamNames:
    """Names of the originals' streams.

    >>> from index import Parameters, Source
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     StreamNames(index).of([None, Position(Source("stream", 0), 7)])
    {}
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, str] = {}

    def of(self, positions: Sequence[Position | None]) -> dict[str, str]:
        """Names of at least these positions' streams.

        An index may know many streams, so only a new stream causes a reading.
        """
        named = {position.source.stream for position in positions if position is not None}
        if not named <= self._known.keys():
            self._known = self._index.stream_names()
        return self._known
