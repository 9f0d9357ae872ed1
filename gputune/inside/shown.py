"""A verdict as a notebook shows it: the page of `gputune report --html` in a frame of its own, else its words.

The page is made by another process: what lays it out has no place among the user's modules. The frame is sandboxed:
its script sees the page and nothing of the notebook.
"""

import html as escaping
import subprocess
from importlib.util import find_spec
from pathlib import Path

from gputune.core.isolation import own_python

CODE = """
import sys
from pathlib import Path
from gputune.html.kinds import page
from gputune.recording import lean
lean()
sys.stdout.buffer.write(page(Path(sys.argv[1]), sys.argv[1], None))
"""
FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts" title="gputune" width="100%" height="{height}" '
    'style="border:0"></iframe>'
)


def html(folder: Path | None, words: str) -> str:
    """Return HTML for a run folder, None for a run that has none; `words` where there is no page of it."""
    page = "" if folder is None else _page(folder)
    if page:
        return FRAME.format(page=escaping.escape(page, quote=True), height=720)  # px
    return f"<pre>{escaping.escape(words)}</pre>"


def _page(folder: Path) -> str:
    """Return the page of a run; nothing where this gputune makes none, or jinja2 is not installed."""
    if find_spec("gputune.html") is None or find_spec("jinja2") is None:
        return ""
    try:
        done = subprocess.run(
            [*own_python(CODE, theirs=True), str(folder)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60.0,  # s; the page of a day's run takes two
            start_new_session=True,  # a Ctrl-C of the terminal is not for it
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
