"""The long-running service: the loop of six verbs, recovery, workers and their supervisor; the job over files."""
