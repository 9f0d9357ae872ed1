"""For accelerate, which has no callbacks: `with recorded(accelerator):` around the loop, while its trackers live."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from gputune.inside.blocks import Watch, watch
from gputune.integrations.training import numbers


@contextlib.contextmanager
def recorded(accelerator: Any, out: "str | os.PathLike[str] | None" = None, **options: Any) -> Iterator[Watch]:
    """Record a block, and log what was found to the accelerator's trackers. Options are those of `gputune.watch`."""
    run = watch(out, **options)
    with run:
        yield run
    accelerator.log(numbers(run))
