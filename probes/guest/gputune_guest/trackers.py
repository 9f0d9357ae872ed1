"""Which runs of trackers a script logs to: a note each, so that the verdict can be told to the same run.

Of an address only what leads there is noted: names and passwords in it are left out.
"""

import os
import re
import sys

from gputune_guest import ring, wrapping

MOST = (
    16  # that are noted of a process: a script that makes more is a search, and its trials have no place in a verdict
)
_SECRET = re.compile("//[^/@]*@")
_SQLITE = "sqlite:///"
_told = set()


def writer(original):
    """Stand in the place of a SummaryWriter's `__init__`."""

    def after(made, _result, error):
        folder = None if error else made.get_logdir()
        if folder:
            _tell("tensorboard", str(folder), folder=_absolute(str(folder)))

    return wrapping.around(original, _first, after)


def wandb_run(original):
    """Stand in the place of the `__init__` of a run of wandb's."""

    def after(run, _result, error):
        if not error:
            wandb(run)

    return wrapping.around(original, _first, after)


def wandb(run):
    """Note a run of wandb's."""
    settings = run._settings
    if settings.mode == "disabled":
        return
    where = _plain(str(settings.base_url))
    _tell(
        "wandb",
        str(settings.run_id),
        project=settings.project or "",
        entity=settings.entity or "",
        folder=_absolute(str(settings.sync_dir)),
        offline=settings.mode in ("offline", "dryrun"),
        address=where,
    )


def open_wandb():
    """Note the run of wandb's that was there before torch was."""
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is not None:
        wandb(run)


def mlflow(original):
    """Stand in the place of a method of MLflow's client that logs to a run."""

    def before(args, kwargs):
        run = kwargs["run_id"] if "run_id" in kwargs else args[1]
        if ("mlflow", run) not in _told:
            _tell("mlflow", run, address=_absolute(_plain(str(args[0].tracking_uri))))

    return wrapping.around(original, before)


def _first(args, _kwargs):
    return args[0]


def _tell(kind, name, **more):
    if (kind, name) in _told or len(_told) >= MOST:
        return
    _told.add((kind, name))
    ring.note(n="tracker", kind=kind, id=name, **more)


def _plain(address):
    return _SECRET.sub("//", address)


def _absolute(address):
    """Return what leads to the same place from every folder."""
    if address.startswith(_SQLITE) and not address.startswith(_SQLITE + "/"):
        return _SQLITE + os.path.abspath(address[len(_SQLITE) :])
    return address if "://" in address or ":" in address.split(os.sep)[0] else os.path.abspath(address)
