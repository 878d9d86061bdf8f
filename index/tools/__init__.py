"""Index maintenance: verify, survey, backup, bulk load, import and export.

Every function takes an open `Index` or its directory, and returns plain values.
"""

from index.storage.documents import VersionDigests
from index.storage.file.fresh import UNFINISHED, fresh_file, keep_mode
from index.storage.layout import FORMAT_VERSION, HostSample
from index.storage.scan import Age
from index.tools.backup import FORMER_FILE, copy, has_index, remove_unused, replace
from index.tools.buckets import BucketSizes
from index.tools.bulk_load import BulkLoader
from index.tools.finding import Finding
from index.tools.frames import HostFrame, frames_of, kept_by_frames
from index.tools.import_export import Imported, Importer, Original, Record, RecordedAge, Snapshot, portions, snapshot
from index.tools.survey import Survey, readers, survey
from index.tools.verify import verify
from index.tools.warm_up import compile_first, compile_kernels, temporary_index

__all__ = [
    "FORMAT_VERSION",
    "FORMER_FILE",
    "UNFINISHED",
    "Age",
    "BucketSizes",
    "BulkLoader",
    "Finding",
    "HostFrame",
    "HostSample",
    "Imported",
    "Importer",
    "Original",
    "Record",
    "RecordedAge",
    "Snapshot",
    "Survey",
    "VersionDigests",
    "compile_first",
    "compile_kernels",
    "copy",
    "frames_of",
    "fresh_file",
    "has_index",
    "keep_mode",
    "kept_by_frames",
    "portions",
    "readers",
    "remove_unused",
    "replace",
    "snapshot",
    "survey",
    "temporary_index",
    "verify",
]
