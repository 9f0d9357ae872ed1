"""Run by an interpreter that has optuna and ray: `sweep_rivals.py FOLDER SECONDS CELLS` searches for so long with each.

A trial is a start of the workload with one setting, as somebody who uses these tools would write it; ASHA sees a rate a
second and may stop a trial. What they need to start themselves does not count. Prints a line of JSON: rival to choice.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
LONG, SHORT = 1.5, 0.5  # s of timed batches: of a trial, and of each look of ASHA
Cell = dict[str, int]


def rate(folder: str, cell: Cell, seconds: float) -> float:
    """Return samples/s of one start."""
    command = [sys.executable, str(HERE / "sweep_cell.py"), str(seconds)]
    done = subprocess.run(command, input=json.dumps(cell), cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout)["rate"])


def tpe(folder: str, seconds: float, cells: list[Cell]) -> tuple[Cell, int]:
    """Return what Optuna's TPE found best, and its trials."""
    import optuna  # noqa: PLC0415 - a rival

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    workers, prefetches = (sorted({cell[name] for cell in cells}) for name in ("num_workers", "prefetch_factor"))

    def objective(trial: "optuna.Trial") -> float:
        cell = {
            "num_workers": trial.suggest_categorical("num_workers", workers),
            "prefetch_factor": trial.suggest_categorical("prefetch_factor", prefetches),
        }
        return rate(folder, cell, LONG)

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(objective, timeout=seconds)
    return dict(study.best_params), len(study.trials)


def asha(folder: str, seconds: float, cells: list[Cell]) -> tuple[Cell, int]:
    """Return what Ray Tune's ASHA found best, one trial at a time, and its trials."""
    import ray  # noqa: PLC0415 - a rival
    from ray import tune  # noqa: PLC0415 - as above
    from ray.tune.schedulers import ASHAScheduler  # noqa: PLC0415 - as above

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    def trainable(config: Cell) -> None:
        for _ in range(3):
            tune.report({"rate": rate(folder, dict(config), SHORT)})

    tuner = tune.Tuner(
        trainable,
        param_space={
            name: tune.choice(sorted({cell[name] for cell in cells})) for name in ("num_workers", "prefetch_factor")
        },
        tune_config=tune.TuneConfig(
            metric="rate", mode="max", num_samples=-1, time_budget_s=seconds, scheduler=ASHAScheduler(max_t=3)
        ),
        run_config=tune.RunConfig(verbose=0),
    )
    found = tuner.fit()
    ray.shutdown()
    return dict(found.get_best_result().config), len(found)


def main() -> None:
    """Let each search."""
    folder, seconds, cells = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
    results = {}
    searches: dict[str, Callable[[str, float, list[Cell]], tuple[Cell, int]]] = {"TPE": tpe, "ASHA": asha}
    for name, search in searches.items():
        began = time.monotonic()
        try:
            settings, trials = search(folder, seconds, cells)
        except ImportError as error:
            print(f"{name} is not there: {error}", file=sys.stderr)
            continue
        except (RuntimeError, ValueError) as error:  # no trial came to its end in the time
            print(f"{name}: {error}", file=sys.stderr)
            continue
        results[name] = {"settings": settings, "trials": trials, "seconds": time.monotonic() - began}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
