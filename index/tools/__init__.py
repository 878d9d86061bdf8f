"""Maintenance of an index: verify, survey, backup, bulk load, import and export.

Every function takes an open `Index`, or the directory of one, and returns plain values.
"""

from index.storage.data_file import DATA_FILE
from index.storage.file.lock_file import Writer, writer_of
from index.storage.layout import FORMAT_VERSION, Family
from index.storage.scan import Age
from index.tools.backup import FORMER_FILE, copy, has_index, remove_unused, replace
from index.tools.buckets import BucketSizes
from index.tools.bulk_load import BulkLoader
from index.tools.families import ExportedFamily
from index.tools.finding import Finding
from index.tools.import_export import Imported, Importer, Original, Record, Snapshot, portions, snapshot
from index.tools.survey import Reader, Survey, readers, survey
from index.tools.templates import Page, Template, found_by_own_text, templates_of
from index.tools.verify import verify
from index.tools.warm_up import compile_kernels

__all__ = [
    "DATA_FILE",
    "FORMAT_VERSION",
    "FORMER_FILE",
    "Age",
    "BucketSizes",
    "BulkLoader",
    "ExportedFamily",
    "Family",
    "Finding",
    "Imported",
    "Importer",
    "Original",
    "Page",
    "Reader",
    "Record",
    "Snapshot",
    "Survey",
    "Template",
    "Writer",
    "compile_kernels",
    "copy",
    "found_by_own_text",
    "has_index",
    "portions",
    "readers",
    "remove_unused",
    "replace",
    "snapshot",
    "survey",
    "templates_of",
    "verify",
    "writer_of",
]
