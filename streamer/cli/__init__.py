"""The command line: arguments to settings, wiring, run, exit code."""
