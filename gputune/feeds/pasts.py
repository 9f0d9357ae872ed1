"""How a machine went, out of what its agent keeps: read on demand, some more each time."""

from gputune.feeds.past import METRICS, Curves
from gputune.feeds.rows import Past
from gputune.wire.client import AgentClient, AgentFailed
from gputune.wire.keeping import RunReader
from gputune.wire.messages import LATEST, MACHINE, CursorFields


class KeptPast:
    """The curves of one agent's machine, as far back as the newest segment of its recording goes: a day, often."""

    def __init__(self, far: AgentClient) -> None:
        self._reader = RunReader(far, MACHINE, at=CursorFields(segment=LATEST), only=METRICS)
        self._curves = Curves()
        self.more = False

    def read(self) -> None:
        """Read on. Raises AgentFailed where the agent is gone; one that has no such recording is not."""
        try:
            for _ in range(4):  # answers in a row: MiB of frames
                ticks, self.more = self._reader.step()
                for tick in ticks:
                    self._curves.take(tick, self._reader.clocks)
                if not self.more:
                    break
        except AgentFailed as failed:
            if not failed.said:
                raise

    def past(self, node: str, span: int) -> Past:
        """Return the curves."""
        return self._curves.past(node, span)
