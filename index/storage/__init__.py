"""The file: LMDB, the bytes, and their meaning as log, journal, sources and documents."""
