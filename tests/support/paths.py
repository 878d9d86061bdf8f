"""Where the project stands, for tests that read its files or start it as a process."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
