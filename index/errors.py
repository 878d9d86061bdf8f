"""Errors that the index raises on purpose."""


class IndexProblem(Exception):
    """Base of all index errors; the message says what to do."""


class ParametersDiffer(IndexProblem):
    """The index on disk has other parameters than requested."""


class FormatUnknown(IndexProblem):
    """This program does not know the format on disk."""


class IndexFull(IndexProblem):
    """The index cannot grow: map limit or full disk. The batch left no trace."""


class IndexMissing(IndexProblem):
    """The directory has no index, or the opened index is gone. A read-only opening creates none."""


class IndexClosed(IndexProblem):
    """The opened index was closed, or the parent of this process opened it: open it again here."""


class AlreadyOpen(IndexProblem):
    """This process already has the directory open."""


class IndexDamaged(IndexProblem):
    """The file's structure is broken, or a write failed halfway and only a fresh opening can judge the file."""


class IndexExists(IndexProblem):
    """The place of a new index already has one."""


class IndexInUse(IndexProblem):
    """Another process has the index open, has just replaced its file, or has stopped and blocks all writers."""


class GivingBack(IndexProblem):
    """Another command gives documents back, or the last one broke off: run it again."""
