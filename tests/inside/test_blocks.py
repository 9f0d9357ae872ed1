"""`gputune.watch` in scripts: the training is as it would have been, the verdict comes whatever the block does."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gputune
from gputune.inside.blocks import watch
from tests.inside.conftest import TRAINING, Script, plain


def verdict(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "findings.json").read_text()))


def test_options_that_cannot_be_are_refused_at_once(tmp_path: Path) -> None:
    for wrong in ({"hz": 0}, {"hz": 101}, {"price": -1}, {"perturb": 0.5}):
        with pytest.raises(gputune.BadUsage):
            watch(**wrong)  # type: ignore[call-overload]
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(gputune.BadUsage), watch(tmp_path / "taken"):
        pytest.fail("the block has begun")


def test_losses_are_bit_for_bit_those_without_and_each_block_is_a_run(script: Script, tmp_path: Path) -> None:
    done = script("""
        import json, os, gputune
        bare = train()
        before = dict(os.environ)
        loader = DataLoader(Slow(), batch_size=4, shuffle=True)
        folders = []
        for out in ("one", "two"):
            with gputune.watch(out, quiet=True) as run:
                assert run.verdict is None
                assert train(loader) == bare
            folders.append(str(run.folder))
            assert run.verdict.batches == 60, run.said
            assert run.said.startswith("gputune: ") and not run.why
        assert train(loader) == bare
        assert dict(os.environ) == before, dict(os.environ).items() ^ before.items()
        print(json.dumps(folders))
    """)
    assert done.stderr == ""
    assert json.loads(done.stdout) == [str(tmp_path / "one"), str(tmp_path / "two")]
    for name in ("one", "two"):
        found = verdict(tmp_path / name)
        assert [row["where"] for row in found["loaders"]] == ["own.py:18"], (
            name
        )  # built before, so the line that iterates it; type: ignore[attr-defined] # a list
        assert found["processes"][0]["optimizer_steps"] == 60, name  # type: ignore[index] # likewise


@pytest.mark.parametrize("workers", [0, 2])
def test_the_middle_of_an_epoch_is_counted_by_itself(script: Script, workers: int) -> None:
    script(f"""
        import gputune  # beside train(), which is left alone
        run = gputune.watch(quiet=True)
        for number, batch in enumerate(DataLoader(Slow(), batch_size=4, num_workers={workers})):
            if number in (10, 40):
                run.start()
            if number in (30, 50):
                run.stop()
                (loader,) = run.verdict.loaders
                assert loader.batches == run.verdict.batches == (20 if number == 30 else 10), run.said
                assert (loader.where, loader.num_workers, loader.batch_size) == ("own.py:28", {workers}, 4), loader
    """)


def test_it_says_what_it_found_on_stderr_and_leaves_stdout_alone(script: Script) -> None:
    done = script("""
        import gputune
        @gputune.watch
        def main():
            train()
            print("theirs")
        main()
    """)
    assert done.stdout == "theirs\n"
    assert "60 batches" in done.stderr
    assert " gputune-runs/" in done.stderr  # what may come next: to prove a finding, or to see the verdict again
    assert "-own" in done.stderr  # as the script is called


def test_an_error_is_the_users_own_and_unchanged(script: Script, tmp_path: Path) -> None:
    script("""
        import gputune, traceback
        mine = KeyError("mine")
        try:
            with gputune.watch("run", quiet=True) as run:
                raise mine
        except KeyError as error:
            assert error is mine and error.__context__ is None and error.__cause__ is None
            assert len(traceback.extract_tb(error.__traceback__)) == 1
        assert run.said and run.verdict is not None
    """)
    assert (tmp_path / "run" / "findings.json").is_file()


def test_an_interrupted_block_has_its_verdict_all_the_same(script: Script) -> None:
    script("""
        import gputune, os, signal
        try:
            with gputune.watch(quiet=True) as run:
                os.kill(os.getpid(), signal.SIGINT)
                raise AssertionError
        except KeyboardInterrupt as error:
            assert error.__context__ is None
        assert run.said, run.why
    """)


def test_a_watch_inside_of_a_watch_gives_way_and_both_say_so(script: Script) -> None:
    done = script("""
        import gputune
        with gputune.watch() as outer:
            with gputune.watch() as inner:
                train()
        assert inner.folder is None and inner.verdict is None and inner.findings == []
        assert outer.verdict.batches == 60
    """)
    assert done.stderr.count("this `gputune.watch` records nothing: another one records this process already\n") == 1
    assert done.stderr.count("in the script recorded nothing: this watch around it does\n") == 1


def test_under_gputune_watch_it_gives_way_and_both_say_so(script: Script, tmp_path: Path) -> None:
    around = (sys.executable, "-m", "gputune", "watch", "--out", str(tmp_path / "run"), "--")
    done = script("import gputune\nwith gputune.watch():\n    train()\n", before=around)
    assert done.stderr.count("this `gputune.watch` records nothing: the watch around it does") == 1
    assert done.stderr.count("in the script recorded nothing: this watch around it does\n") == 1
    assert verdict(tmp_path / "run")["batches"] == 60
    assert not (tmp_path / "gputune-runs").exists()


def test_a_thread_may_begin_it_and_another_end_it(script: Script) -> None:
    script("""
        import gputune, threading
        run = gputune.watch(quiet=True)
        thread = threading.Thread(target=run.start)
        thread.start()
        thread.join()
        train()
        run.stop()
        run.stop()
        assert run.verdict.batches == 60, run.said + run.why
    """)


def test_in_a_forked_child_the_block_of_the_parent_ends_without_a_word(script: Script) -> None:
    done = script("""
        import gputune, os
        with gputune.watch() as run:
            child = os.fork()
            if not child:
                with gputune.watch() as own:
                    assert own.folder is None
        if not child:
            os._exit(0 if run.verdict is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert run.verdict is not None
    """)
    assert done.stderr.count("\ngputune: python own.py") == 1


def test_it_is_no_child_that_a_script_would_wait_for(script: Script) -> None:
    script("""
        import gputune, os
        with gputune.watch(quiet=True) as run:
            try:
                os.wait()
                raise AssertionError
            except ChildProcessError:
                pass
        assert run.said
    """)


def test_coroutines_and_generators_are_recorded_to_their_end(script: Script) -> None:
    script("""
        import asyncio, inspect, pathlib, gputune
        @gputune.watch(quiet=True)
        async def answer(a: int, *, b: int = 2) -> int:
            await asyncio.sleep(0)
            return a + b
        @gputune.watch(quiet=True)
        def numbers():
            got = yield 1
            return got
        assert asyncio.run(answer(1)) == 3
        assert str(inspect.signature(answer)) == "(a: int, *, b: int = 2) -> int"
        made = numbers()
        assert next(made) == 1
        try:
            made.send("sent")
        except StopIteration as end:
            assert end.value == "sent"
        assert len(list(pathlib.Path("gputune-runs").glob("*-own*"))) == 2
    """)


def test_where_no_folder_can_be_made_the_verdict_says_so(script: Script, tmp_path: Path) -> None:
    (tmp_path / "gputune-runs").touch()
    done = script("import gputune\nwith gputune.watch() as run:\n    train()\nassert run.folder is None\n")
    assert "60 batches" in done.stderr
    assert "nothing was recorded: `gputune-runs` cannot be written" in done.stderr


def test_files_of_the_user_named_like_a_library_are_theirs_alone(script: Script, tmp_path: Path) -> None:
    for name in ("msgspec", "psutil", "pyarrow", "statistics", "queue"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('the own file of somebody')\n")
    script("""
        import gputune, pathlib
        with gputune.watch(quiet=True) as run:
            pass
        assert run.said and (run.folder / "findings.json").is_file()
    """)


def test_a_process_that_ends_without_a_word_leaves_a_finished_recording(
    script: Script, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    done = script("import gputune, os\ngputune.watch('run').start()\ntrain()\nos._exit(3)\n", status=3)
    assert done.stderr == ""
    eventually(lambda: json.loads((tmp_path / "run" / "run.json").read_text())["finished"])
    assert gputune.load(tmp_path / "run").verdict.batches == 60


def test_a_page_is_left_where_it_is_asked_for(script: Script, tmp_path: Path, eventually: Callable[..., None]) -> None:
    script("import gputune\nwith gputune.watch('run', html=True):\n    train()\n")
    eventually((tmp_path / "run" / "report.html").exists)
    assert (tmp_path / "run" / "report.html").read_text().startswith("<!doctype html>")


def test_what_is_not_stopped_is_stopped_as_python_ends(script: Script) -> None:
    assert "gputune: python own.py" in script("import gputune\ngputune.watch().start()\n").stderr


def test_a_process_that_may_not_be_looked_into_has_its_verdict(script: Script) -> None:
    script("""
        import ctypes, gputune
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
        with gputune.watch(quiet=True) as run:
            train()
        assert run.verdict.batches == 60, run.said + run.why
    """)


@pytest.mark.slow
def test_ranks_of_a_job_are_one_run_and_the_lowest_speaks(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        TRAINING + "import gputune\nwith gputune.watch() as run:\n    train()\nprint(run.folder)\n"
    )
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29999", "TORCHELASTIC_RUN_ID": "one"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "own.py"], cwd=tmp_path, env={**plain(), **job, "RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    said = [rank.communicate(timeout=200) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "120 batches" in said[0][1]
    assert said[1][1] == ""
    assert said[0][0] == said[1][0]
    job_run = gputune.load(said[0][0].strip())
    assert [len(rank.table("batches")) > 0 for rank in job_run.ranks] == [True, True]
    with pytest.raises(gputune.NoTable, match="each of its ranks has tables of its own"):
        job_run.table("batches")


def test_importing_gputune_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import gputune; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=plain())
    assert done.stdout == "['gputune']\n"


def test_beginning_imports_nothing_that_is_large() -> None:
    large = "{'msgspec', 'pyarrow', 'click', 'torch', 'typing_extensions'}"
    code = f"import sys, gputune; gputune.watch; print({large} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=plain())
    assert done.stdout == "set()\n"


def test_what_is_public_is_what_the_stub_says() -> None:
    stub = Path(gputune.__file__).with_suffix(".pyi").read_text()
    assert set(gputune.PUBLIC) == {line.rpartition(" ")[2] for line in stub.splitlines() if line.startswith("from ")}
    assert all(getattr(gputune, name) is not None for name in gputune.PUBLIC)
    assert set(gputune.PUBLIC) <= set(dir(gputune))
    assert (Path(gputune.__file__).parent / "py.typed").exists()
