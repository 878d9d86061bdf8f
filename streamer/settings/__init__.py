"""Settings with type, bounds, default and meaning. The only reader of the environment."""
