"""For Lightning: `Trainer(callbacks=[GputuneCallback()])` records `fit`, and adds what was found to its metrics.

`lightning` and `pytorch_lightning` are two packages that know nothing of each other: the one that is imported counts.
"""

import os
import sys
from importlib import import_module
from typing import Any

from gputune.integrations.training import TrainerRuns

_package = "pytorch_lightning" if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules else "lightning"
Callback: Any = import_module(f"{_package}.pytorch" if _package == "lightning" else _package).Callback


class GputuneCallback(Callback):
    """Records each `fit`. `out` and the other options are those of `gputune.watch`."""

    def __init__(self, out: "str | os.PathLike[str] | None" = None, **options: Any) -> None:
        super().__init__()
        self._asked = out, options
        self._training = TrainerRuns(out, options)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin, before the loaders of a `fit` are made."""
        if stage == "fit":
            self._training.begin()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Add what was found to `callback_metrics`, and to what each logger has."""
        found = self._training.end()
        trainer.callback_metrics.update({name: sys.modules["torch"].tensor(value) for name, value in found.items()})
        for logger in trainer.loggers if found else ():
            logger.log_metrics(found, step=trainer.global_step)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Have the verdict said of a `fit` that an error, or a Ctrl-C, has ended."""
        self._training.end()

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes into another process with the trainer: what was asked for, and no recording."""
        return {**vars(self), "_training": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._training = TrainerRuns(*self._asked)
