"""Tries what the rows promise, and writes docs/reliability.md: `python -m tests.faults [--full] [--only ROW]`.

Without `--full` the quick cases, anew. With it all of them, in turns of a minute a row, on from where it was stopped.
Ctrl-C ends what is being tried, and what was tried is kept.
"""

import argparse
import concurrent.futures
import itertools
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults import page
from tests.faults.ledger import Ledger
from tests.faults.row import NotHere, Row, names, row
from tests.faults.trying import ROOT, STOP, Result, results

PLACE = ROOT / ".venvs" / "faults"  # git ignores it
AT_ONCE = 6  # rows, on two cores: most of them wait for other processes most of the time
LONGEST = ("memory", "loaders", "death", "guest", "nvml", "hostile")  # minutes each: they are begun first
ALONG = "weeks"  # goes beside all others: begun before them, over after them
TURN = 60.0  # s of a row in a full run
PIECE = 20  # cases between two lines of the ledger
STOPPED = 130  # the status of who was stopped, as a shell tells it
ALOUD = 3  # failures of them that are said; the ledger has all


def main(arguments: list[str]) -> int:
    """Run the suite, and return 1 where a promise was broken."""
    options = _options().parse_args(arguments)
    chosen = [row(name) for name in (options.only.split(",") if options.only else names())]
    if options.case is not None:
        return _one(chosen, options.case)
    ledger = Ledger(PLACE / ("full" if options.full else "quick"))
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.full:
            _full(chosen, ledger, began + options.hours * 3600 if options.hours else float("inf"))
        else:
            for each in chosen:
                ledger.forget(each.name)
            _at_once(chosen, lambda each: _cases(each, range(each.quick), ledger))
    except KeyboardInterrupt:
        print("stopped", flush=True)
    failed = sum(len(ledger.told(each.name).failed) for each in chosen)
    page.write(Path(options.page), PLACE)
    print(f"{failed} failures, in {time.monotonic() - began:.0f} s: {options.page}", flush=True)
    return STOPPED if STOP.is_set() and not options.hours else int(failed > 0)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--hours", type=float, default=0, help="with --full: end after so long")
    parser.add_argument("--only", default="", help="rows, with commas")
    parser.add_argument("--case", type=int, help="one case of one row, with all that it says")
    parser.add_argument("--page", default=str(ROOT / "docs" / "reliability.md"))
    return parser


def _one(chosen: list[Row], case: int) -> int:
    """Try one case of each row, aloud."""
    broken = 0
    for each in chosen:
        try:
            for result in results(each, [case]):
                print(f"{each.name} {result.case}: {result.why or 'kept'}", flush=True)
                broken += bool(result.why)
                for kind in ("quick", "full"):
                    if not result.why and case in Ledger(PLACE / kind).told(each.name).failed:
                        Ledger(PLACE / kind).mend(each.name, case)
        except (NotHere, RuntimeError) as error:  # noqa: PERF203 - each row for itself
            print(f"{each.name} {case}: not tried: {error}", flush=True)
            broken += isinstance(error, RuntimeError)
    return 1 if broken else 0


def _at_once(rows: list[Row], run: Callable[[Row], None]) -> None:
    """Run rows side by side, those that take longest first, and one beside them all."""
    order = sorted(rows, key=lambda each: LONGEST.index(each.name) if each.name in LONGEST else len(LONGEST))
    with concurrent.futures.ThreadPoolExecutor(1) as beside, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            along = beside.map(run, [each for each in order if each.name == ALONG])
            list(pool.map(run, [each for each in order if each.name != ALONG]))
            list(along)
        except KeyboardInterrupt:
            STOP.set()
            raise


def _full(rows: list[Row], ledger: Ledger, until: float) -> None:
    """Go round the rows until all their cases were tried, or until the time is over."""
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        try:
            along = beside.map(
                lambda each: _turn(each, ledger, until, until), [each for each in rows if each.name == ALONG]
            )
            left = [each for each in rows if each.name != ALONG]
            while left and time.monotonic() < until:
                _at_once(left, lambda each: _turn(each, ledger, until))
                left = [each for each in left if 0 < ledger.told(each.name).next < each.full]
            if time.monotonic() >= until:
                STOP.set()
            list(along)
        except KeyboardInterrupt:
            STOP.set()
            raise


def _turn(each: Row, ledger: Ledger, until: float, turn: float = TURN) -> None:
    cases = range(ledger.told(each.name).next, each.full)
    _cases(each, cases, ledger, min(until, time.monotonic() + turn))


def _cases(each: Row, cases: range, ledger: Ledger, until: float | None = None) -> None:
    """Try cases of a row and put down what came of them, piece by piece."""
    began = time.monotonic()
    count = broken = 0
    cpu = 0.0
    try:
        found = results(each, cases, until)
        while piece := list(itertools.islice(found, min(PIECE, each.full // PIECE + 1))):
            ledger.put(each.name, piece)
            count += len(piece)
            cpu += sum(each.cpu for each in piece)
            broken += _say(each, piece)
    except NotHere as error:
        ledger.put(each.name, [], not_here=str(error))
        print(f"{each.name}: SKIPPED, {error}", flush=True)
        return
    except RuntimeError as error:
        ledger.put(each.name, [Result(cases.start, str(error))])
        broken += _say(each, [Result(cases.start, str(error))])
    took = f"{time.monotonic() - began:.0f} s, {cpu:.0f} of CPU"
    print(f"{each.name}: {count} cases, {broken} failures, {took}", flush=True)


def _say(each: Row, piece: list[Result]) -> int:
    broken = [result for result in piece if result.why]
    for result in broken[:ALOUD]:
        print(f"BROKEN {each.name} {result.case}: {result.why}", flush=True)
        print(f"       again with `make faults ONLY={each.name} CASE={result.case}`", flush=True)
    return len(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
