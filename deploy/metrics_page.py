"""The page docs/metrics.md, made from the definitions.

python -m deploy.metrics_page
"""

from pathlib import Path

from streamer.observe.batch_report import STEPS
from streamer.observe.definitions import DEFINITIONS
from streamer.observe.metrics import RESTART_CAUSES, WORKER_STATES
from streamer.records import reason

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"

_PREAMBLE = """# Metrics

The service exposes these metrics at `/metrics`, for all its processes together. `python -m deploy.metrics_page` writes this
page, and a test compares the two.

The service counts a batch after its commit. A process killed between the two leaves that batch uncounted; a batch that is
read again after a crash counts once. Counters start at zero with the service and survive worker restarts. Every pair of
`verdict` and `reason`, every `step` and every `cause` starts with the value 0.
"""


def page() -> str:
    """The page's text."""
    fixed = {"step": STEPS, "state": WORKER_STATES, "cause": RESTART_CAUSES}
    lines = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for definition in DEFINITIONS:
        labels = ", ".join(f"`{label}`" for label in definition.labels)
        lines.append(f"| `{definition.name}` | {definition.kind} | {labels} | {definition.meaning} |")
    lines += ["", "## Values of labels", "", "| label | values |", "|---|---|"]
    lines += [f"| `{label}` | {', '.join(f'`{value}`' for value in texts)} |" for label, texts in fixed.items()]
    lines += ["", "Verdicts and their reasons:", "", "| `verdict` | `reason` |", "|---|---|"]
    lines += [f"| `{verdict}` | `{why}` |" for verdict, why in reason.labels()]
    lines += ["", "## Buckets of histograms", "", "| name | upper bounds; the last one is infinity |", "|---|---|"]
    bounds = {each.name: ", ".join(f"{bound:,g}" for bound in each.buckets) for each in DEFINITIONS if each.buckets}
    lines += [f"| `{name}` | {shown} |" for name, shown in bounds.items()]
    return "\n".join([_PREAMBLE, *lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
