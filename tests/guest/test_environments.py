"""Steps of environments: the outermost call is timed, between what is learnt; who runs them pays for no layers."""

from pathlib import Path

import pytest

from gputune.core.events import Kind

GYMNASIUM = Path(__file__).resolve().parent / "fake_gymnasium"
CODE = """
import pickle, threading, time
import gymnasium
import torch

net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

class Slow(gymnasium.Env):
    def __init__(self, takes=0.002): self.takes = takes
    def step(self, action):
        time.sleep(self.takes)
        if action == "raise": raise ValueError("fell over")
        return action

def learn(took=0.0):
    net(torch.ones(2, 4)).sum().backward()
    time.sleep(took)
    optimizer.step()

def rollout(env, steps, action=1, policy=0.001):
    for _ in range(steps):
        time.sleep(policy)
        assert env.step(action) == action
"""


@pytest.fixture
def acting(watched):
    """Run a script with environments; return what was told of them, and the run."""
    pytest.importorskip("torch")

    def run(code: str, **more):
        done = watched(CODE + code, path=(GYMNASIUM,), **more).healthy()
        return done.records(Kind.ENVIRONMENT), done

    return run


def test_rollouts_between_what_is_learnt_are_one_record_each(acting) -> None:
    told, run = acting("env = Slow()\nlearn()\nfor _ in range(3): rollout(env, 10), learn(0.01)\nrollout(env, 1)")
    assert [record.b for record in told] == [10, 10, 10, 1]
    for record in told[:3]:
        assert 0.020e9 <= record.a <= record.t1 - record.t0
        assert record.d >= 0.009e9  # nine times that the policy was asked between them
        assert record.a + record.d <= record.t1 - record.t0
        assert (record.c, record.code) == (1, 0)
    (where,) = {note["where"] for note in run.notes("site") if note["what"] == "step"}
    assert where.startswith("train.py:")


def test_a_reset_is_the_environments_time_and_no_step(acting) -> None:
    told, _run = acting("""
class Episodes(Slow):
    def reset(self, *, seed=None): time.sleep(0.02); return 0, {}
env = Episodes(0)
learn()
rollout(env, 3, policy=0), env.reset(), rollout(env, 3, policy=0), learn(), rollout(env, 1)
""")
    assert told[0].b == 6
    assert 0.020e9 <= told[0].a <= told[0].t1 - told[0].t0 - told[0].d


def test_who_has_learnt_nothing_tells_nothing(acting) -> None:
    assert acting("rollout(Slow(), 200, policy=0)")[0] == []


def test_many_at_once_are_one_step_and_their_layers_are_let_go(acting) -> None:
    told, run = acting("""
own = vars(Slow)["step"]
envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.Wrapper(Slow(0))] * 3)
learn()
for _ in range(80): envs.step([1, 2, 3])
learn()
envs.step([1, 2, 3])
print(vars(Slow)["step"] is own, type(vars(Slow)["step"]).__name__)
""")
    assert (told[0].b, told[0].c) == (80, 3)
    assert run.out == "False function\n"


def test_an_environment_that_raises_does_so_and_is_stepped_on(acting) -> None:
    told, run = acting("""
env = gymnasium.Wrapper(Slow(0))
learn()
try:
    env.step("raise")
except ValueError as error:
    names, trace = [], error.__traceback__
    while trace: names.append(trace.tb_frame.f_code.co_filename.split("/")[-1]); trace = trace.tb_next
    print(error, names)
rollout(env, 3, policy=0)
learn()
rollout(env, 1)
""")
    assert run.out == "fell over ['train.py', 'core.py', 'train.py']\n"
    assert [record.b for record in told] == [1, 3, 1]  # what is printed between them tells the first


def test_an_environment_whose_attributes_raise_is_timed_all_the_same(acting) -> None:
    told, run = acting("""
class Closed(Slow):
    @property
    def unwrapped(self): raise RuntimeError("it is closed")
learn()
rollout(Closed(0), 3, policy=0), learn()
rollout(Slow(0), 5, policy=0), learn(), rollout(Slow(0), 1)
""")
    assert [record.b for record in told] == [3, 5, 1]
    assert (run.err, run.notes("error")) == ("", [])


def test_other_threads_and_processes_of_environments_are_no_steps_of_the_training(acting) -> None:
    told, _run = acting("""
import os
learn()
thread = threading.Thread(target=rollout, args=(Slow(), 50)); thread.start(); thread.join()
if not os.fork():
    rollout(Slow(0), 500, policy=0)
    os._exit(0)
os.wait()
learn()
rollout(Slow(), 2), learn(), rollout(Slow(), 1)
""")
    assert [record.b for record in told] == [2, 1]


def test_a_class_that_is_pickled_by_value_is_pickled_as_it_was_written(acting) -> None:
    _told, run = acting("""
def by_value(what):  # what cloudpickle does with the functions of a class of the script's
    return ("function", what.__name__)
class Pickler(pickle._Pickler):
    dispatch = {**pickle._Pickler.dispatch}
    def save_function(self, what): self.save_reduce(tuple, (by_value(what),))
    dispatch[type(by_value)] = save_function
import io
file = io.BytesIO()
Pickler(file, 2).dump(vars(Slow)["step"])
print(pickle.loads(file.getvalue()), type(Slow.step).__name__ != "function")
""")
    assert run.out == "('function', 'step') True\n"


def test_a_step_that_never_returns_is_seen_to_be_under_way(acting) -> None:
    _told, run = acting("import os\nlearn()\nenv = Slow(0.3)\nenv.step(1)\nenv.takes = 60\n"
                        "threading.Timer(0.3, os._exit, (0,)).start()\nenv.step(1)")  # fmt: skip
    opened = run.open()
    assert opened is not None
    assert opened.kind == Kind.ENVIRONMENT
