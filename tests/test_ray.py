"""The callback for Ray Tune: what is told of a trial, where its recording goes, and a real Tune where there is one."""

import importlib.util
import pickle
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from gputune import ray as ours
from gputune.ray import KEY, NAMES, TrialRecorder, kept, told_of
from gputune.verdict.document import Verdict

FINDING = {
    "id": "few-workers", "severity": "high", "share_lost": 0.5, "speedup": {"low": 1.5, "likely": 2.0, "high": 2.2},
    "says": "it waits", "do": "num_workers=4", "where": "a.py:1", "change": {}, "evidence": {}, "basis": "",
    "falsified_by": "", "effect": "same-order",
}  # fmt: skip


def verdict(**differs: object) -> Verdict:
    plain: dict[str, object] = {
        "command": ["x"], "exit_code": None, "wall_s": 9.0, "samples_per_s": 80.0, "batches": 50,
        "device": {"name": "sim", "busy": 0.4}, "loaders": [],
        "ledger": [{"span": n, "seconds": 1.0, "share": s} for n, s in (("startup", 0.5), ("loader.wait", 0.275))],
        "findings": [FINDING], "overhead": {"sampler_cpu_share": None, "guest_us_per_batch": None}, "unavailable": [],
    }  # fmt: skip
    return msgspec.convert({**plain, **differs}, Verdict)


def test_a_trial_is_told_its_device_use_and_its_top_finding() -> None:
    told = told_of(verdict())
    assert (told["device_busy"], told["waiting"], told["finding"], told["speedup"]) == (0.4, 0.55, "few-workers", 2.0)
    assert told.keys() <= set(NAMES)


def test_what_was_not_measured_is_none_and_a_healthy_trial_has_no_finding() -> None:
    told = told_of(verdict(device={"name": None, "busy": None}, findings=[], ledger=[]))
    assert (told["device_busy"], told["finding"], told["waiting"]) == (None, None, None)


def test_recordings_stay_in_their_folder(tmp_path: Path) -> None:
    place = kept(tmp_path, "train_1a2b_00000", {"run.json": b"{}", "samples/00002.parquet": b"x", "../../evil": b"y"})
    assert sorted(str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()) == [
        "train_1a2b_00000/run.json", "train_1a2b_00000/samples/00002.parquet",
    ]  # fmt: skip
    assert place == tmp_path / "train_1a2b_00000"
    assert (place / "run.json").stat().st_mode & 0o777 == 0o600


def test_each_result_has_the_same_columns_from_the_first_one_on() -> None:
    result: dict[str, object] = {"loss": 1.0}
    TrialRecorder().on_trial_result(0, [], SimpleNamespace(trial_id="t"), result)
    assert result[KEY] == dict.fromkeys(NAMES)


def test_what_fails_is_said_once_and_the_trials_go_on(capfd: pytest.CaptureFixture[str]) -> None:
    callback = TrialRecorder()
    callback._folder = Path("/nowhere")
    for _ in range(3):
        callback.on_trial_start(0, [], SimpleNamespace(trial_id="t"))  # it has no actor, nor anything else
    assert capfd.readouterr().err.count("a trial is not recorded") == 1


def test_it_is_kept_without_its_handles() -> None:
    again = pickle.loads(pickle.dumps(TrialRecorder("there", stacks=True)))
    assert (again._wish, again._stacks, again._hosts) == ("there", True, {})


def test_without_ray_the_extra_is_named() -> None:
    if importlib.util.find_spec("ray") is not None:
        pytest.skip("Ray is installed here")
    with pytest.raises(ImportError, match=r"gputune\[ray\]"):
        _ = ours.RecordTrials
    with pytest.raises(AttributeError):
        _ = ours.Nothing


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_real_trials_are_recorded_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_cluster) -> None:
    monkeypatch.chdir(tmp_path)
    address = ray_cluster({"num_cpus": 2})
    import ray
    from ray import tune

    def train(config: dict[str, float]) -> None:
        import time

        import torch
        from torch.utils.data import DataLoader, Dataset

        class Slow(Dataset):
            def __len__(self) -> int:
                return 100000

            def __getitem__(self, i: int) -> "torch.Tensor":
                time.sleep(config["sleep"])
                return torch.tensor(float(i % 7))

        torch.set_num_threads(1)
        weight = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for number, batch in enumerate(DataLoader(Slow(), batch_size=4)):
            loss = ((weight - batch) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.005)
            if number % 200 == 199:
                tune.report({"loss": float(loss)})
            if number >= 400:
                return

    ray.init(address=address, log_to_driver=False)
    tuner = tune.Tuner(
        train,
        param_space={"sleep": tune.grid_search([0.003, 0.0])},
        tune_config=tune.TuneConfig(max_concurrent_trials=1),
        run_config=tune.RunConfig(callbacks=[ours.RecordTrials()], verbose=0, storage_path=str(tmp_path / "results")),
    )
    results = tuner.fit()
    told = {result.config["sleep"]: result.metrics[KEY] for result in results}
    assert all(result.error is None for result in results)
    assert told[0.003]["finding"] == "few-workers", told
    assert told[0.003]["waiting"] > max(0.2, told[0.0]["waiting"])
    assert told[0.0]["finding"] != "few-workers", told
    assert all(300 < each["batches"] <= 401 for each in told.values()), told
    assert all((Path(each["recording"]) / "findings.json").exists() for each in told.values())
    assert {"gputune/finding", "gputune/device_busy"} <= set(results.get_dataframe().columns)
