"""Kernels: loops over whole batches as machine code. Rules for kernels here and in the streamer:

- A kernel is a module-level function under `compiled` from `index.kernels.jit`, the only importer of numba. It takes
  arrays, numbers and NamedTuples of arrays, reads and writes nothing else, and runs without the interpreter's lock.
- Its docstring gives shapes and dtypes, and names the arrays it fills in or changes. A numpy or plain Python function
  defines its result; a test compares both.
- It calls compiled functions of its own module, and helpers from `columns`, which never change, as `jit` explains.
- A Python number takes the column's type before they meet: numba makes a float of uint64 with int64.
- A result of unknown length grows by doubling. A bound such as `hits_max` stops the kernel, which then returns the place to
  go on at, so memory stays bounded.
- The address of its first byte names a segment, in the form that `layout` draws. The caller keeps it there during the call.
- Memory latency dominates: a kernel prefetches the next reads, many places together.
"""
