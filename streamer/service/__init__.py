"""The long-running service: loop, recovery, workers and supervisor; and the job over files."""
