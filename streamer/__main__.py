"""Entry point of `python -m streamer` and of the command `streamer`."""

from streamer.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
