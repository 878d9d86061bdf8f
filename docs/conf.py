"""How `make docs` builds the site: the pages as they stand in the repository, README first."""

from pathlib import Path
from shutil import copyfile
from typing import Any

from sphinx.application import Sphinx

project = "Streaming near-duplicate filter"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "examples/**.md"]
exclude_patterns = [".*", "build", "demo-output", "filtered*", "site"]

# Anchors are those that code hosts give to headings of the first four levels.
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_extra_path = ["index.html"]
html_copy_source = False
html_show_sphinx = False

CONTENTS = """
```{toctree}
:hidden:
:maxdepth: 1
docs/guarantee
docs/decided
docs/tutorial
docs/design
docs/minhash
docs/simhash
docs/methods
docs/accuracy
docs/benchmarks
docs/comparison
docs/limits
docs/running
docs/index-tools
docs/questions
docs/stories
docs/audit
docs/runbook
docs/clusters
docs/releases
docs/scaling
docs/flink
docs/inputs
docs/api
examples/scrapy/README
docs/settings
docs/settings-methods
docs/headers
docs/formats
docs/metrics
docs/decisions/README
CONTRIBUTING
SECURITY
ROADMAP
CHANGELOG
中文 <README.zh-CN>
```
"""
IN_CHINESE = """
```{toctree}
:hidden:
:maxdepth: 1
docs/zh/tutorial
docs/zh/decided
docs/zh/glossary
docs/zh/runbook
```
"""
DECISIONS = """
```{toctree}
:glob:
:maxdepth: 1
0*
```
"""


def add_contents(_app: Sphinx, page: str, source: list[str]) -> None:
    """Tell which page follows which, in a form that code hosts would show as text: so only here."""
    source[0] += {"README": CONTENTS, "README.zh-CN": IN_CHINESE, "docs/decisions/README": DECISIONS}.get(page, "")


def name_language(_app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Browsers choose fonts, line breaks and voices by the page's language."""
    if page in IN_CHINESE.split() or page == "README.zh-CN":
        context["language"] = "zh-CN"


def add_runbook(app: Sphinx, problem: Exception | None) -> None:
    """Alerts name sections by the page's path in the repository: the site answers to it too."""
    if problem is None:
        copyfile(Path(app.srcdir, "docs", "runbook.md"), Path(app.outdir, "docs", "runbook.md"))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("html-page-context", name_language)
    app.connect("build-finished", add_runbook)
