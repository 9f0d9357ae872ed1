"""Whatever stands in a recording's texts is text on the page: it runs nothing, and leaves no element."""

import json
import random
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import making
import msgspec
import pytest
from chromium import Chromium

from gputune.core.hygiene import clean
from gputune.html import run
from gputune.html.engine import LONGEST
from gputune.verdict.document import Verdict

COUNT = 1000
PIECES = (
    "<script>ran()</script>", "</script><script>ran()</script>", "<img src=x onerror=ran()>", "\"><svg onload=ran()>",
    "'><b>", "</textarea>", "</title>", "</style><style>*{display:none}</style>", "<!--", "-->", "]]>", "{{ 7 * 7 }}",
    "{% raw %}", "{#", "${ran()}", "javascript:ran()", "&lt;b&gt;", "&#60;script&#62;",
    "&quot; onfocus=ran() autofocus=&quot;", "\\u003cscript\\u003e", "\u2028ran()\u2029", "\u0000",
    "\u001b]52;c;AAAA\u0007", "\u202egnp.exe", "\ufeff", "\ud800", "\n\n<p>", "\r", "\t", "`", "\\", "%00",
    "%3Cscript%3E", "<plaintext>", "<base href=//evil>", "<meta http-equiv=refresh content=0>",
    "<iframe srcdoc='<script>parent.ran()</script>'>", "<a href=javascript:ran()>x</a>",
    "<form action=//evil><input autofocus onfocus=ran()>", "<template>", "<math><mi//xlink:href=x>",
    "<x" + "x" * 6000, "\u0000<\u0000script>", "+ADw-script+AD4-", "<\u017fcript>", "\uff21\uff22\uff1cscript\uff1e",
    "@@ -1 +1 @@", "--- a", "+++ b", " ",
)  # fmt: skip
KEPT = frozenset(
    {"severity", "effect", "span", "fields", "mode", "state", "by", "of", "reason", "schema_version"}
)  # of a fixed list of words
FIELDS_OF_RUN = ("host", "cwd", "gputune", "driver")


def hostile() -> list[str]:
    """Return so many strings: each piece alone, and mixtures of them, the same in each run."""
    drawn = random.Random(26)
    mixed = ("".join(drawn.choices(PIECES, k=drawn.randint(2, 6))) for _ in range(COUNT - len(PIECES)))
    return [*PIECES, *mixed]


def filled(value: Any, text: str, key: str = "") -> Any:
    """Return a document with a text in the place of every other one."""
    if isinstance(value, dict):
        evidence = key in {"evidence", "change"}
        return {(text if evidence else name): filled(each, text, name) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, text, key) for each in value]
    return text if isinstance(value, str) and key not in KEPT else value


def everything() -> Verdict:
    """Return a verdict with something in every field that the page shows."""
    found = [kind for kind in making.KINDS.values() if kind.attached is None]
    largest = making.KINDS["device"]
    return msgspec.structs.replace(
        largest,
        findings=[row for kind in found for row in kind.findings],
        perhaps=making.KINDS["perhaps"].perhaps,
        processes=[*making.KINDS["ranks"].processes, making.process(rank=4, seen=False, why="no guest")],
        host_growth=None,
    )


def pages(recording: Path, texts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield a page for each of the texts, which stands in all fields of run.json and of the verdict."""
    document = making.plain(everything())
    story = json.loads((recording / "run.json").read_text())
    for text in texts:
        encodable = text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate is none of JSON's
        verdict = msgspec.convert(filled(document, encodable), Verdict)
        told = {name: value for name, value in story.items() if name not in {"processes", "machine"}}
        told |= dict.fromkeys(FIELDS_OF_RUN, encodable)
        told["environment"] = {encodable: encodable, "SLURM_JOB_ID": encodable}
        told |= {"commit": {"id": encodable, "branch": encodable}, "job": {"system": encodable, "id": encodable}}
        told |= {"training": {"python": encodable, "torch": encodable}}
        process = {"n": "process", "python": encodable, "torch": encodable, "cuda": encodable}
        device = {"n": "device", "name": encodable, "uuid": encodable}
        told |= {"processes": [{"notes": [process]}], "machine": [device]}
        yield encodable, run.page(recording, encodable, told, verdict).decode()


class Tree(HTMLParser):
    """The elements of a page with their attributes' names, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", ()))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")


def test_no_string_changes_the_elements_of_the_page_or_is_lost(recording: Path) -> None:
    ((_, plain),) = pages(recording, ["harmless words"])
    wanted = Tree(plain)
    places = sum("harmless words" in text for text in wanted.texts)
    assert places > 100
    texts = hostile()
    assert len(set(texts)) > 0.95 * COUNT
    for text, found in pages(recording, texts):
        tree = Tree(found)
        assert tree.elements == wanted.elements, text
        shown = clean(text, LONGEST)[:50]
        assert sum(shown in each for each in tree.texts) >= min(places - 60, 60), text


@pytest.mark.parametrize("part", range(4))
def test_no_string_runs_in_a_browser(browser: Chromium, recording: Path, tmp_path: Path, part: int) -> None:
    ((_, plain),) = pages(recording, ["harmless words"])
    skeleton = (
        "[...document.body.querySelectorAll('*')].map(e => e.tagName + [...e.attributes].map(a => a.name)).join()"
    )
    file = tmp_path / "page.html"
    file.write_text(plain)
    first = browser.show(file)
    wanted = first.ask(skeleton)
    for _, found in pages(recording, list(PIECES[part::4])):
        file.write_text(found)
        shown = browser.show(file)
        assert shown.ask("typeof ran") == "undefined"
        assert shown.ask(skeleton) == wanted
        assert shown.complaints() == []
        shown.close()


def line(name: str) -> dict[str, object]:
    """Return a line of three points."""
    return {"name": name, "label": name, "mean": [1, None, 3], "spread": []}


def test_names_of_columns_are_text_in_the_plots_too(browser: Chromium, tmp_path: Path) -> None:
    names = [piece for piece in PIECES if len(piece) < 100][:8]
    plots = [{"title": each, "unit": each, "most": None, "more": 0, "lines": [line(each)]} for each in names]
    bands = [{"name": names[1], "share": [0.5, 0, 1]}]
    data = {"of": names[0], "step": 1.0, "until": 3.0, "times": [0.0, 1.0, 2.0], "bands": bands, "plots": plots}
    recording = making.recorded(tmp_path / "run", 2)
    file = tmp_path / "page.html"
    context = {"plots": data, "no_plots": ""}
    file.write_bytes(run.page(recording, "run", {}, making.KINDS["healthy"], context))
    shown = browser.show(file)
    assert shown.ask("plots.dataset.drawn") == str(len(names))
    titles = shown.ask("[...document.querySelectorAll('figcaption > b')].map(b => b.textContent)")
    assert titles == names
    legends = shown.ask("[...document.querySelectorAll('.legend span span')].map(s => s.textContent)")
    assert [each.strip() for each in legends] == [each.strip() for each in names]
    assert shown.ask("document.querySelectorAll('#draw script, #draw img, #draw svg').length") == 0
    assert shown.complaints() == []
    shown.close()
