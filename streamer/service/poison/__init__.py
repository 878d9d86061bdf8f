"""Records that end processes: attempts are noted, deaths counted, and a trial identifies the record."""
