"""Records that end processes: attempts are noted, deaths counted, and a trial proves which record it was."""
