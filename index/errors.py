"""Everything the index may raise on purpose."""


class IndexProblem(Exception):
    """Base of all errors of the index; the message says what to do."""


class ParametersDiffer(IndexProblem):
    """The index on disk was built with other parameters than those it is opened with."""


class FormatUnknown(IndexProblem):
    """The bytes on disk are of a version this program does not know."""


class IndexFull(IndexProblem):
    """The index may not grow further: the map limit is reached or the disk is full. Nothing of the batch was kept."""


class IndexMissing(IndexProblem):
    """There is no index in the directory, and it was to be opened for reading only."""


class AlreadyOpen(IndexProblem):
    """The directory is open in this process already; it may be opened once in a process."""


class IndexDamaged(IndexProblem):
    """The file's structure is broken, or writing it failed half-way in a way that only a fresh opening can judge."""


class IndexExists(IndexProblem):
    """There is an index already where a new one was to be put."""


class IndexInUse(IndexProblem):
    """Another process has the index open where its file was to be replaced; or it was replaced just now."""
