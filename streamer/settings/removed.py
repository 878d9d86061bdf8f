"""Settings, and values of settings, that earlier versions had: why they are gone, and the way out."""

from collections.abc import Mapping

REMOVED: Mapping[str, str] = {
    "index.recrawl_minor": (
        "was removed: a new version in which only counters and dates differ is always a duplicate. Delete this setting"
    ),
    "index.recrawl_history": (
        "was removed: a page's first four returns to earlier texts are always updates, further ones are duplicates. Delete "
        "this setting"
    ),
    'index.insert = "all"': (
        'was removed. Use "root", which enters duplicates too, and begin a new index in another directory (index.directory) '
        "or rebuild this one from the output topics (streamer index rebuild DIRECTORY --topics --switch)"
    ),
    'index.recrawl = "as-new"': (
        'was removed. Use "update": the new version goes to the unique topic and replaces the older one in the index. Or use '
        '"duplicate", by which ids play no role'
    ),
}
"""What a message says, by a setting's key, or by `key = "value"`."""


def removed_value(key: str, value: object) -> str | None:
    """Why a value of a setting is gone, and the way out; None for any other value.

    >>> removed_value("index.insert", "root") is None
    True
    """
    return REMOVED.get(f'{key} = "{value}"')
