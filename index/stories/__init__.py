"""Stories: what is known of a root and its duplicates together, as a view of the log."""
