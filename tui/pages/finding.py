"""One finding: what was seen, what to do, what that is worth and does, what it rests on, what would prove it wrong."""

import inspect
import shlex

from gputune.core import plugins
from gputune.core.hygiene import clean
from gputune.feeds.rows import RunRow
from gputune.report.promises import results
from gputune.tui import words
from gputune.tui.lines import EMPTY, Canvas, Line, Lines, fit, line, paragraph, titled
from gputune.tui.views import PageKind, Scene, gone
from gputune.verdict.document import FindingRow

ADVISORS = "gputune.advisors"


def finding_page(run: RunRow, finding: FindingRow, look: Canvas) -> Lines:
    """Return the page of a finding."""
    width = look.width
    gain = finding.speedup
    worth = words.interval(gain.low, gain.likely, gain.high, at_least=gain.at_least) if gain.likely > 1 else ""
    head = line(
        (f" {fit(finding.id, max(8, min(40, len(finding.id))))}  ", "title"),
        (f"{worth}  ", "value"),
        (fit(f"{run.name} · {finding.where}", max(8, width - 60)), "dim"),
    )
    lines = [EMPTY, *paragraph(finding.says, width - 2, "", " ")]
    for text in (finding.risk, finding.offer):
        lines += paragraph(text, width - 2, "warn", " ") if text else []
    lines += _part(" WHAT TO DO", finding.do, width)
    if finding.change:
        said = ", ".join(f"{name}={value}" for name, value in finding.change.items())
        lines += paragraph(said, width - 2, "command", "   ")
    effect = results(finding) or "none: the same samples in the same order"
    lines += _part(" WHAT IT DOES TO THE RESULTS", effect, width)
    lines += [EMPTY, titled(" EVIDENCE", width), *evidence(finding, width)]
    lines += _part(" HOW THE GAIN WAS COMPUTED", finding.basis, width)
    lines += _part(" WHAT WOULD PROVE IT WRONG", finding.falsified_by, width)
    if run.folder and finding.change and run.state != "live":
        text = f"gputune prove {shlex.quote(clean(run.folder, 300))} {shlex.quote(clean(finding.id, 60))}"
        lines += [EMPTY, line((f"  {fit(text, max(8, width - 2))}", "command"), key=f"copy:{text}")]
    lines += [EMPTY, titled(" EXPLANATION", width), *_reflowed(explanation(finding.id), width)]
    return Lines((head,), lines)


def _part(title: str, text: str, width: int) -> list[Line]:
    return [EMPTY, titled(title, width), *paragraph(text, width - 2, "", "  ")] if text else []


def _reflowed(text: str, width: int) -> list[Line]:
    """Return a text whose paragraphs were set for another width."""
    found: list[Line] = []
    for part in text.split("\n\n"):
        found += [EMPTY] if found else []
        found += paragraph(" ".join(part.split()), width - 2, "dim", " ")
    return found


def evidence(finding: FindingRow, width: int) -> list[Line]:
    """Return the numbers it rests on, by name."""
    longest = min(width // 2, max((len(name) for name in finding.evidence), default=0))
    return [
        line((f"  {fit(name, longest)}  ", "label"), (f"{value:.6g}", "value"))
        for name, value in sorted(finding.evidence.items())
    ]


def explanation(finding: str) -> str:
    """Return what its advisor says of itself; an id that no advisor here has comes from another gputune."""
    name = finding.replace("-", "_")
    if name not in plugins.names(ADVISORS):
        return f"this gputune has no advisor `{clean(finding, 60)}`"
    return inspect.getdoc(plugins.load(ADVISORS, name)) or ""


def _draw(scene: Scene) -> Lines:
    assert scene.run is not None  # noqa: S101 - `of` says so
    verdict, wanted = scene.run.verdict, scene.view.detail
    found = next((each for each in (verdict.findings if verdict else ()) if each.id == wanted), None)
    return finding_page(scene.run, found, scene.look) if found else gone("finding", wanted)


PAGE = PageKind(_draw, of="run", place=6)
