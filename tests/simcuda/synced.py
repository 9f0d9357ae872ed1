"""Run the first steps of a script of tests/zoo/cuda, while torch tells of synchronizations: test_synchronizations.py.

`ZOO_SCRIPT` names it, `ZOO_SYNC_MODE` says what torch does where something synchronizes between the steps `WARM` and
`LAST`: `error` ends the script, of `warn` their number is printed. Ranks of a job run this file again.
"""

import contextlib
import importlib
import os
import sys
import warnings
from pathlib import Path

SCRIPT, MODE = Path(os.environ["ZOO_SCRIPT"]), os.environ["ZOO_SYNC_MODE"]
JUDGED = "called a synchronizing CUDA operation"
WARM, LAST = 8, 40  # steps: in between the guest samples, looks at the weights, and holds the device back
sys.path.insert(0, str(SCRIPT.parent))
kit_cuda = importlib.import_module("kit_cuda")


class Watching(kit_cuda.Pace):
    """A clock that tells torch what to say of synchronizations, after so many steps, and ends the script some later."""

    def __init__(self, warm: int = 0, *, whole: bool = False) -> None:
        super().__init__(warm, whole=whole)
        self.warm = 0  # it synchronizes itself where it begins to count
        self.steps = 0
        self.kept = contextlib.ExitStack()

    def saw(self, samples: int) -> None:
        """Count a step."""
        import torch  # not above: torchrun starts ranks before they import it

        super().saw(samples)
        self.steps += 1
        if self.steps == WARM:
            self.told = self.kept.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode(MODE)
        elif self.steps == LAST:
            torch.cuda.set_sync_debug_mode("default")
            self.kept.close()
            print("synchronizations", sum(JUDGED in str(each.message) for each in self.told), flush=True)
            os._exit(0)  # other ranks may have ended; rings are mapped, so that what the guest said is there


kit_cuda.Pace = Watching
exec(compile(SCRIPT.read_text(), SCRIPT, "exec"))  # as this file: launchers run it again as a rank
