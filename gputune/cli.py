"""The command line: finds the commands by their folder, and is the one place that prints an error.

A command is a file of `gputune/commands/` with a click command named `command`. Every option can also be given as
`GPUTUNE_<COMMAND>_<OPTION>` or `GPUTUNE_<OPTION>`, and in `gputune.toml` or
`[tool.gputune]` (`gputune/core/config.py`).
Status: 0, 2 for what was typed, 1 for a failure of gputune. Errors are `error: …`, a blank line, `hint: …`.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from gputune import __version__
from gputune.core import config
from gputune.core.errors import BadUsage, GputuneError

COMMANDS = Path(__file__).parent / "commands"
PREFIX = "GPUTUNE"
ISSUES = "please open an issue with"


class Interrupted(BaseException):
    """A Ctrl-C by a name that click does not know: else it writes an empty line, wherever stderr leads."""


class Rooms(click.Group):
    """Lists the files of `gputune/commands/`, and imports the one that is called."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was typed; a Ctrl-C in it is an Interrupted."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, sorted."""
        return sorted(_shown(f.stem) for f in COMMANDS.glob("*.py") if not f.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None if there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"gputune.commands.{cmd_name.replace('-', '_')}").command
        command.name = cmd_name
        from gputune.commands._names import strict  # noqa: PLC0415 - what parses a command line comes with its command

        for option in command.params:
            strict(option)
            if isinstance(option, click.Option) and option.envvar is None and option.name:
                name = option.name.upper()
                option.envvar = [f"{PREFIX}_{cmd_name.upper().replace('-', '_')}_{name}", f"{PREFIX}_{name}"]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed, and read what the configuration file says of its options."""
        name, command, rest = super().resolve_command(ctx, args)
        if name and command and not ctx.resilient_parsing:
            known = {o.name: o.is_flag for o in command.params if isinstance(o, click.Option) and o.name}
            given = config.given(name, known, _here(), lambda: self._options(ctx))
            ctx.default_map = {name: dict(given.options)}
            ctx.meta[config.FILE] = str(given.file)
            ctx.meta[config.UNKNOWN] = list(given.unknown)
            if ctx.obj is None:  # else a command is about to run whose terminal this is: its end is waited for
                _warn(given.unknown)
        return name, command, rest

    def _options(self, ctx: click.Context) -> dict[str, set[str]]:
        """Return the names of every command's options."""
        found: dict[str, set[str]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            params = command.params if command else []
            found[name] = {o.name for o in params if isinstance(o, click.Option) and o.name}
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the first lines of their files: importing them all costs too much."""
        rows = [(name, _first_line(COMMANDS / f"{name.replace('-', '_')}.py")) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    cls=Rooms,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: gputune watch -- python train.py",
    no_args_is_help=True,
)
@click.version_option(__version__, message="gputune %(version)s")
def group() -> None:
    """Find out why a GPU is not busy during a training, and what the fix is worth."""


def run(arguments: list[str], link: object = None) -> int:
    """Run the command line and return the exit status. `link` leads to the supervisor, where there is one."""
    try:
        _hear_ctrl_c()
        status = group.main(args=arguments, prog_name="gputune", standalone_mode=False, obj=link)
        sys.stdout.flush() if sys.stdout is not None else None
    except BrokenPipeError:  # the reader has what it wanted
        _die_of_pipe()
        return 1
    except Exception as error:  # noqa: BLE001 - this is the place where every error ends
        return _explain(error, arguments)
    except Interrupted:
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write("\n")  # below the ^C
        return 128 + signal.SIGINT
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        return 128 + signal.SIGINT
    return status if isinstance(status, int) else 0


def _hear_ctrl_c() -> None:
    """Have a Ctrl-C raise KeyboardInterrupt from here on; before, it simply ended us (`gputune/__main__.py`)."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _explain(error: Exception, arguments: list[str]) -> int:
    """Print an error and return the status that it stands for."""
    if isinstance(error, GputuneError):
        _say(str(error))
        return error.status
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        _say(error.format_message())
        return BadUsage.status
    if isinstance(error, click.UsageError):
        _say(str(_usage(error, arguments)))
        return BadUsage.status
    if isinstance(error, click.Abort):
        return 128 + signal.SIGINT
    if isinstance(error, click.ClickException):
        _say(str(GputuneError(_sentence(error.format_message()), hint="see `gputune --help`")))
        return 1
    _say(str(_refused(error) if isinstance(error, OSError) and error.strerror else _unexpected(error)))
    return 1


def _refused(error: OSError) -> GputuneError:
    """Say what the system would not do: that is no fault of ours to be looked for."""
    from gputune.core import opening  # noqa: PLC0415 - only where there is an error
    from gputune.core.hygiene import clean  # noqa: PLC0415 - likewise

    if error.filename is None:  # nothing but the output is written without a name
        _let_go_of_the_output()
        return GputuneError(f"the output cannot be written: {error.strerror}", hint="look at where it goes")
    named = Path(os.fsdecode(error.filename))
    owner = opening.whose(named) if isinstance(error, PermissionError) else ""
    whose = f": it is {owner}'s" if owner else ""
    says = f"`{clean(str(named))}` cannot be used: {error.strerror}{whose}"
    return GputuneError(says, hint="look at its rights, and at the disk that it is on")


def _let_go_of_the_output() -> None:
    """Send what is held back to nowhere: Python would try again as it ends, complain, and leave with 120."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _usage(error: click.UsageError, arguments: list[str]) -> BadUsage:
    if error.ctx is not None:
        path = error.ctx.command_path
    else:  # an option without its value
        path = " ".join(
            ["gputune", *[name for name in group.list_commands(click.Context(group)) if name in arguments[:1]]]
        )
    hint = f"see `{path} --help`"
    says = error.format_message().partition("\n")[0]
    if isinstance(error, click.NoSuchOption):
        says = f"no such option `{error.option_name}`"
        if error.possibilities:
            hint = f"did you mean `{sorted(error.possibilities)[0]}`?"
    elif says.startswith("No such command") and error.ctx is not None and isinstance(error.ctx.command, click.Group):
        near = _nearest(says.partition("'")[2], error.ctx.command.list_commands(error.ctx))
        hint = f"did you mean `{path} {near}`?" if near else hint
    elif isinstance(error, click.MissingParameter):
        option = error.param if isinstance(error.param, click.Option) else None
        says = f"missing option `{option.opts[-1]}`" if option else says.partition(". ")[0]
    elif isinstance(error, click.BadParameter) and error.ctx is not None and error.param is not None:
        says = _bad_value(error, error.ctx, error.param)
    return BadUsage(_sentence(says), hint=hint)


def _bad_value(error: click.BadParameter, ctx: click.Context, option: click.Parameter) -> str:
    """Return what is wrong with a value, and where it came from if that was not the command line."""
    why = error.message.partition(". ")[0]
    if ctx.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE:
        return f"invalid value for '{option.opts[-1]}': {why}"
    return f"{config.origin(ctx, option, ctx.lookup_default(str(option.name)))}: {why}"


def _warn(sentences: Sequence[str]) -> None:
    from gputune.core.hygiene import clean  # noqa: PLC0415 - only where there is something to say

    for sentence in sentences:
        _say(f"warning: {clean(sentence, 300)}")


def _nearest(word: str, known: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only where there is an error

    return next(iter(get_close_matches(word, known, 1)), "")


def _sentence(text: str) -> str:
    """Turn click's `No such option '--x'.` into ours: lower case, backticks, no full stop."""
    from gputune.core.hygiene import clean  # noqa: PLC0415 - only where there is an error

    text = clean(text.strip().removesuffix("."), 300).replace("'", "`")
    return text[:1].lower() + text[1:]


def _unexpected(error: Exception) -> GputuneError:
    """Keep the traceback in a file of its own: it is for us, not for the terminal."""
    import tempfile  # noqa: PLC0415 - only where something went wrong
    import traceback  # noqa: PLC0415 - as above

    from gputune.core.hygiene import clean  # noqa: PLC0415 - as above

    says = f"gputune stumbled over something unexpected: {type(error).__name__}: {clean(str(error))}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="gputune-", suffix=".txt", delete=False) as file:
            file.write("".join(traceback.format_exception(error)))
    except OSError:
        return GputuneError(says, hint=f"{ISSUES} what you typed")
    return GputuneError(says, hint=f"{ISSUES} `{file.name}`")


def _say(text: str) -> None:
    """Print what is wrong. It names what was typed, and a name may come out of anybody's archive."""
    from gputune.core.hygiene import clean  # noqa: PLC0415 - only where there is something to say

    try:
        # 4096 characters of an error: a path has no more
        click.echo("\n".join(clean(line, 4096) for line in text.split("\n")), err=True)
    except OSError:  # nobody listens
        return


def _die_of_pipe() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)


def _here() -> Path:
    """Return the current folder; the root, where nobody keeps settings, if it was removed meanwhile."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def _shown(stem: str) -> str:
    return stem.replace("_", "-")


def _first_line(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"').rstrip(".")
