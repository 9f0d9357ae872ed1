"""For transformers: `Trainer(callbacks=[GputuneCallback()])` records `train()`, and its metrics have what was found."""

import os
from typing import Any

from transformers import TrainerCallback

from gputune.integrations.training import TrainerRuns

AT_END = "train_runtime"  # among the metrics that a Trainer logs when it has trained, and in no others


class GputuneCallback(TrainerCallback):
    """Records each `train()`. `out` and the other options are those of `gputune.watch`."""

    def __init__(self, out: "str | os.PathLike[str] | None" = None, **options: Any) -> None:
        self._training = TrainerRuns(out, options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin. A training that an error ends tells its callbacks nothing: the next one, or Python's end, ends it."""
        self._training.begin()

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: "dict[str, float] | None" = None,
        **_: Any,
    ) -> None:
        """Add what was found to the metrics that `train()` returns, and to the last row of `log_history`."""
        if logs is not None and AT_END in logs:
            found = self._training.end()
            logs.update(found)
            state.log_history[-1].update(found)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End, where no metrics were logged."""
        self._training.end()
