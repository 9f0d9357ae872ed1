"""Find the best DataLoader settings of a training, without an edit of it.

The script is started once, and again where it ends too early: it trains for some seconds as it is, with one batch again
and again (what everything but the loading allows), and with the settings that a model of its loader predicts to be
best. With --restarts, and where its loader cannot be switched, each of them gets a start of its own. The result is a
table, and `gputune.toml`, which `gputune run --with gputune.toml -- CMD` applies. What follows SCRIPT is its own.
"""

from functools import partial
from pathlib import Path
from typing import Any

import click

from gputune.commands import _documents, _kinds
from gputune.core import config
from gputune.core.errors import BadUsage
from gputune.experiment.living import end_with_us
from gputune.experiment.script import Script, scripts_of
from gputune.host import clusters
from gputune.launch import values
from gputune.sweep import patch, result, saved_settings
from gputune.sweep.batches import AUTO
from gputune.sweep.onray import Cluster, FarStarter, TrialResources
from gputune.sweep.several import Done, Several, SweepJob, as_csv, summary
from gputune.sweep.several import as_json as several_json
from gputune.sweep.sweeping import SweepOptions

MOST_SIZES = 16
MODULE = ("-m", "--module")

HELP = f"""{__doc__}
\b
Example:
  gputune sweep-loader train.py --epochs 3
  gputune sweep-loader --batch-sizes auto --budget 2m -m package.train
  gputune sweep-loader -- torchrun --nproc-per-node 2 train.py
  gputune sweep-loader --ray auto -- 'python a.py --fold 1' -- 'python b.py'
"""


def _amount(what: str) -> _kinds.Callback:
    def read(text: str) -> float | None:
        found = values.number(text)
        return None if found is None or found < 0 or (what == "CPUS" and found == 0) else found

    return _kinds.read_by(read, f"is no number of {what}", "`--ray-cpus 8 --ray-gpus 1`")


CPUS, GPUS = _amount("CPUS"), _amount("GPUS")
SECONDS = _kinds.read_by(values.seconds, "is not a time of at least a second", "`60s`, `5m`")


def _places(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for place in value:
        if not Path(place).exists():
            raise BadUsage(
                f"{config.origin(ctx, param, place)} does not exist, and only what is there can be allowed",
                hint="name the folder in which it is to be made",
            )
    return tuple(str(Path(place).resolve()) for place in value)


def _sizes(ctx: click.Context, param: click.Parameter, value: str | None) -> "tuple[int, ...] | str":
    if value is None:
        return ()
    if value.strip() == AUTO:
        return AUTO
    words = [word.strip() for word in value.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words) or len(words) > MOST_SIZES:
        says = f"{config.origin(ctx, param, value)} is no list of batch sizes: numbers above 0, at most {MOST_SIZES}"
        raise BadUsage(says, hint="like `--batch-sizes 8,16,32`, or `--batch-sizes auto`")
    return tuple(dict.fromkeys(int(word) for word in words))


class _Command(click.Command):
    """Leaves what follows the module's name to the module, as `python -m` does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [param for param in self.params if isinstance(param, click.Option)]
        followed = {name for option in options if not option.is_flag for name in option.opts}
        return super().parse_args(ctx, _left_to_module(args, followed))


def _left_to_module(args: "list[str]", followed: "set[str]") -> "list[str]":
    """Return the arguments with two dashes behind the module; `followed` are the options with a word after them."""
    place = 0
    while place < len(args) and args[place] != "--" and args[place].startswith("-"):
        here, place = args[place], place + (2 if args[place] in followed else 1)
        if here in MODULE or here.startswith("--module=") or (here[:2] == "-m" and len(here) > len("-m")):
            return args if args[place : place + 1] == ["--"] else [*args[:place], "--", *args[place:]]
    return args


@click.command(
    cls=_Command, short_help="the best loader settings", help=HELP, context_settings={"allow_interspersed_args": False}
)
@click.option(*MODULE, metavar="MODULE", envvar=[], help="Run a module, as `python -m MODULE` does.")
@click.option("--python", default="python", show_default=True, help="The interpreter that runs SCRIPT or MODULE.")
@click.option("--batch-sizes", metavar="LIST", callback=_sizes, help="Batch sizes first: `auto`, or like 8,16,32.")
@click.option("--budget", metavar="TIME", callback=SECONDS, help="How long it may take at most, like 60s.")
@click.option(
    "--within", metavar="TIME", default="60s", show_default=True, callback=SECONDS, help="When the first batch comes."
)
@click.option("--where", metavar="FILE:LINE", default="", help="Which loader.  [default: the most waited for]")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of torch's random numbers in trials.")
@click.option("--out", metavar="DIR", help="Folder of the trials: new or empty.  [default: gputune-runs/…]")
@click.option(
    "--may-write", metavar="PATH", multiple=True, callback=_places, help="Trials may change your files there; `/`: all."
)
@click.option("--resume", is_flag=True, help="Go on with the last sweep of this command that was ended.")
@click.option("--restarts", is_flag=True, help="Measure each setting in a start of its own.")
@click.option("--write", metavar="FILE", default="gputune.toml", show_default=True, help="Keep the settings; - for no.")
@click.option("--patch", "as_patch", is_flag=True, help="Print the change of the script as a diff.")
@click.option("--apply", is_flag=True, help="Make that change in the script.")
@click.option("--csv", "csv_file", metavar="FILE", type=click.Path(path_type=Path), help="Write the trials as CSV.")
@click.option("--ray", metavar="ADDRESS", help="Trials are tasks of that Ray cluster (`auto`: ours): docs/sweep.md.")
@click.option("--each-node", is_flag=True, help="With --ray: sweep on each of its nodes.")
@click.option(
    "--ray-cpus",
    metavar="N",
    callback=CPUS,
    help="CPUs that a trial asks for.  [default: all of its node]",
)
@click.option(
    "--ray-gpus",
    metavar="N",
    callback=GPUS,
    help="GPUs likewise.  [default: 1 where there are any]",
)
@_documents.options("sweep-loader", "Print JSON.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
def command(*, script: tuple[str, ...], wanted: _documents.Wanted, **asked: Any) -> int:
    """Sweep what was asked for, and show it."""
    scripts = scripts_of(script, asked["module"], asked["python"])
    as_patch, apply, csv_file, ray = (asked[name] for name in ("as_patch", "apply", "csv_file", "ray"))
    if as_patch and wanted.stdout:
        raise BadUsage("`--patch` and `--json` both want stdout", hint="ask for one of them; `--apply` goes with both")
    _check(scripts, changes=as_patch or apply, each_node=asked["each_node"], where=asked["where"])
    share = asked["ray_cpus"], asked["ray_gpus"]
    if ray is None and (asked["each_node"] or share != (None, None)):
        raise BadUsage("`--each-node`, `--ray-cpus` and `--ray-gpus` are for a cluster", hint="like `--ray auto`")
    if csv_file is not None:
        saved_settings.writable(csv_file, "--csv")
    end_with_us()
    same = ("out", "budget", "within", "where", "seed", "may_write", "resume")
    wishes = SweepOptions(
        script=scripts[0],
        sizes=asked["batch_sizes"],
        restarts=asked["restarts"] or ray is not None,
        share=share,
        write=None if asked["write"] == "-" else Path(asked["write"]),
        tell=_tell,
        **{name: asked[name] for name in same},
    )
    if ray is None:
        several = Several(jobs=[SweepJob(script=each) for each in scripts], wishes=wishes)
        done = several.run()
    else:
        resources = TrialResources(cpus=share[0], gpus=share[1])
        several, done = _in_cluster(ray, resources, scripts, wishes, each_node=asked["each_node"])
    _show(several, done, wanted, to_stderr=as_patch)
    if csv_file is not None:
        csv_file.write_text(as_csv(done), encoding="utf-8")
    if (as_patch or apply) and done[0].outcomes is not None:
        _patch(patch.of_outcomes(done[0].outcomes), apply=apply, shown=as_patch, stopped=several.stopped)
    if several.stopped:
        raise KeyboardInterrupt
    return int(any(one.failed for one in done))


def _check(asked: "tuple[Script, ...]", *, changes: bool, each_node: bool, where: str) -> None:
    """Raise BadUsage for what does not go together; `changes`: the script is to be changed, or a diff of it shown."""
    if (len(asked) > 1 or each_node) and changes:
        raise BadUsage("`--patch` and `--apply` change one script", hint="sweep it alone")
    if len(asked) > 1 and where:
        raise BadUsage("`--where` is a line of one script", hint="sweep it alone")
    if changes:
        patch.check()


def _in_cluster(
    address: str, share: TrialResources, asked: "tuple[Script, ...]", wishes: SweepOptions, *, each_node: bool
) -> tuple[Several, list[Done]]:
    """Sweep in a Ray cluster: each script on a node, or on every node. Raises GputuneError where there is none."""
    cluster = Cluster(clusters.connect(address), share, _tell)
    try:
        if not any(node.gpus for node in cluster.nodes):
            _tell("no node of the cluster has a GPU that trials may use: they run on CPUs")
        nodes = cluster.nodes if each_node else cluster.alike(cluster.nodes[0])
        pairs = [(script, node) for script in asked for node in nodes]
        if not each_node:
            pairs = [(script, nodes[place % len(nodes)]) for place, script in enumerate(asked)]
        jobs = [
            SweepJob(script=script, node=node.name, starter=partial(FarStarter, cluster=cluster, node=node))
            for script, node in pairs
        ]
        several = Several(jobs=jobs, wishes=wishes, side_by_side=True, leave=cluster.stopping.set)
        return several, several.run()
    finally:
        cluster.close()


def _show(several: Several, done: "list[Done]", wanted: _documents.Wanted, *, to_stderr: bool) -> None:
    """Print what was found: JSON, or a table of each and, of several, one of all."""
    for one in done:
        if one.error is not None:
            _tell(f"{one.job.name}: {one.error.args[0]} (hint: {one.error.hint})")
        elif one.sweep is not None:
            if not wanted.stdout:
                click.echo(result.words(one.sweep, one.job.name), err=to_stderr)
            if one.sweep.written:
                applied = f"gputune run --with {one.sweep.written} -- {' '.join(one.job.script.command[:2])} …"
                _tell(f"written to {one.sweep.written}: `{applied}`")
    if len(several.jobs) > 1 and not wanted.stdout:
        click.echo("\n" + summary(done), err=to_stderr)
    wanted.put(several_json(several, done))


def _patch(change: patch.Patch, *, apply: bool, shown: bool, stopped: bool) -> None:
    """Show the change and make it, as was asked; of a sweep that was ended it is not made: more was to be measured."""
    if shown:
        click.echo(change.diff, nl=False)
        if change.diff and change.base != Path.cwd():
            _tell(f"the difference is to be applied in {change.base}")
    if not apply:
        return
    if change.after == change.before:
        _tell(f"nothing to change in {change.file}")
    elif stopped:
        _tell(f"{change.file} stays as it is, for the sweep was ended: `--resume` goes on with it")
    else:
        change.write()
        _tell(f"changed {change.file}")


def _tell(text: str) -> None:
    click.echo(f"gputune: {text}", err=True)
