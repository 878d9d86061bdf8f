"""Errors that the index raises on purpose."""


class IndexProblem(Exception):
    """Base of all errors of the index; the message says what to do."""


class ParametersDiffer(IndexProblem):
    """The index on disk was built with other parameters than the opening asks for."""


class FormatUnknown(IndexProblem):
    """The bytes on disk are of a format that this program does not know."""


class IndexFull(IndexProblem):
    """The index may not grow further: the map limit is reached or the disk is full. Nothing of the batch was kept."""


class IndexMissing(IndexProblem):
    """The directory holds no index, and a read-only opening makes none; or it holds the one that was opened no longer."""


class AlreadyOpen(IndexProblem):
    """The directory is open in this process already; a process may open it once."""


class IndexDamaged(IndexProblem):
    """The file's structure is broken, or a write failed half-way so that only a fresh opening can judge the file."""


class IndexExists(IndexProblem):
    """The place of a new index holds an index already."""


class IndexInUse(IndexProblem):
    """Another process has the index open, so its file cannot be replaced; or the file was replaced just now; or a stopped
    process keeps all others from writing."""


class GivingBack(IndexProblem):
    """Documents are being given back by another command, or the last one broke off: run it again."""
