"""One recording, live or ended, and the machine as it was recorded: `gputune tui RUN`."""

from pathlib import Path

from msgspec.structs import replace

from gputune.feeds.board import Board
from gputune.feeds.one_run import OneRun
from gputune.feeds.rows import Node, RunRow, Update


class RecordedFeed:
    """Raises NotARun or NewerRun at once, before there is a screen."""

    def __init__(self, folder: Path) -> None:
        self._board = Board()
        self._run = OneRun(folder, beside=self._board.take)
        self._until = 0
        self._told: tuple[int, Node, RunRow] | None = None

    @property
    def run(self) -> str:
        """Return the id of the run."""
        return self._run.id

    def poll(self, since: int) -> Update:
        """Return the run and its machine, where something has changed."""
        self._until += 1
        row = self._run.look()
        node = self._node(row)
        if self._told is None or self._told[1:] != (node, row):
            self._told = (self._until, node, row)
        new = self._told[0] > since
        return Update(
            until=self._until,
            nodes=(node,) if new else (),
            runs=(row,) if new else (),
            more=self._run.behind,
        )

    def seek(self, run: str, at: float | None) -> None:
        """Show the run as it was."""
        if run == self._run.id:
            self._run.seek(at)

    def look_at(self, node: str, span: int) -> None:
        """Do nothing: of a recording its run's own curves are shown."""

    def close(self) -> None:
        """Let go of the folder."""
        self._run.close()

    def _node(self, row: RunRow) -> Node:
        node = (self._run.board or self._board).node(self._run.node, "recorded")
        verdict = row.verdict
        best = verdict.findings[0] if verdict and verdict.findings else None
        return replace(
            node,
            rate=verdict.samples_per_s if verdict else None,
            wait=sum(r.share for r in verdict.ledger if r.span == "loader.wait") if verdict else None,
            finding=best.id if best else "",
            gain=best.speedup.likely if best else None,
            seen=row.started + row.at,
            runs=(row.id,),
            unavailable={u.probe: u.why for u in verdict.unavailable} if verdict else {},
        )
