"""`python -m streamer`, and the command `streamer`."""

from streamer.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
