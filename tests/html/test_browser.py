"""The page in a real browser: it draws, it zooms, it asks for nothing, and without its script it can be read."""

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import making
import pytest
from chromium import Chromium, Shown

from gputune.html.kinds import page
from gputune.launch.job import MARK
from gputune.report import summary

Made = Callable[..., Path]
INK = "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size > 8"
PAPER = 718  # px: an A4 page between the margins that Chromium gives it
FIRST = "document.querySelector('#draw .u-over')"
MIDDLE = f"(r => [r.x + r.width / 2, r.y + r.height / 2])({FIRST}.getBoundingClientRect())"
TOLD = "[...document.querySelectorAll('.legend b')].map(b => b.textContent)"
DRAWN = f"new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done({TOLD}))))"


def drawn(shown: Shown) -> list[str]:
    """Return the titles of the plots that there is something for."""
    return list(shown.ask("JSON.parse(document.getElementById('measured').textContent).plots.map(plot => plot.title)"))


@pytest.mark.parametrize("kind", making.KINDS)
def test_it_draws_and_zooms_and_complains_of_nothing(browser: Chromium, made: Made, kind: str) -> None:
    shown = browser.show(made(kind))
    assert (
        shown.ask("document.querySelectorAll('#draw canvas').length")
        == int(shown.ask("plots.dataset.drawn"))
        == len(drawn(shown))
    )
    assert shown.ask(f"[...document.querySelectorAll('canvas')].every({INK})")
    assert shown.ask("document.getElementById('whole').hidden")
    shown.drag("#draw .u-over", 0.25, 0.75)
    began, ended = float(shown.ask("plots.dataset.from")), float(shown.ask("plots.dataset.to"))
    assert (began, ended) == pytest.approx((7.5, 22.5), abs=0.5)
    assert not shown.ask("document.getElementById('whole').hidden")
    shown.ask("document.getElementById('whole').click()")
    assert float(shown.ask("plots.dataset.from")) == 0.0
    assert shown.complaints() == []
    shown.close()


def test_its_buttons_zoom_and_move(browser: Chromium, made: Made) -> None:
    shown = browser.show(made("loader"))
    steps = (
        ("in", 7.5, 22.5),
        ("right", 11.25, 26.25),
        ("right", 15.0, 30.0),
        ("left", 11.25, 26.25),
        ("out", 0.0, 30.0),
    )
    for button, began, ended in steps:
        shown.ask(f"document.getElementById('zoom-{button}').click()")
        assert float(shown.ask("plots.dataset.from")) == pytest.approx(began, abs=0.2), button
        assert float(shown.ask("plots.dataset.to")) == pytest.approx(ended, abs=0.2), button
    shown.close()


def test_values_are_told_where_the_cursor_is_in_all_plots(browser: Chromium, made: Made) -> None:
    shown = browser.show(made("loader"))
    shown.ask(f"{FIRST}.scrollIntoView({{block: 'center'}})")
    x, y = shown.ask(MIDDLE)
    shown.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    told = shown.ask(DRAWN)
    assert told[:4] == ["40 %", "30 %", "20 GB", "310 W"]
    assert "–" not in told
    shown.close()


@pytest.mark.parametrize("kind", making.KINDS)
def test_without_scripts_it_can_be_read(browser: Chromium, made: Made, kind: str) -> None:
    verdict = making.KINDS[kind]
    shown = browser.show(made(kind), scripts=False)
    text = shown.ask("document.body.innerText")
    first = (
        verdict.findings[0].says if verdict.findings and not summary.sentence(verdict) else summary.sentence(verdict)
    )
    assert first in shown.ask("document.querySelector('.verdict').innerText")
    for finding in (*verdict.findings, *verdict.perhaps):
        for said in (
            finding.id,
            finding.says,
            finding.do,
            finding.where,
            finding.basis,
            finding.falsified_by,
            finding.effect,
        ):
            assert said in text
        assert all(name in text for name in finding.evidence)
    for row in verdict.ledger:
        assert row.span in text
    for lacking in verdict.unavailable:
        assert lacking.why in text
    assert "The plots of this page need its script" in text
    assert "python train.py" in text
    assert shown.complaints() == []
    shown.close()


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_is_wider_than_its_screen(browser: Chromium, made: Made, width: int) -> None:
    for kind in ("device", "ranks"):
        shown = browser.show(made(kind), width=width)
        assert shown.ask("document.documentElement.scrollWidth") <= width
        assert (
            shown.ask(
                "Math.max(...[...document.querySelectorAll('.plot .uplot')].map(u => u.getBoundingClientRect().right))"
            )
            <= width
        )
        shown.close()


def test_it_is_dark_where_that_is_wanted(browser: Chromium, made: Made) -> None:
    light, dark = (
        browser.show(made("loader"), dark=dark).ask("getComputedStyle(document.body).backgroundColor")
        for dark in (False, True)
    )
    assert (light, dark) == ("rgb(247, 247, 245)", "rgb(16, 19, 23)")


def test_paper_has_all_but_the_buttons(browser: Chromium, made: Made) -> None:
    shown = browser.show(made("loader"))
    shown.send("Emulation.setEmulatedMedia", media="print")
    hidden = shown.ask(
        "[...document.querySelectorAll('section, article, dd')].filter(e => !e.getClientRects().length).length"
    )
    assert hidden == 0
    assert not shown.ask("document.getElementById('zoom-in').getClientRects().length")
    shown.send("Emulation.setDeviceMetricsOverride", width=PAPER, height=1000, deviceScaleFactor=1, mobile=False)
    assert shown.ask("[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).length") == 0
    assert shown.send("Page.printToPDF")["data"]
    shown.close()


def test_its_policy_keeps_out_what_it_does_not_name(browser: Chromium, recording: Path, tmp_path: Path) -> None:
    made = page(recording, "run", making.KINDS["loader"]).decode()
    server = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{server.getsockname()[1]}"
    evil = f'<script>window.ran = 1</script><img src="{address}" onerror="window.ran = 2"><p style="color: red">x</p>'
    file = tmp_path / "evil.html"
    file.write_text(made.replace("</main>", f"{evil}</main>"))
    shown = browser.show(file)
    assert shown.ask("typeof window.ran") == "undefined"
    assert any("Content Security Policy" in complaint for complaint in shown.complaints())
    server.setblocking(False)
    with server, pytest.raises(BlockingIOError):
        server.accept()
    shown.close()


def test_a_share_and_a_job_draw_too_and_complain_of_nothing(browser: Chromium, recording: Path, tmp_path: Path) -> None:
    share = making.side_by_side(
        making.judged(Path(shutil.copytree(recording, tmp_path / "share")), making.KINDS["loader"])
    )
    job = tmp_path / "job"
    for number in range(2):
        making.judged(Path(shutil.copytree(recording, job / f"rank-{number}")), making.KINDS["loader"])
    (job / MARK).write_text("torch-1")
    making.judged(job, making.KINDS["ranks"])
    for folder, said in ((share, "two at a time do ×1.80"), (job, "rank-1")):
        file = tmp_path / f"{folder.name}.html"
        file.write_bytes(page(folder, folder.name))
        shown = browser.show(file)
        assert said in shown.ask("document.body.innerText")
        assert int(shown.ask("plots.dataset.drawn")) == len(drawn(shown)) > 8
        assert shown.complaints() == []
        shown.close()
