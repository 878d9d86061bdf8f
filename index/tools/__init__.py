"""Looking after an index: verify, back up, load in bulk, import and export."""
