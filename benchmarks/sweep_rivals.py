"""Run by an interpreter with optuna and ray: `sweep_rivals.py FOLDER SECONDS TIMED CELLS` lets each search so long.

A trial is a start of the workload with one setting, as somebody who uses these tools would write it, which times its
batches for TIMED s. ASHA is told the rate three times on the way, and may stop a trial. What they need to start
themselves does not count. Prints a line of JSON: rival to choice, which is empty where no trial ended in the time.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
LOOKS = 3  # of ASHA at a trial
Cell = dict[str, int]
Search = Callable[[str, float, float, Sequence[Cell]], tuple[Cell, int]]


def rates(folder: str, cell: Cell, seconds: float, looks: int = 1) -> Iterator[float]:
    """Yield the samples/s of one start, after each look."""
    command = [sys.executable, str(HERE / "sweep_cell.py"), str(seconds / looks)]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write((json.dumps(cell) + "\n") * looks)
        process.stdin.close()
        for line in process.stdout:
            yield float(json.loads(line)["rate"])
    if process.returncode:
        raise RuntimeError(f"a trial left with status {process.returncode}")


def tpe(folder: str, seconds: float, timed: float, cells: Sequence[Cell]) -> tuple[Cell, int]:
    """Return what Optuna's TPE found best, and its trials."""
    import optuna  # noqa: PLC0415 - a rival

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    workers, prefetches = (sorted({cell[name] for cell in cells}) for name in ("num_workers", "prefetch_factor"))

    def objective(trial: "optuna.Trial") -> float:
        cell = {
            "num_workers": trial.suggest_categorical("num_workers", workers),
            "prefetch_factor": trial.suggest_categorical("prefetch_factor", prefetches),
        }
        return next(rates(folder, cell, timed))

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(objective, timeout=seconds)
    return dict(study.best_params), len(study.trials)


def asha(folder: str, seconds: float, timed: float, cells: Sequence[Cell]) -> tuple[Cell, int]:
    """Return what Ray Tune's ASHA found best, one trial at a time, and how many had a rate to tell."""
    import ray  # noqa: PLC0415 - a rival
    from ray import tune  # noqa: PLC0415 - as above
    from ray.tune.schedulers import ASHAScheduler  # noqa: PLC0415 - as above

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    def trainable(config: Cell) -> None:
        for rate in rates(folder, dict(config), timed, LOOKS):
            tune.report({"rate": rate})

    kept = tempfile.mkdtemp()
    tuner = tune.Tuner(
        trainable,
        param_space={
            name: tune.choice(sorted({cell[name] for cell in cells})) for name in ("num_workers", "prefetch_factor")
        },
        tune_config=tune.TuneConfig(
            metric="rate",
            mode="max",
            num_samples=-1,
            time_budget_s=seconds,
            reuse_actors=True,
            scheduler=ASHAScheduler(max_t=LOOKS),
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=kept),
    )
    found = tuner.fit()
    ray.shutdown()
    shutil.rmtree(kept, ignore_errors=True)
    had_a_look = [result for result in found if result.metrics and "rate" in result.metrics]  # the others only waited
    return dict(found.get_best_result().config), len(had_a_look)


def main() -> None:
    """Let each search."""
    folder, seconds, timed, cells = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4])
    results = {}
    searches: dict[str, Search] = {"TPE": tpe, "ASHA": asha}
    for name, search in searches.items():
        began = time.monotonic()
        try:
            settings, trials = search(folder, seconds, timed, cells)
        except ImportError as error:
            print(f"{name} is not there: {error}", file=sys.stderr)
            continue
        except (RuntimeError, ValueError) as error:  # no trial came to its end in the time
            print(f"{name}: {error}", file=sys.stderr)
            settings, trials = {}, 0
        results[name] = {"settings": settings, "trials": trials, "seconds": time.monotonic() - began}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
