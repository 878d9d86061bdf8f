"""The settings: every one with its type, bounds, default and meaning. The only reader of the environment."""
