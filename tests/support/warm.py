"""For a fork server to import ahead: what is forked from it has tables and machine code in its memory from the beginning."""

from streamer.fingerprint.warm_up import compile_kernels

compile_kernels()
