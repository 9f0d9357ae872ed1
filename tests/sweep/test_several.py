"""Several sweeps: each leaves the others alone, one after the other here, side by side in a cluster."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gputune.core.errors import BadUsage, GputuneError
from gputune.experiment.measured import gain
from gputune.experiment.script import Script, scripts_of
from gputune.features import Loader
from gputune.sweep import several, sweeping
from gputune.sweep.choosing import SettingStats
from gputune.sweep.journal import begun
from gputune.sweep.limits import Limits
from gputune.sweep.result import Outcomes
from gputune.sweep.search import Found
from gputune.sweep.settings import setting
from gputune.sweep.several import Several, SweepJob, as_csv, as_json, summary
from gputune.sweep.sweeping import SweepOptions

OWN, BEST = (setting(n, 2, pin_memory=False, persistent=False, batch_size=16) for n in (0, 4))


def outcomes(folder: str) -> Outcomes:
    """A sweep that found four workers to be three times as fast."""
    own, best = (SettingStats(setting=s, noise=0.01, visits=[[rate] * 10]) for s, rate in ((OWN, 100.0), (BEST, 300.0)))
    loader = Loader(
        where="a.py:9", num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False, batch_size=16
    )
    return Outcomes(
        script="a.py", loader=loader, baseline=own, best=best, gain=gain(own, best),
        found=Found(predicted={}, all_stats={OWN: own, BEST: best}), folder=folder, seconds=1.0, starts=2,
        limits=Limits(workers=8, batches=1e9, memory=None, worker=1, batch=1, script=OWN),
    )  # fmt: skip


def several_of(monkeypatch: pytest.MonkeyPatch, sweep, *names: str, **more) -> Several:
    monkeypatch.setattr(several, "sweep", sweep)
    jobs = [SweepJob(script=Script(command=("python", f"{name}.py"), cwd="/")) for name in names]
    return Several(jobs=jobs, wishes=SweepOptions(script=jobs[0].script, **more))


def swept(wishes: SweepOptions) -> Outcomes:
    if wishes.script.name == "bad.py":
        raise GputuneError("no DataLoader was iterated", hint="see its log")
    Path(wishes.out or ".").mkdir(exist_ok=True)
    return outcomes(wishes.out or ".")


@pytest.mark.parametrize("side_by_side", [False, True])
def test_one_that_fails_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side_by_side: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    these = several_of(monkeypatch, swept, "a", "bad", "c", out=str(tmp_path / "all"), write=Path("gputune.toml"))
    these.side_by_side = side_by_side
    done = these.run()
    assert [one.error is None for one in done] == [True, False, True]
    assert [len(file.read_text().splitlines()) for file in sorted(tmp_path.glob("all/*/trials.csv"))] == [3, 3]
    made = json.loads(as_json(these, done))
    assert [(row["script"], row["error"], row["sweep"] is None) for row in made["sweeps"]] == [
        ("a.py", "", False), ("bad.py", "no DataLoader was iterated", True), ("c.py", "", False),
    ]  # fmt: skip
    assert made["folder"] == str(tmp_path / "all")
    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("all/*/trials.csv")} == {0o600}
    assert len(as_csv(done).splitlines()) == 5
    lines = summary(done).splitlines()
    assert lines[0].split() == ["script", "best", "samples/s"]
    assert "num_workers=4, prefetch_factor=2" in lines[1]
    assert "×3" in lines[1]
    assert "no DataLoader" in lines[2]


def test_each_has_a_folder_and_settings_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[SweepOptions] = []

    def sweep(wishes: SweepOptions) -> Outcomes:
        seen.append(wishes)
        return swept(wishes)

    these = several_of(monkeypatch, sweep, "a", "a", out=str(tmp_path / "all"), write=Path("gputune.toml"))
    these.run()
    assert [Path(str(wishes.out)).name for wishes in seen] == ["a", "a-2"]
    assert all(wishes.inside for wishes in seen)


def test_one_alone_is_as_it_ever_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    these = several_of(monkeypatch, swept, "a", out="here", write=Path("gputune.toml"))
    done = these.run()
    assert json.loads(as_json(these, done))["best"]["num_workers"] == 4
    assert not done[0].outcomes.written
    with pytest.raises(GputuneError, match="no DataLoader"):
        several_of(monkeypatch, swept, "bad").run()
    alone = several_of(monkeypatch, swept, "bad")
    alone.side_by_side = True
    with pytest.raises(GputuneError, match="no DataLoader"):
        alone.run()


def test_a_ctrl_c_begins_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sweep(wishes: SweepOptions) -> Outcomes:
        found = swept(wishes)
        found.stopped = True
        return found

    these = several_of(monkeypatch, sweep, "a", "b", "c", out=str(tmp_path / "all"))
    assert (len(these.run()), these.stopped) == (1, True)


def test_several_commands_are_quoted_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    found = scripts_of(("python3 a.py --x '1 2'", "--", "b.py --y"), None, "python3")
    assert [script.command for script in found] == [("python3", "a.py", "--x", "1 2"), ("python3", "b.py", "--y")]
    assert [script.command for script in scripts_of(("python3 a.py",), None, "python3")] == [("python3", "a.py")]
    (one,) = scripts_of(("a.py", "--", "--z"), None, "python3")
    assert one.command == ("python3", "a.py", "--", "--z")
    with pytest.raises(BadUsage, match="is no command"):
        scripts_of(("python3 'a.py", "--", "b.py --y"), None, "python3")


def test_a_ctrl_c_before_anything_was_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(_: SweepOptions) -> Outcomes:
        raise KeyboardInterrupt

    told: list[str] = []
    these = several_of(monkeypatch, ended, "a", tell=told.append)
    with pytest.raises(KeyboardInterrupt):
        these.run()
    assert told == ["it was ended before anything was measured: nothing was written"]


def begun_as(wishes: SweepOptions, folder: Path) -> None:
    """Leave what is left of a sweep that was killed as it began."""
    folder.mkdir(parents=True, exist_ok=True)
    begun(folder, sweeping._key(wishes))


@pytest.mark.parametrize("out", [None, "all"], ids=["the last ones", "those in a folder"])
def test_resumed_after_the_first_was_killed_the_others_begin_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[SweepOptions] = []

    def sweep(wishes: SweepOptions) -> Outcomes:
        seen.append(wishes)
        journal = sweeping._journal(wishes)
        return outcomes(str(journal.folder))

    these = several_of(monkeypatch, sweep, "a", "b", out=out, resume=True)
    whole = tmp_path / (out or "gputune-runs/20260101-000000-sweeps")
    begun_as(these._wishes(these.jobs[0]), whole / "a")
    done = these.run()
    assert [one.error for one in done] == [None, None]
    assert [(wishes.script.name, wishes.resume) for wishes in seen] == [("a.py", True), ("b.py", False)]
    assert [Path(one.outcomes.folder) for one in done] == [whole.resolve() / "a", whole.resolve() / "b"]
    seen.clear()
    again = several_of(monkeypatch, sweep, "a", "b", out=out, resume=True)
    assert [Path(one.outcomes.folder) for one in again.run()] == [whole.resolve() / "a", whole.resolve() / "b"]
    assert [wishes.resume for wishes in seen] == [True, True]


def test_beside_a_sweep_of_one_script_the_others_get_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    these = several_of(monkeypatch, lambda wishes: outcomes(str(sweeping._journal(wishes).folder)), "a", "b")
    these.wishes = replace(these.wishes, resume=True)
    begun_as(these._wishes(these.jobs[0]), tmp_path / "gputune-runs" / "20260101-000000-a")
    first, second = (Path(one.outcomes.folder) for one in these.run())
    assert first.name == "20260101-000000-a"
    assert (second.name, second.parent.parent) == ("b", first.parent)


def test_where_none_had_begun_each_says_that_there_is_nothing_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    these = several_of(monkeypatch, sweeping._journal, "a", "b", resume=True)
    done = these.run()
    assert ["to go on with" in str(one.error) for one in done] == [True, True]
    assert not (tmp_path / "gputune-runs").exists()
