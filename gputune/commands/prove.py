"""Run a script again, for a few dozen batches, to see whether a predicted speed-up holds.

RUN is a recorded run, FINDING the id of one of its findings (`top`: the best, which is the default). The script runs
with the change and without it, in turn, as fresh processes, with all that it does and writes; its output goes to logs
in the run's folder. Without --ceiling, --cache and --against, gputune sets what the finding proposes as the loader is
built; a finding whose change is one of the code says so, and how to compare two runs. Of one whose change is partly
that only the settings are made, and held against what is predicted of these alone, if anything is.

Where secrets were left out of the recorded command, give it again: `gputune prove RUN ID -- CMD`.

Status: 0 the prediction held, 3 it did not.

Example: gputune prove gputune-runs/20261121-100106-train few-workers
"""

from pathlib import Path

import click

from gputune.commands import _documents
from gputune.core import opening
from gputune.core.errors import TOO_LOW, BadUsage
from gputune.experiment.living import end_with_us
from gputune.proving import against as recorded
from gputune.proving import ceilings, changing, proof
from gputune.proving.asked import BEST, asked, runnable
from gputune.proving.changing import Effort
from gputune.proving.proof import Proof
from gputune.recording import lean
from gputune.verdict.document import to_json


@click.command(
    short_help="whether a predicted speed-up holds", help=__doc__, context_settings={"allow_interspersed_args": True}
)
@click.argument("run", type=click.Path(path_type=Path, readable=False))
@click.argument("finding", required=False)
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--against", metavar="RUN", help="Compare with a recording made after, or several: a folder of them, or a label."
)
@click.option("--ceiling", is_flag=True, help="Replay one batch: what faster loading could bring at most.")
@click.option(
    "--cache",
    type=click.Choice(["warm", "cold"]),
    help="Run with the files in memory: against a first pass (warm), or against dropped ones (cold).",
)
@click.option("--pairs", type=click.IntRange(1, 50), help="Pairs of trials.  [default: 2, up to 4 where they differ]")
@click.option(
    "--batches",
    type=click.IntRange(10, 100_000),
    help="Batches timed in each trial.  [default: 40; up to 400 where their times vary]",
)
@_documents.options("prove", "Print the proof as JSON.")
def command(  # noqa: PLR0913 - one parameter an option: click's way
    *,
    run: Path,
    finding: str | None,
    cmd: tuple[str, ...],
    against: str | None,
    ceiling: bool,
    cache: str | None,
    pairs: int | None,
    batches: int | None,
    wanted: _documents.Wanted,
) -> int:
    if sum((against is not None, ceiling, cache is not None)) > 1:
        raise BadUsage("`--against`, `--ceiling` and `--cache` are three proofs", hint="ask for one of them at a time")
    if cache == ceilings.WARM and pairs not in {None, 1}:
        raise BadUsage(
            "`--cache warm` has one pair of trials: files are read for the first time only once",
            hint=f"`--cache cold --pairs {pairs}` drops them from memory again for each pair",
        )
    lean()
    what = asked(opening.given(run), cmd)
    end_with_us()
    if against is not None:
        chosen = what.finding(finding) if finding else None
        return _show(recorded.against(what, against, chosen), wanted)
    what = runnable(what)
    effort = Effort(pairs=pairs, batches=batches, tell=_tell)
    if ceiling:
        made = ceilings.ceiling(what, ceilings.about_loading(what, finding), effort)
    elif cache:  # what files cost is held against a finding only where that is asked
        made = ceilings.cache(what, ceilings.about_reading(what, finding, cache), cache, effort)
    else:
        made = changing.prove(what, what.finding(finding or BEST), effort)
    return _show(made, wanted)


def _tell(text: str) -> None:
    click.echo(f"gputune: {text}", err=True)


def _show(made: Proof, wanted: _documents.Wanted) -> int:
    proof.keep(made)
    if not wanted.stdout:
        click.echo(proof.words(made))
    wanted.put(to_json(made))
    return 0 if made.held else TOO_LOW
