"""Records that end processes: noted attempts, counted deaths, and trials."""
