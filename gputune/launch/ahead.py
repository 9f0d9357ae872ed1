"""A command that is a part of gputune: forked and loaded while the recorder still reads the command line.

Loading it takes as long as reading the options does; on two CPUs one of them is free. It waits for its environment, and
leaves without a word when none comes: the options were wrong, or whoever was to send it is gone.
"""

import marshal
import os
import signal
from collections.abc import Callable

from gputune.launch import signals
from gputune.launch.descriptors import say
from gputune.launch.link import pipe
from gputune.launch.program import OURS

Load = Callable[[], Callable[[], None]]  # imports it; what it returns runs it, and does not return


class Ahead:
    """The process of it. Made before any other, so that no descriptor of ours is in it but its own."""

    def __init__(self, load: Load) -> None:
        reads, self._writes = pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._writes)
            _wait(load, reads)
        os.close(reads)

    def go(self, env: "dict[str, str]") -> int:
        """Let it run in this environment; return its pid. Whether it is still there, its end tells."""
        data = marshal.dumps(env)
        try:
            while data:
                data = data[os.write(self._writes, data) :]
        except OSError:  # it is not: reaped as any command that ends at once
            pass
        os.close(self._writes)
        return self.pid

    def drop(self) -> None:
        """End it: nothing is to be run."""
        os.close(self._writes)
        signals.send(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _wait(load: Load, reads: int) -> None:
    """Load it, wait for its environment, and run it. Does not return."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals.WATCHED)  # what comes now is taken once it runs
        run = load()
        data = b""
        while part := os.read(reads, 1 << 16):
            data += part
        os.close(reads)
        if not data:
            os._exit(OURS)
        os.environ.clear()
        os.environ.update(marshal.loads(data))  # noqa: S302 - written by the other half of this same program
        run()
    except BaseException as error:  # noqa: BLE001 - one sentence, never a traceback
        say(f"error: the launcher could not be loaded: {type(error).__name__}: {error}\n\nhint: try again\n")
    finally:
        os._exit(OURS)
