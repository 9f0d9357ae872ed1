"""The verdict into the run of Weights & Biases that the script logs to.

Its summary gets `gputune/…` and the findings as a table, `findings.json` and the page are an artifact; its history is
left as it is. Where the script logs to none, a run with the name of the run's folder is made, in `WANDB_PROJECT`. What
was logged offline stays offline: `wandb sync` sends it, after the script's own.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gputune.core import opening
from gputune.exporters import ExportRequest, Sent
from gputune.exporters._told import HEAD, KEY, ExportedVerdict, asking, check_address, noted, told

TAKES: frozenset[str] = frozenset()
NEEDS = ("wandb",)
NAME = "wandb"
WHERE = "WANDB_BASE_URL"
HINT = "look at `wandb login`, and whether the run is still there; `WANDB_MODE=offline` writes it for `wandb sync`"
PATIENCE = 30.0  # s for a server to answer
OFFLINE = ("offline", "dryrun")


def export(wish: ExportRequest) -> Sent:
    """Tell the run."""
    lost: dict[str, str] = {}
    what = told(wish, lost)
    note = noted(wish, NAME)
    with asking(NAME, HINT):
        import wandb  # noqa: PLC0415 - only where it is asked for

        try:
            with _run(wandb, wish, note, what.verdict.exit_code or 0) as run:
                _tell(wandb, run, what)
                offline = bool(run.offline)
                where = str(run.settings.sync_dir if offline else run.url)
        finally:
            wandb.teardown()  # its process ends with ours
    if offline:
        wish.say(
            f"it is offline, as the script's run is: `wandb sync {where}` sends it"
            if note
            else f"`wandb sync {where}` sends it"
        )
    return Sent(to=NAME, where=where, lost=lost)


@contextmanager
def _run(wandb: Any, wish: ExportRequest, note: dict[str, Any] | None, status: int) -> Iterator[Any]:
    """Give the script's run, gone on with, or a new one; it ends with the status that it had."""
    offline = os.environ.get("WANDB_MODE") in OFFLINE or bool(note and note.get("offline"))
    with tempfile.TemporaryDirectory(prefix="gputune-wandb-") as scratch:
        address = str(note.get("address") or "") if note else ""
        if address and not offline:
            check_address(wish, NAME, address, (WHERE, str(wandb.setup().settings.base_url)))
            os.environ[WHERE] = address
        quiet = wandb.Settings(
            silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True, init_timeout=PATIENCE
        )
        run = wandb.init(
            **_which(wish, note),
            mode="offline" if offline else "online",
            dir=str(_beside(wish, note)) if offline else scratch,
            resume="must" if note and not offline else None,
            settings=quiet,
        )
        try:
            yield run
        except BaseException:
            run.finish(exit_code=status or 1)
            raise
        run.finish(exit_code=status)


def _which(wish: ExportRequest, note: dict[str, Any] | None) -> dict[str, Any]:
    if note is None:
        return {"project": os.environ.get("WANDB_PROJECT", KEY), "name": wish.run.resolve().name}
    return {"id": note["id"], "project": note.get("project") or None, "entity": note.get("entity") or None}


def _beside(wish: ExportRequest, note: dict[str, Any] | None) -> Path:
    """Return the folder below which the script's offline run lies, where it is still there; else the run's own."""
    there = Path(str(note.get("folder", ""))) if note else wish.run
    is_there = note is not None and there.is_dir() and there.parent.name == NAME and opening.is_mine(there)
    return there.parent.parent if is_there else wish.run


def _tell(wandb: Any, run: Any, what: ExportedVerdict) -> None:
    run.summary.update(what.summary)
    run.summary[f"{KEY}/findings"] = wandb.Table(columns=list(HEAD), data=what.rows)
    artifact = wandb.Artifact(f"{KEY}-{run.id}", type=KEY)
    with what.files() as files:
        for file in files:
            artifact.add_file(str(file), name=file.name)
        run.log_artifact(artifact)
