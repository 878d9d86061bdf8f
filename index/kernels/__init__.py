"""Loops over whole batches as machine code. The only importers of numba."""
