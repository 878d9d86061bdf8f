"""Stories on disk: their rows, and the names of their hosts."""
