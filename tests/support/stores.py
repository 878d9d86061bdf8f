"""A store of its own for a test of what stands on it."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import Table
from index.storage.store import Store


@contextmanager
def stores() -> Iterator[Store]:
    """An empty store with all tables."""
    with tempfile.TemporaryDirectory() as directory:
        store = Store(
            Path(directory), map_bytes_initial=2**28, map_bytes_max=2**30, read_only=False, hooks=CommitHooks()
        )
        with closing(store):
            store.prepare(Table)
            yield store
