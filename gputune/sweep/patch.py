"""The settings that were found as a change of the script: a unified diff of the call that builds the loader.

libcst keeps every comment and every blank as it is. What the call says in a way that a keyword cannot replace
(`**options`, a position that is not known) is not changed, and said.
"""

import difflib
import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.sweep import drafts
from gputune.sweep.result import Outcomes

if TYPE_CHECKING:  # an extra: imported where a patch is made
    import libcst

BOM = "\ufeff"
OF_WORKERS = frozenset({"prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context"})
POSITIONS = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory")
LIBRARY = ("/site-packages/", "/dist-packages/")


class NoLibcst(BadUsage):
    """The library that rewrites Python is not installed."""

    def __init__(self) -> None:
        super().__init__("a change of the script needs libcst", hint="pip install 'gputune[patch]'")


class NotPatched(GputuneError):  # noqa: N818 - named for what happened
    """The call could not be rewritten."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the loader at `{clean(where, 100)}` cannot be changed: {why}",
            hint="`gputune run --with gputune.toml -- CMD` sets it without a change of the script",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A changed file: its text before and after, and the difference between the two."""

    file: Path
    before: str
    after: str

    @property
    def base(self) -> Path:
        """Return the folder in which the difference is to be applied: ours, else the next above it and the file."""
        return Path(os.path.commonpath([Path.cwd(), self.file.resolve().parent]))

    @property
    def diff(self) -> str:
        """Return the change as `patch -p1` and `git apply` take it in `base`; nothing where there is none."""
        name = self.file.resolve().relative_to(self.base)  # no link, no `..`: `git apply` refuses both
        lines = difflib.unified_diff(_lines(self.before), _lines(self.after), f"a/{name}", f"b/{name}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """Change the file, unless somebody else has meanwhile. Raises NotPatched or OSError."""
        if _read(self.file) != self.before:
            raise NotPatched(str(self.file), "the file has changed meanwhile")
        drafts.write(self.file, self.after)


def _lines(text: str) -> list[str]:
    """Return the lines of a text as `patch` sees them: a form feed or a U+2028 ends none, as it does for Python."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def check() -> None:
    """Raise NoLibcst where no change can be made."""
    if importlib.util.find_spec("libcst") is None:
        raise NoLibcst


def of_outcomes(what: Outcomes) -> Patch:
    """Return the change that a sweep proposes. Raises NotPatched."""
    changes = what.best.setting.changes(what.baseline.setting)
    line = what.loader.where.rpartition(":")[2]
    return change(
        Path(what.file), int(line) if line.isdecimal() else 0, changes, no_workers=not what.best.setting.num_workers
    )


def change(file: Path, line: int, settings: Mapping[str, Json], *, no_workers: bool = False) -> Patch:
    """Return the file with these settings in the call on that line. `no_workers` takes away what only workers have.

    Raises NoLibcst or NotPatched.
    """
    check()
    where = f"{file}:{line}"
    if any(part in str(file) for part in LIBRARY):
        raise NotPatched(where, "it is built by a library")
    before = _read(file)
    return Patch(file=file, before=before, after=_rewritten(before, where, line, settings, no_workers=no_workers))


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotPatched(str(file), f"the file cannot be read: {clean(str(error), 100)}") from None


def _rewritten(text: str, where: str, line: int, settings: Mapping[str, Json], *, no_workers: bool) -> str:
    import libcst as cst  # noqa: PLC0415 - an extra, and 150 ms
    from libcst.metadata import MetadataWrapper, PositionProvider  # noqa: PLC0415 - as above

    if not settings:
        return text
    plain = text.removeprefix(BOM)  # libcst would leave it out
    try:
        whole = MetadataWrapper(cst.parse_module(plain), unsafe_skip_copy=True)
    except cst.ParserSyntaxError as error:
        raise NotPatched(where, f"the file cannot be parsed: {clean(str(error.message), 100)}") from None
    places = whole.resolve(PositionProvider)
    calls = [node for node in places if isinstance(node, cst.Call)]
    here = [call for call in calls if places[call].start.line <= line <= places[call].end.line]
    renamed = _renamed(node for node in places if isinstance(node, cst.ImportAlias))
    named = _innermost([call for call in here if _builds(call) or _name(call) in renamed])
    if len(named) != 1:
        why = "no call of a DataLoader stands there" if not named else "several calls of a DataLoader stand there"
        raise NotPatched(where, why)
    call = named[0]
    if any(arg.star for arg in call.args):
        raise NotPatched(where, "it takes its arguments from `*` or `**`")
    changed = call.with_changes(args=_arguments(call, settings, no_workers=no_workers))
    module = cast("libcst.Module", whole.module.deep_replace(call, changed))  # of a module it is one again
    return text[: len(text) - len(plain)] + str(module.code)


def _builds(call: "libcst.Call") -> bool:
    """Return whether a call looks like one that builds a loader: by its name, or by a keyword of no one else."""
    keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return _name(call).endswith("Loader") or bool(
        keywords & {"num_workers", "batch_sampler", "pin_memory", "prefetch_factor"}
    )


def _renamed(imported: "Iterable[libcst.ImportAlias]") -> set[str]:
    """Return what a file calls DataLoader where it imports it by another name."""
    import libcst as cst  # noqa: PLC0415 - as above

    return {
        alias.asname.name.value
        for alias in imported
        if alias.asname is not None and isinstance(alias.asname.name, cst.Name) and _last(alias.name) == "DataLoader"
    }


def _last(name: "libcst.Attribute | libcst.Name") -> str:
    """Return the last word of a dotted name."""
    import libcst as cst  # noqa: PLC0415 - as above

    return str(name.attr.value if isinstance(name, cst.Attribute) else name.value)


def _name(call: "libcst.Call") -> str:
    """Return the last word of what is called."""
    import libcst as cst  # noqa: PLC0415 - as above

    return str(call.func.attr.value if isinstance(call.func, cst.Attribute) else getattr(call.func, "value", ""))


def _innermost(calls: "list[libcst.Call]") -> "list[libcst.Call]":
    """Return the one that is called DataLoader, else those that wrap no other one."""
    torch_s = [call for call in calls if _name(call) == "DataLoader"]
    if len(torch_s) == 1:
        return torch_s
    return [call for call in calls if not any(arg.value is other for arg in call.args for other in calls)]


def _arguments(call: "libcst.Call", settings: Mapping[str, Json], *, no_workers: bool) -> "list[libcst.Arg]":
    import libcst as cst  # noqa: PLC0415 - as above

    left = dict(settings)
    kept: list[cst.Arg] = []
    for position, arg in enumerate(call.args):
        at = POSITIONS[position] if arg.keyword is None and position < len(POSITIONS) else ""
        name = arg.keyword.value if arg.keyword is not None else at
        if no_workers and name in OF_WORKERS:
            continue
        kept.append(arg.with_changes(value=cst.parse_expression(repr(left.pop(name)))) if name in left else arg)
    if not left:
        return _without_dangling(kept, call)
    equal = cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace(""))
    between = _between(call)
    before = call.args[-1] if call.args else cst.Arg(cst.Name("none"))
    if kept:
        space = cst.SimpleWhitespace("")
        comma = _with_remark(between, before.whitespace_after_arg, before.comma)
        kept[-1] = kept[-1].with_changes(comma=comma, whitespace_after_arg=space)
    for name, value in left.items():
        kept.append(
            cst.Arg(keyword=cst.Name(name), value=cst.parse_expression(repr(value)), equal=equal, comma=between)
        )
    kept[-1] = kept[-1].with_changes(
        comma=_without_remark(before.comma), whitespace_after_arg=_bare(before.whitespace_after_arg)
    )
    return kept


def _between(call: "libcst.Call") -> "libcst.Comma":
    """Return the comma between two arguments of a call as its author writes it, without a remark behind it."""
    import libcst as cst  # noqa: PLC0415 - as above

    commas = [arg.comma for arg in call.args[:-1] if isinstance(arg.comma, cst.Comma)]
    return _without_remark(commas[-1]) if commas else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _without_remark(comma: Any) -> Any:  # one of libcst's, whose types are not here without the extra
    import libcst as cst  # noqa: PLC0415 - as above

    return comma.with_changes(whitespace_after=_bare(comma.whitespace_after)) if isinstance(comma, cst.Comma) else comma


def _bare(space: Any) -> Any:
    """Return what stands behind something, without the remark in its line."""
    import libcst as cst  # noqa: PLC0415 - as above

    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=cst.TrailingWhitespace(newline=space.first_line.newline))


def _with_remark(between: Any, after: Any, comma: Any) -> Any:
    """Return the comma `between`, with the remark that stands behind the last argument or its comma."""
    import libcst as cst  # noqa: PLC0415 - as above

    spaces = (after, getattr(comma, "whitespace_after", None))
    there = [space.first_line for space in spaces if isinstance(space, cst.ParenthesizedWhitespace)]
    remarked = [line for line in there if line.comment is not None]
    if not remarked:
        return between
    here = between.whitespace_after
    if not isinstance(here, cst.ParenthesizedWhitespace):  # arguments in one line so far: the next one begins another
        here = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    return between.with_changes(whitespace_after=here.with_changes(first_line=remarked[0]))


def _without_dangling(args: "list[libcst.Arg]", call: "libcst.Call") -> "list[libcst.Arg]":
    """Return the arguments with the last one ending as the last one did."""
    if not args or len(args) == len(call.args):
        return args
    return [*args[:-1], args[-1].with_changes(comma=call.args[-1].comma)]
