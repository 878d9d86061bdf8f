"""Protected sets: indexes whose matches are reported and change no verdict."""
