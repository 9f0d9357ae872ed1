"""`%load_ext gputune`: the cell magic `%%gputune`, which records a cell and shows the verdict below it.

The cell runs in the notebook's own namespace and under its own number, so that what it defines is there afterwards and
places are `In[3]:9` as its reader counts. What it raises is raised, and shown from its own line on.
"""

import ast
import functools
import itertools
import sys
from typing import Any

from gputune.core.errors import BadUsage
from gputune.inside.around import cell
from gputune.inside.blocks import Watch, watch

USAGE = "`%%gputune [--out FOLDER] [--no-stacks]`, and below it the cell"


def load_ipython_extension(shell: Any) -> None:
    """Give an IPython the cell magic. IPython calls this for `%load_ext gputune`."""
    shell.register_magic_function(functools.partial(record, shell), "cell", "gputune")


def unload_ipython_extension(shell: Any) -> None:
    """Take it away again."""
    shell.magics_manager.magics["cell"].pop("gputune", None)


def record(shell: Any, line: str, text: str) -> None:
    """Run a cell, and show what was found of it whatever becomes of it. Raises what the cell raises."""
    __tracebackhide__ = "__ipython_bottom__"  # IPython shows what is below, which is theirs
    run = _asked(line)
    codes = _compiled(shell, text)
    try:
        with run:
            for code in codes:
                exec(code, shell.user_global_ns, shell.user_ns)  # noqa: S102 - the user's own cell
    finally:
        _show(run)


def _asked(line: str) -> Watch:
    """Return the recording that a magic's line asks for. Raises BadUsage."""
    words = line.split()
    options: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if word == "--out" and words:
            options["out"] = words.pop(0)
        elif word == "--no-stacks":
            options["stacks"] = False
        else:
            raise BadUsage(f"`%%gputune {line}` cannot be read", hint=USAGE)
    return watch(quiet=True, **options)


def _compiled(shell: Any, text: str) -> list[Any]:
    """Return the code of a cell, its lines counted from the magic's on.

    An expression at its end is a code of its own, which displays it, as in any cell that does not end in `;`.
    """
    above = 1 + sum(
        1 for _ in itertools.takewhile(lambda line: not line.strip(), text.splitlines())
    )  # IPython cuts them
    source = "\n" * above + shell.transform_cell(text)
    name = shell.compile.cache(source, _number(shell), raw_code=text)
    tree = shell.transform_ast(ast.parse(source, name))
    displayed = tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = tree.body.pop() if displayed else None
    codes = [shell.compile(tree, name, "exec")]
    if last is not None:
        codes.append(shell.compile(ast.Interactive([last]), name, "single"))
    return codes


def _number(shell: Any) -> int:
    """Return the number of the cell that is calling, which IPython may have counted on already."""
    return cell() or int(shell.execution_count)


def _show(run: Watch) -> None:
    """Show a run below the cell; a verdict that cannot be shown is no error of the cell's."""
    display = sys.modules["IPython.display"].display
    try:
        display(run)
    except Exception as error:  # noqa: BLE001 - the cell has run
        sys.stderr.write(f"gputune: the verdict could not be shown ({type(error).__name__}: {error})\n")
