"""The verdict into the log folder that the script's SummaryWriter writes to.

Where it has none, into `runs/NAME` with the name of the run's folder, or `--out DIR`: scalars `gputune/…`, the findings
as a table and the whole verdict as text. torch is not imported for that, nor TensorFlow.
"""

import time
from pathlib import Path
from typing import Any

from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.exporters import ExportRequest, Sent
from gputune.exporters._told import HEAD, KEY, ExportedVerdict, asking, noted, told

TAKES = frozenset({"out"})
NEEDS = ("tensorboard",)
NAME = "tensorboard"
HINT = "`--out DIR` names another log folder"
RUNS = "runs"  # torch's own default, and what people give to `tensorboard --logdir`


def export(wish: ExportRequest) -> Sent:
    """Add a file of events to the folder."""
    lost: dict[str, str] = {}
    what = told(wish, lost)
    note = None if wish.out else noted(wish, NAME)
    folder = str(wish.out or (note or {}).get("folder") or Path(RUNS, wish.run.resolve().name))
    if note and not (wish.own or opening.is_mine(folder)):
        says = f"the script's log folder is `{clean(folder)}`, which is not there, or not yours"
        raise GputuneError(says, hint=HINT)
    with asking(NAME, HINT):
        _write(folder, what)
    return Sent(to=NAME, where=folder, lost=lost)


def _write(folder: str, what: ExportedVerdict) -> None:
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415 - only where it is asked for
    from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415 - as above
    from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415 - as above

    values = [
        _text(Summary.Value, name, value) if isinstance(value, str) else Summary.Value(tag=name, simple_value=value)
        for name, value in what.summary.items()
    ]
    values.append(_text(Summary.Value, f"{KEY}/findings", _table(what)))
    values.append(_text(Summary.Value, f"{KEY}/findings.json", "```json\n" + what.document.decode() + "\n```"))
    writer = EventFileWriter(folder, filename_suffix=f".{KEY}")
    try:
        writer.add_event(Event(wall_time=time.time(), step=0, summary=Summary(value=values)))
    finally:
        writer.close()


def _text(make: Any, tag: str, text: str) -> Any:
    """Return a text as the dashboard of texts takes it, in Markdown."""
    from tensorboard.compat.proto.tensor_pb2 import TensorProto  # noqa: PLC0415 - only where it is asked for
    from tensorboard.compat.proto.types_pb2 import DT_STRING  # noqa: PLC0415 - as above
    from tensorboard.plugins.text.metadata import create_summary_metadata  # noqa: PLC0415 - as above

    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()])
    about = create_summary_metadata(display_name=tag, description="")
    return make(tag=tag, metadata=about, tensor=tensor)


def _table(what: ExportedVerdict) -> str:
    lines = [HEAD, ["---"] * len(HEAD), *what.rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
