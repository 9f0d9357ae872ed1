"""Templates to a page: every text is escaped and made harmless, and nothing runs in it but its own script.

The policy in the page names the script and the style by their hashes: what slipped past all escaping would still be
text that no browser runs, and that asks no address for anything.
"""

import base64
import functools
import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputune import __version__
from gputune.core import figures
from gputune.core.errors import BadUsage
from gputune.core.figures import duration, size
from gputune.core.hygiene import clean
from gputune.report.words import number, percent

if TYPE_CHECKING:
    import jinja2

HERE = Path(__file__).parent / "page"
LONGEST = 1000  # characters of one text: any sentence of ours is shorter, and an argument of 1 MB is no reading
STYLES = ("vendor/uplot.css", "style.css")
SCRIPTS = ("vendor/uplot.js", "plots.js")
LICENCE = "vendor/LICENSE.uplot"  # goes where the library goes
POLICY = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src {style}; script-src {script}"
)


class NoJinja(BadUsage):
    """The library that fills in the page is not installed."""

    def __init__(self) -> None:
        super().__init__("a page needs jinja2", hint="pip install 'gputune[report]'")


def check() -> None:
    """Raise NoJinja where no page can be made."""
    if importlib.util.find_spec("jinja2") is None:
        raise NoJinja


def render(template: str, context: Mapping[str, object]) -> bytes:
    """Return a page. Raises NoJinja."""
    check()
    return str(_environment().get_template(template).render(context)).encode("utf-8")


@functools.cache
def _environment() -> "jinja2.Environment":
    import jinja2  # noqa: PLC0415 - an extra, and 50 ms
    from markupsafe import Markup  # noqa: PLC0415 - as above

    def harmless(value: Any) -> Any:  # whatever a template puts out
        return clean(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _joined(STYLES), f"/* {(HERE / LICENCE).read_text(encoding='utf-8')} */\n{_joined(SCRIPTS)}"
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {
        "percent": percent,
        "number": number,
        "figure": figures.number,
        "duration": duration,
        "size": size,
    }
    environment.globals |= {
        "version": __version__,
        "style": Markup(style),  # noqa: S704 - a file of ours
        "script": Markup(script),  # noqa: S704 - as above
        "policy": POLICY.format(style=_hash(style), script=_hash(script)),
    }
    return environment


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((HERE / name).read_text(encoding="utf-8").strip() for name in names)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
