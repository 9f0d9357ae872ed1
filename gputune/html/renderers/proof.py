"""A proof: whether a change brings what was promised, by the trials of both."""

from pathlib import Path

from gputune.html import engine, parts
from gputune.proving import proof
from gputune.proving.proof import Proof
from gputune.recording.folder import RUN
from gputune.verdict.document import to_json

words, document, read = proof.words, to_json, parts.proven


def page(folder: Path, made: Proof) -> bytes:
    """Return its page, with the verdict on each trial that was recorded."""
    recorded = dict.fromkeys(folder / Path(row.folder).name for row in made.trials if row.folder)
    there = [each for each in recorded if (each / RUN).is_file() and not each.is_symlink()]
    context = {
        "title": folder.absolute().parent.name + "/" + folder.name,
        "what": "proof",
        "said": proof.words(made).splitlines()[-1],
        "made": made,
        "parts": [parts.of_run(each) for each in there[: parts.MOST]],
    }
    return engine.render("proof.html", context)
