"""What a folder is, and its page: of a run, of a job of ranks, of several on one card, or what `renderers/` know."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.sample import Json
from gputune.html import engine, parts, plots, renderers, run
from gputune.launch.job import MARK, seats
from gputune.proving import proof
from gputune.recording import about
from gputune.recording.folder import RUN
from gputune.report.kept import shown
from gputune.report.packed import HEAD, sentences, table
from gputune.verdict import packed
from gputune.verdict.document import Verdict
from gputune.verdict.packed import Packed


def page(folder: Path, typed: str, verdict: Verdict | None = None, troubles: Sequence[str] = ()) -> bytes:
    """Return the page of a folder. `typed`: as one types it; `verdict`: of its run, where it was judged already.

    `troubles` are sentences on what of it could not be read. Raises NoJinja, and as `rejudge` where the folder is
    nothing of ours.
    """
    together = packed.read(folder)
    if (folder / RUN).exists() or (folder / MARK).exists():
        return _of_run(folder, typed, verdict or shown(folder), together, troubles)
    if together is not None:
        return _packed(folder, together)
    other = renderers.read(folder)
    if other is not None:
        return other.page()
    return _of_run(folder, typed, shown(folder), None, troubles)


def _of_run(folder: Path, typed: str, verdict: Verdict, together: Packed | None, troubles: Sequence[str]) -> bytes:
    story, ranks = _story(folder), parts.ranks(folder)
    kind = "job" if ranks else "share" if together else "run"
    beside = {
        "what": kind,
        "troubles": [*troubles, *_troubles(story, verdict)],
        "seats": ranks,
        "proofs": [(made, proof.words(made)) for made in parts.proofs(folder)],
        **plots.told(folder, verdict),
        **_side_by_side(folder, together),
    }
    return run.page(folder, typed, story, verdict, beside)


def _troubles(story: Mapping[str, Json], verdict: Verdict) -> list[str]:
    """Return what a page is without, a sentence each."""
    unread = [] if story else ["its `run.json` cannot be read"]
    return [*unread, *(f"advisor `{name}` failed ({why})" for name, why in verdict.unjudged.items())]


def _story(folder: Path) -> Mapping[str, Json]:
    """Return run.json; of a job whose own says little, that of its first watch that can be read."""
    for each in [folder, *map(Path, seats(str(folder)))]:
        try:
            found = about.read(each)
        except GputuneError:
            continue
        if "started" in found:
            return found
    return {}


def _side_by_side(folder: Path, together: Packed | None) -> dict[str, object]:
    if together is None:
        return {"packed": None}
    return {
        "packed": together,
        "packed_head": HEAD,
        "packed_rows": table(together),
        "packed_said": [
            line for line in sentences(together, silent=packed.silence(folder)) if line != together.verdict
        ],
    }


def _packed(folder: Path, together: Packed) -> bytes:
    said = together.verdict or next(iter(sentences(together, silent=packed.silence(folder))), "")
    context = {"title": folder.name, "what": "share", "said": said, **_side_by_side(folder, together)}
    return engine.render("packed_only.html", context)
