"""A launcher on a node of a cluster, with one task: what it is told on stdin is where it is (`experiment/remote.py`).

The launcher (`launcher.py`) is a process of its own, as it is without a cluster: it starts the task, watches it, and
ends it if who holds it goes.
"""

import os
import sys
from pathlib import Path

import msgspec

from gputune.experiment import remote
from gputune.experiment.remote import Errand
from gputune.host import clusters
from gputune.sharing import launcher
from gputune.sharing.cards import SharedDevices
from gputune.sharing.spec import PROBED, VARIABLE, decode, encode
from gputune.verdict.packed import FILE
from gputune.watching import starting

CARD = "card.json"


def launched(spec: str, cwd: str) -> Errand:
    """Return the process that launches the one task of a spec."""
    return Errand(code="from gputune.sharing.hosted import main; main()", cwd=cwd, given=spec, files=(FILE, PROBED))


def looked_at() -> Errand:
    """Return the process that looks at the card that it was given."""
    return Errand(code="from gputune.sharing.hosted import card; card()", cwd="/", given="", files=(CARD,))


def main() -> None:
    """Launch the task of the spec that comes on stdin. Does not return."""
    own, rings = str(remote.folder()), os.environ[remote.RINGS]
    spec = decode(sys.stdin.readline())
    job = msgspec.structs.replace(spec.jobs[0], argv=clusters.here(spec.jobs[0].argv))
    spec = msgspec.structs.replace(spec, jobs=(job,), folder=own, logs=own, rings=rings, parent=os.getppid())
    for name, value in {**starting.environment(rings), VARIABLE: encode(spec)}.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    launcher.main()


def card() -> None:
    """Write the name of the card that we were given, and its memory in B; nothing where its driver tells nothing."""
    own, cards = remote.folder(), SharedDevices()
    try:
        cards.wait(20.0)  # s that the driver gets to tell of a card
        found = next(iter(cards.allowed()), None)
        if found is not None and found.room is not None:
            Path(own, CARD).write_bytes(msgspec.json.encode((found.name, found.room)))
    finally:
        cards.close()
