"""A story for people and machines: as JSON (docs/stories.json), as a table, and as a record for its topic."""

from collections.abc import Mapping, Sequence
from typing import Any

from index import Index, Named, Position, Story
from streamer.errors import SettingsError
from streamer.explain.plain_table import PlainTable
from streamer.explain.positions import position_text, time_text
from streamer.records.any_json import dumps
from streamer.records.hosts import host_named
from streamer.records.names import beginning
from streamer.records.record import Feed, Outgoing, Record
from streamer.records.route import POSITION, STREAM
from streamer.settings.decode import Decode


def story_as_json(story: Story, names: Mapping[str, str]) -> dict[str, Any]:
    """A story for machines; `names` by stream.

    >>> from index import Source
    >>> root = Named("a", Position(Source("stream", 0), 7))
    >>> story = Story(0, root, 2, 1, ("a.example",), 0, None, root, root, None, None)
    >>> shown = story_as_json(story, {"stream": "pages"})
    >>> shown["position"], shown["documents"], shown["hosts"], shown["first_seen"], shown["extends"]
    ('pages/0/7', 2, 1, '1970-01-01T00:00:00.000Z', None)
    """

    def named(each: Named | None) -> dict[str, Any] | None:
        return None if each is None else {"id": each.id, "position": position_text(each.position, names)}

    return {
        "id": story.root.id,
        "position": position_text(story.root.position, names),
        "documents": story.documents,
        "hosts": story.host_count,
        "first_hosts": list(story.hosts),
        "first_seen": None if story.first_ms is None else time_text(story.first_ms),
        "last_seen": None if story.last_ms is None else time_text(story.last_ms),
        "longest": named(story.longest),
        "newest": named(story.newest),
        "extends": named(story.extends),
        "updates": named(story.updates),
    }


def stories_as_json(
    index: Index, decode: Decode, limit: int, since_ms: int | None = None, host: str = "", scope: str | None = None
) -> list[dict[str, Any]]:
    """The largest stories, as `Index.stories`. Raises SettingsError for a scope without `decode.scope`.

    host   as a person names it; with a scope, a host within it
    scope  as a person names it; None: all
    """
    if scope is not None and decode.scope is None:
        raise SettingsError("documents have no scopes: set decode.scope as for the service")
    prefix = "" if scope is None else beginning(scope)
    host = host and host_named(host, decode, scope)
    names = index.stream_names()
    return [story_as_json(story, names) for story in index.stories(limit, since_ms, host, prefix)]


def table(stories: Sequence[Mapping[str, Any]]) -> PlainTable:
    """Stories from `stories_as_json`, one a row."""
    names = ("documents", "hosts", "first_seen", "last_seen", "id")
    rows = (["" if each[name] is None else each[name] for name in names] for each in stories)
    return PlainTable(*(name.replace("_", " ") for name in names), rows=rows, ids=names[-1:], right=names[:2])


def story_record(story: Story, names: Mapping[str, str], at: Position) -> Outgoing:
    """A record with a story's value, or without one if fewer than two documents are left.

    at  input position in the transaction, or before it; it shows how a transaction that a broker forgot has to end
    """
    key = dumps({"position": position_text(story.root.position, names), "id": story.root.id})
    value = dumps(story_as_json(story, names)) if story.documents > 1 else None
    where = (
        (POSITION, position_text(at, names).encode(errors="backslashreplace")),
        (STREAM, at.source.stream.encode()),
    )
    record = Record(at.source, names.get(at.source.stream, ""), at.offset, key, value, max(0, story.last_ms or 0))
    return Outgoing(Feed.STORIES, record, where)
