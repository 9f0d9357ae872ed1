"""The same tasks in a cluster: what is refused before anything starts, and a real one where Ray is installed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.sharing import onray
from gputune.sharing.farrefusals import NotWithRay, check
from gputune.sharing.fitting import Need, Probed, Room
from gputune.sharing.fractions import Portion, Whole
from gputune.sharing.spec import Spec, TaskSpec
from gputune.verdict.packed import ProcRow

TASK = str(Path(__file__).parent / "task.py")
JOB = TaskSpec(argv=("python", "train.py"), count=2)
GB = 10**9


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (Spec(jobs=(JOB,), gpus=("0",)), "`--gpu` does not go with `--ray`"),
        (Spec(jobs=(JOB,), mps="on"), "`--mps on` does not go with `--ray`"),
        (Spec(jobs=(TaskSpec(argv=("x",), weights=(1.0, 2.0)),)), "`--weights` does not go with `--ray`"),
        (Spec(jobs=(JOB,), own_dirs=True), "`--own-dirs` does not go with `--ray`"),
    ],
)
def test_what_a_cluster_decides_by_itself_is_refused(spec: Spec, says: str) -> None:
    with pytest.raises(NotWithRay, match=says):
        check(spec)


def row(index: int, rate: float | None, unit: str = "samples/s") -> ProcRow:
    return ProcRow(index=index, pid=1, exit_code=0, log="", wall_s=10.0, samples_per_s=rate, unit=unit)


def made(*rows: ProcRow, at_once: int, whole: Whole | None = None) -> Any:
    probed = Probed(need=Need(), room=Room(), rate=100.0, unit="samples/s")
    wish = Portion(gpu=0.5, cpus=1.0, memory=None, at_once=at_once)
    return onray.document(list(rows), probed, wish, whole or Whole(gpus=2.0))


def test_the_gain_is_what_all_do_over_what_one_alone_does() -> None:
    found = made(row(0, 90.0), row(1, 80.0), at_once=2)
    assert (found.together, found.alone, found.gain, found.at_once) == (170.0, 100.0, 1.7, 2)
    assert found.verdict.startswith("2 at once did 170 samples/s, one alone 100: x1.70")
    assert found.device == "2 GPUs of a cluster"


def test_where_they_took_turns_or_one_was_not_seen_nothing_is_summed() -> None:
    assert made(row(0, 90.0), row(1, 80.0), at_once=1).gain is None
    assert made(row(0, 90.0), row(1, None), at_once=2).together is None
    assert made(row(0, 90.0), row(1, 8.0, "batches/s"), at_once=2).together is None


def test_without_cards_that_is_said() -> None:
    assert "the cluster has no GPU" in made(row(0, 90.0), row(1, 90.0), at_once=2, whole=Whole(cpus=4.0)).verdict


def test_a_bad_address_is_one_sentence(share: Callable[..., Any]) -> None:
    done = share("--ray", "nowhere", "--procs", "2", TASK)
    assert (done.returncode, "is no address of a Ray cluster" in done.stderr) == (2, True), done.stderr
    assert not Path("gputune-runs").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_cluster_runs_them_with_what_one_needed(
    tmp_path: Path, ray_cluster: Callable[..., str], share: Callable[..., Any]
) -> None:
    address = ray_cluster({"num_cpus": 2}, {"num_cpus": 1})
    run = ("--ray", address, "--trial", "2s", "--json", "--procs", "3", TASK, "--steps", "400", "--idle", "0.01")
    done = share(*run)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [proc["exit_code"] for proc in found["procs"]] == [0, 0, 0]
    assert all(proc["samples_per_s"] > 0 and proc["host_memory"] > 0 for proc in found["procs"])
    assert found["gain"] > 1.5, found
    assert "the cluster has no GPU" in found["verdict"]
    assert "3 of 3 run at once" in done.stderr
    for number in range(3):
        text = Path(found["procs"][number]["log"]).read_text()
        assert text.strip(), done.stderr
    assert json.loads(next(tmp_path.glob("gputune-runs/*/share.json")).read_text())["gain"] == found["gain"]

    failing = share(
        "--ray", address, "--trial", "2s", "--json", "--on-failure", "stop", "--procs", "2", TASK, "--steps", "4000",
        "--idle", "0.01", "--crash-at", "3", "--only", "1",
    )  # fmt: skip
    assert failing.returncode not in {0, 2}, failing.stderr
    states = {proc["index"]: proc["exit_code"] for proc in json.loads(failing.stdout)["procs"]}
    assert states[1] == failing.returncode
    assert states[0] not in {0, None}
    assert "the others are ended, too" in failing.stderr

    deaf = share("--ray", address, "--trial", "2s", "--procs", "2", TASK, "--deaf")
    assert (deaf.returncode, "--no-index-args" in deaf.stderr) == (2, True), deaf.stderr
    assert not any("Traceback" in each.stderr for each in (done, failing, deaf))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_real_fractions_come_from_what_one_takes_of_a_simulated_card(
    simgpu: Callable[..., Any], ray_cluster: Callable[..., str], share: Callable[..., Any]
) -> None:
    cards = simgpu(devices=2)
    cards.set(memory_total=80 * GB, memory_reserved=0)
    address = ray_cluster({"num_cpus": 2, "num_gpus": 2})
    step = ("--kernel", "0.004", "--idle", "0.016", "--batch", "4")
    run = ("--ray", address, "--trial", "3s", "--json")
    done = share(*run, "--procs", "4", TASK, *step, "--memory", str(10 * GB), "--steps", "500")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "one takes 10.5 GB" in done.stderr, done.stderr
    assert "each asks for 0.5 of a GPU" in done.stderr
    assert all(proc["device_memory"] > 10 * GB for proc in found["procs"]), found
    assert (found["device"], found["at_once"]) == ("2 GPUs of a cluster", 4)
    assert found["gain"] > 1.5, found

    whole = share(*run, "--procs", "5", TASK, *step, "--memory", str(35 * GB), "--steps", "2000")
    assert whole.returncode == 2, whole.stderr
    assert "5 copies do not fit on the 2 GPUs of the cluster: one takes 35.5 GB" in whole.stderr
    assert "2 on each" in whole.stderr
    said = share("--ray", address, "--trial", "0", "--memory", "50GB", "--procs", "3", TASK, *step, "--steps", "20")
    assert (said.returncode, "1 on each" in said.stderr) == (2, True), said.stderr
    unsaid = share("--ray", address, "--trial", "0", "--procs", "3", TASK, *step)
    assert (unsaid.returncode, "say it, like `--memory 6GB`" in unsaid.stderr) == (2, True), unsaid.stderr
