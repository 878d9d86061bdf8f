"""Kernels: loops over whole batches as machine code. How they are written, here and in the streamer:

- A kernel is a module-level function under `compiled` of `index.kernels.jit`, the only importer of numba. Its arguments are
  arrays, numbers and NamedTuples of arrays. It reads and writes nothing else, and runs without the interpreter's lock.
- Its docstring gives shapes and dtypes, and names the arrays that it fills in or changes. Another function, of numpy or
  plain Python, defines what it computes; a test compares both.
- It calls compiled functions of its own module alone, as `jit` explains. A helper that two modules need stands in both,
  word for word; a test compares the copies.
- Where a column meets a Python number, the number takes the column's type first: numba makes a float of uint64 with int64.
- A result of unknown length grows by doubling. A bound such as `hits_max` stops the kernel, which then gives the place to
  go on at, so that memory stays bounded.
- A segment is named by the address of its first byte, as `layout` draws it. The caller promises that it stays there during
  the call.
- Waiting for memory takes most of the time: a kernel prefetches what it reads next, many places together.
"""
