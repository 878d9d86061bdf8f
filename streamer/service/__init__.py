"""The long-lived service: the loop of six verbs, its recovery, its workers and their supervisor."""
