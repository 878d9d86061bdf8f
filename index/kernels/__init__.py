"""Kernels: loops over whole batches as machine code. Rules for kernels here and in the streamer:

- A kernel is a module-level function under `compiled` from `index.kernels.jit`, the only importer of numba. It reads and
  writes only its arguments: arrays, numbers and NamedTuples of arrays. It runs without the interpreter's lock.
- Its docstring gives shapes and dtypes, and names the arrays it changes. A numpy or plain Python function defines its
  result; a test compares both.
- It calls compiled functions from its own module, and helpers from `columns`, which never change, as `jit` explains.
- A Python number takes the column's type before they meet: numba makes a float from uint64 and int64.
- A result with unknown length grows by doubling. A bound such as `hits_max` stops the kernel, which returns the place to go
  on at, so memory stays bounded.
- A segment is the address of its first byte, in the form that `layout` draws. The caller keeps it there during the call.
- Memory latency dominates: a kernel prefetches the next reads, many places together.
"""
