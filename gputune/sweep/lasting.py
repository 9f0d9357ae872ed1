"""Whether a script keeps its DataLoader from one pass to the next: workers persist no longer than their loader does."""

import ast
from collections.abc import Iterator
from pathlib import Path

from gputune.features import Loader

LOADER = "loader"  # in the name of what builds one: DataLoader, NeighborLoader, …


def built_anew(loader: Loader, file: str) -> float:
    """Return the share of passes that begin with a new DataLoader. `file` is the one that builds it, "" if not known.

    As the passes showed; where there was but one, as the source says that it is built right where it is iterated.
    """
    again = [epoch.fresh for epoch in loader.epochs if epoch.batches][1:]
    if again:
        return sum(again) / len(again)
    line = loader.where.rpartition(":")[2]
    return float(line.isdecimal() and int(line) in _iterated(file))


def _iterated(file: str) -> set[int]:
    """Return the lines of the calls that build a loader for one `for` alone; none where the file cannot be read."""
    try:
        tree = ast.parse(Path(file).read_bytes()) if file else ast.Module(body=[], type_ignores=[])
    except (OSError, SyntaxError, ValueError):
        return set()
    loops = (node.iter for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension))
    return {line for loop in loops for call in _calls(loop) for line in range(call.lineno, _end(call) + 1)}


def _calls(node: ast.expr) -> Iterator[ast.Call]:
    """Yield the call that builds a loader, and is iterated, maybe within others: `enumerate(tqdm(DataLoader(…)))`."""
    if not isinstance(node, ast.Call):
        return
    if LOADER in ast.unparse(node.func).rpartition(".")[2].lower():
        yield node
        return
    for argument in node.args:
        yield from _calls(argument)


def _end(call: ast.Call) -> int:
    return call.end_lineno or call.lineno
