"""What is shown of a packed run at its end: the summary, and the document where that was asked for."""

import os
import sys
from collections.abc import Iterator

from gputune.core import replacing
from gputune.launch import folders
from gputune.launch.descriptors import say
from gputune.report.packed import render
from gputune.report.streams import encodable
from gputune.report.words import WIDEST
from gputune.sharing.spec import Spec
from gputune.verdict.document import to_json
from gputune.verdict.packed import Packed


def shown(made: Packed, spec: Spec) -> Iterator[str]:
    """Print the summary, and write the document to stdout and into a file, as was asked; yield what went wrong."""
    width = os.get_terminal_size(2).columns if os.isatty(2) else WIDEST
    text = render(made, width=width)
    if spec.folder:
        text += f"\nnext: gputune report {folders.typed(spec.folder)}"
    say("\n" + encodable(text, getattr(sys.stderr, "encoding", None)) + "\n")
    if spec.as_json:
        yield from _put(to_json(made))
    trouble = replacing.put(spec.json_file, to_json(made)) if spec.json_file else ""
    if trouble:
        yield trouble


def _put(data: bytes) -> Iterator[str]:
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError as error:
        yield f"the document was not written to stdout ({error.strerror or error})"
