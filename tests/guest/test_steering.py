"""A loader that is served under other settings while it is iterated: no sample lost, none twice, nothing else moved.

The scripts send the orders themselves, so that each comes at a known batch.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import BatchCode, Kind
from gputune.core.sample import Note
from gputune.launch.steering import HEADER, OrderChannel

HEAD = """
import json, os, random, signal, sys, time, numpy, torch
from pathlib import Path
from torch.utils.data import *
from gputune.launch.steering import OrderChannel

class Numbers(Dataset):
    def __init__(self, size=400, item=int):
        self.size, self.item = size, item
    def __len__(self):
        return self.size
    def __getitem__(self, i):
        return self.item(i)

orders = OrderChannel(Path(os.environ["GPUTUNE_STEER"]))

def serve(batches=None, **settings):
    return orders.send({"do": "serve", "set": settings, "batches": batches})

def shell(it):
    from gputune_guest import loader_proxy as shells
    return shells.shells[id(it)]

def plain(batch):
    return batch.tolist() if hasattr(batch, "tolist") else batch

def settle(it, slow=[0.0]):
    # while workers begin the training would go on with others: give them time, more each time that it was not enough
    change = shell(it).change
    slow[0] = min(0.5, 2 * slow[0] or 0.005) if change is not None and not change._draining else 0.0
    time.sleep(slow[0])

def follow(loader, plan):
    "Return the batches of one epoch, in which the settings of `plan` follow each other."
    it, got, sent, plan = iter(loader), [], None, list(plan)
    kind, before = type(it), dict(vars(loader))
    for n, batch in enumerate(it):
        got.append(plain(batch))
        force = shell(it).force
        if sent is not None and (all(force[k] == v for k, v in sent.items()) if sent else force == shell(it).own):
            sent = None
        if sent is None and plan and n % 5 == 4:
            sent = plan.pop(0)
            serve(**sent)
        settle(it)
    assert not plan and sent is None, (plan, sent)
    assert type(it) is kind and iter(it) is it
    after = dict(vars(loader))
    assert {k: v for k, v in after.items() if k != "_iterator"} == {k: v for k, v in before.items() if k != "_iterator"}
    return got

def states():
    return [torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist()]
"""
Watched = Callable[..., Any]


@pytest.fixture
def steered(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "steer"
    OrderChannel(path).close()
    return {"GPUTUNE_STEER": str(path)}


KINDS = {
    "in order": "DataLoader(numbers, 16)",
    "shuffled": "DataLoader(numbers, 16, shuffle=True, num_workers=2)",
    "shuffled by a generator": "DataLoader(numbers, 16, shuffle=True, generator=torch.Generator().manual_seed(3))",
    "without the last": "DataLoader(numbers, 16, shuffle=True, drop_last=True, num_workers=1, prefetch_factor=5)",
    "batches of a sampler": "DataLoader(numbers, batch_sampler=BatchSampler(RandomSampler(numbers), 17, False))",
    "without batches": "DataLoader(Numbers(250), batch_size=None, sampler=RandomSampler(Numbers(250)), num_workers=3)",
    "weighted": "DataLoader(numbers, 16, sampler=weighted, persistent_workers=True, num_workers=2)",
}


@pytest.mark.parametrize("loader", KINDS.values(), ids=list(KINDS))
def test_six_numbers_of_workers_in_one_epoch_give_the_samples_of_an_untouched_one(
    watched: Watched, steered: dict[str, str], loader: str
) -> None:
    code = f"""
if __name__ == "__main__":
    numbers = Numbers(3995)
    weighted = WeightedRandomSampler([1.0] * 3995, 3995)
    counts = [{{"num_workers": n}} for n in (2, 0, 1, 4, 3, 6)]
    torch.manual_seed(1)
    loader = {loader}
    untouched = [[plain(batch) for batch in loader] for _epoch in range(2)] + [states()]
    torch.manual_seed(1)
    loader = {loader}
    tuned = [follow(loader, counts), follow(loader, [{{}}])] + [states()]
    print(json.dumps([a == b for a, b in zip(untouched, tuned)]), len(tuned[0]))
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out.startswith("[true, true, true] 2"), run.out
    serving = [note for note in run.notes("steer") if note["state"] == "serving"]
    assert [note["set"]["num_workers"] for note in serving][:6] == [2, 0, 1, 4, 3, 6]


TRAINING = """
def train(loader_of, between):
    torch.manual_seed(7), random.seed(7)
    data = torch.randn(600, 8)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader, valid = loader_of(TensorDataset(data, data.sum(1, keepdim=True))), DataLoader(TensorDataset(data[:64]), 16)
    for epoch in range(2):
        model.train()
        it = iter(loader)
        for n, (x, y) in enumerate(it):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            print(loss.item().hex())
            between(it, epoch, n)
        model.eval()
        with torch.no_grad():
            print(sum(model(x).sum().item() for (x,) in valid).hex())
    print(sum(map(sum, [torch.get_rng_state().tolist(), random.getstate()[1]])))

def tune(it, epoch, n):
    if PLAN and n % 7 == 3 and shell(it).change is None:
        serve(**PLAN.pop(0))
    settle(it)
"""
LOADERS = (
    "DataLoader(data, 8, shuffle=True)",
    "DataLoader(data, 8, shuffle=True, num_workers=2)",
    "DataLoader(data, 8, shuffle=True, num_workers=1, persistent_workers=True)",
)


@pytest.mark.parametrize("loader", LOADERS)
def test_the_losses_of_a_tuned_training_are_bit_for_bit_those_of_an_untouched_one(
    watched: Watched, steered: dict[str, str], loader: str
) -> None:
    plan = [
        {"num_workers": 3},
        {"num_workers": 3, "prefetch_factor": 5},
        {"num_workers": 3, "prefetch_factor": 1, "persistent_workers": True},
        {"num_workers": 0},
        {"num_workers": 1, "persistent_workers": True, "pin_memory": True},
        {},
    ]
    script = HEAD + TRAINING + f"PLAN = {plan!r}\nmake = lambda data: {loader}\n"
    untouched = watched(script + "if __name__ == '__main__': train(make, lambda *_: None)", env=steered).healthy()
    tuned = watched(script + "if __name__ == '__main__': train(make, tune); assert not PLAN", env=steered).healthy()
    assert tuned.out == untouched.out
    assert tuned.err == untouched.err
    assert len(tuned.out.split()) == 2 * (75 + 1) + 1
    assert {note["state"] for note in tuned.notes("steer")} == {"serving"}
    assert all(note["set"]["pin_memory"] is False for note in tuned.notes("steer"))


def test_each_change_is_told_and_its_batches_and_workers_are_counted_for_it(
    watched: Watched, steered: dict[str, str]
) -> None:
    code = """
if __name__ == "__main__":
    loader = DataLoader(Numbers(1995, item=lambda i: torch.tensor([i])), 8)
    follow(loader, [dict(num_workers=2), dict(num_workers=2, prefetch_factor=4), dict(num_workers=3)])
"""
    run = watched(HEAD + code, env=steered).healthy()
    notes = run.notes("steer")
    assert [(note["seq"], note["state"]) for note in notes] == [(1, "serving"), (2, "serving"), (3, "serving")]
    assert [note["set"]["prefetch_factor"] for note in notes] == [2, 4, 2]
    assert all(0 < note["start_ns"] < note["ready_ns"] for note in notes)
    assert all(str(note["where"]).startswith("train.py:") for note in notes)
    batches = [b for b in run.records(Kind.BATCH) if not b.code & (BatchCode.END | BatchCode.FAILED)]
    assert sum(b.c for b in batches) == 1995
    loaders = {note["id"]: note for note in run.notes("loader")}
    made = {r.a: loaders[r.b] for r in run.records(Kind.ITERATOR)}
    settings = [(told["num_workers"], told["prefetch_factor"]) for told in made.values()]
    assert settings == [(0, None), (2, 2), (2, 4), (3, 2)]
    firsts = {number: next(n for n, b in enumerate(batches) if b.a == number) for number in made}
    assert [firsts[note["iterator"]] for note in notes] == [note["batch"] for note in notes]
    members: dict[int, set[int]] = {}
    for r in run.records(Kind.MEMBER):
        members.setdefault(r.a, set()).add(r.b)
    pids = {run.guests[process].pid for process in run.workers}
    sets = [members[note["iterator"]] for note in notes]
    assert [len(one) for one in sets] == [2, 2, 3]
    assert sets[0] == sets[1]
    assert set.union(*sets) == pids
    later = [b for n, b in enumerate(batches) if n not in firsts.values()]
    assert [b.d >= 0 for b in later] == [made[b.a]["num_workers"] > 0 for b in later]  # what was ready is known


def test_what_would_be_wrong_is_refused_and_the_training_goes_on(watched: Watched, steered: dict[str, str]) -> None:
    code = """
class Stream(IterableDataset):
    def __iter__(self):
        yield from range(64)

class Dice(Sampler):
    def __iter__(self):
        for i in range(64):
            yield random.randrange(64)
    def __len__(self):
        return 64

class Held(Numbers):
    def __init__(self):
        super().__init__(64, lambda i: i)  # which cannot be pickled

def told(loader, **settings):
    random.seed(5)
    expected = [plain(batch) for batch in loader]
    random.seed(5)
    it, got = iter(loader), []
    for n, batch in enumerate(it):
        got.append(plain(batch))
        if n == 1:
            where = f"train.py:{sys._getframe(1).f_lineno}"
            orders.send({"do": "serve", "where": where, "set": settings})
    assert got == expected, (got, expected)

if __name__ == "__main__":
    told(DataLoader(Stream(), 4), num_workers=2)
    told(DataLoader(Stream(), 4, num_workers=1), num_workers=2)
    told(DataLoader(Numbers(64), 4, num_workers=2, worker_init_fn=id), num_workers=0)
    told(DataLoader(Numbers(64), 4, sampler=Dice()), num_workers=2)
    torch.multiprocessing.set_start_method("spawn", force=True)
    told(DataLoader(Held(), 4), num_workers=2)
    orders.send({"do": "serve", "set": {"batch_size": 3}})
    for batch in DataLoader(Numbers(64), 4):
        pass
    orders.send({"do": "end"})
    for batch in DataLoader(Numbers(64), 4):
        pass
    print("done")
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "done\n"
    assert run.err == ""
    notes = run.notes("steer")
    assert {note["state"] for note in notes} == {"refused"}
    words = ["a stream", "a stream", "worker_init_fn", "random numbers", "pickle", "batch_size", "that counts"]
    whys = {note["seq"]: str(note["why"]) for note in notes}
    assert [word for n, word in enumerate(words, start=1) if word not in whys[n]] == [], whys
    assert all(note["set"]["num_workers"] in {0, 1, 2} for note in notes if "set" in note)


def test_a_sampler_of_the_script_s_own_is_asked_ahead_once_a_whole_pass_drew_nothing(
    watched: Watched, steered: dict[str, str]
) -> None:
    code = """
class Quiet(Sampler):
    def __len__(self):
        return 64
    def __iter__(self):
        for at in range(0, 64, 16):
            yield from self.chunk(at)
    def chunk(self, at):
        return range(at, at + 16)

class Lively(Quiet):
    def chunk(self, at):
        return (torch.randperm(16) + at).tolist()

def train(sampler):
    got = []
    for n, batch in enumerate(it := iter(DataLoader(Numbers(64), 4, sampler=sampler))):
        got += plain(batch)
        if n == 1:
            serve(num_workers=2)
        settle(it)
    assert sorted(got) == list(range(64))
    return got

if __name__ == "__main__":
    train(Lively()), train(Lively())
    assert train(Quiet()) == train(Quiet())
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.err == ""
    told = [(note["state"], note.get("why", "")) for note in run.notes("steer")]
    assert [state for state, _ in told] == ["refused", "refused", "refused", "serving"], told
    assert "a whole pass" in told[0][1]
    assert [note.get("of") for note in run.notes("steer")] == ["not-yet", "loader", "not-yet", None]
    assert "draws random numbers as it goes" in told[1][1]


def test_workers_of_a_pass_know_what_the_dataset_was_told_before_it(watched: Watched, steered: dict[str, str]) -> None:
    code = """
class Told(Numbers):
    epoch = 0
    def __getitem__(self, i):
        return self.epoch

if __name__ == "__main__":
    data = Told(40)
    loader, workers = DataLoader(data, 4, num_workers=1), []
    for data.epoch in range(4):
        for n, batch in enumerate(it := iter(loader)):
            assert set(plain(batch)) == {data.epoch}, (data.epoch, n, batch)
            if data.epoch == 0 and n == 8:  # the pass ends before new workers could have begun
                serve(num_workers=3)
        workers.append(shell(it).force["num_workers"])
    print(workers)
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "[1, 3, 3, 3]\n", run.out


def test_a_script_that_each_worker_would_run_again_gets_none(watched: Watched, steered: dict[str, str]) -> None:
    code = """
torch.multiprocessing.set_start_method("spawn", force=True)
print([plain(batch) for n, batch in enumerate(DataLoader(Numbers(64), 16)) if n or serve(num_workers=2)])
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.err == ""
    (note,) = run.notes("steer")
    assert "run the script anew" in note["why"]


def test_spawned_workers_begin_while_others_make_the_batches(watched: Watched, steered: dict[str, str]) -> None:
    code = """
if __name__ == "__main__":
    torch.multiprocessing.set_start_method("spawn", force=True)
    got = follow(DataLoader(Numbers(2000), 4), [dict(num_workers=2)])
    print(sum(got, []) == list(range(2000)))
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "True\n"
    (note,) = run.notes("steer")
    assert note["state"] == "serving"
    assert note["batch"] > 6  # more than had been made when it was asked for


FAILING = {
    "dies": "os.kill(os.getpid(), signal.SIGKILL)",
    "raises": "raise ValueError('only in workers')",
    "leaves": "os._exit(3)",
}


@pytest.mark.parametrize("how", FAILING.values(), ids=list(FAILING))
def test_a_worker_that_fails_where_the_script_had_none_costs_no_sample(
    watched: Watched, steered: dict[str, str], how: str
) -> None:
    code = f"""
def item(i):
    if get_worker_info() is not None and i >= 400:
        {how}
    return i

if __name__ == "__main__":
    torch.manual_seed(2)
    expected = [plain(batch) for batch in DataLoader(Numbers(1200), 5, shuffle=True)]
    torch.manual_seed(2)
    got = []
    for n, batch in enumerate(it := iter(DataLoader(Numbers(1200, item), 5, shuffle=True))):
        got.append(plain(batch))
        if n in (2, 60):
            serve(num_workers=3)
        if n > 2:
            settle(it)
    print(got == expected)
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "True\n"
    assert run.notes("steer")[-1]["state"] == "refused"
    assert run.notes("steer")[-1]["set"]["num_workers"] == 0


def test_workers_that_hang_from_the_start_are_taken_away_again(watched: Watched, steered: dict[str, str]) -> None:
    code = """
def item(i):
    if get_worker_info() is not None:
        time.sleep(1000)
    return i

if __name__ == "__main__":
    from gputune_guest import iterators as making
    making.FIRST_S = 0.5
    serve(num_workers=2)
    it = iter(DataLoader(Numbers(1000, item), 5))
    got = []
    for batch in it:
        got += plain(batch)
        settle(it)
    print(got == list(range(1000)))
    print(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "True\n[]\n"
    assert "no batch within" in run.notes("steer")[-1]["why"]


def test_an_error_of_the_dataset_is_the_script_s_as_torch_raises_it(watched: Watched, steered: dict[str, str]) -> None:
    code = """
def item(i):
    if i == 777:
        raise ValueError("seven")
    return i

if __name__ == "__main__":
    serve(num_workers=2)
    got = []
    it = iter(DataLoader(Numbers(900, item), 5))
    try:
        for batch in it:
            got += plain(batch)
            settle(it)
    except ValueError as error:
        print(got == list(range(775)), "DataLoader worker" in str(error), error.__context__)
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "True False None\n"


def test_a_loader_that_is_left_halfway_leaves_no_process_behind(watched: Watched, steered: dict[str, str]) -> None:
    code = """
def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

if __name__ == "__main__":
    loader = DataLoader(Numbers(4000), 4, num_workers=1)
    serve(num_workers=3)
    for epoch in range(3):
        got = []
        for n, batch in enumerate(it := iter(loader)):
            got += plain(batch)
            settle(it)
            if n == 40:
                break
        assert got == list(range(len(got))), got
        force = shell(it).force
        del it
    print(force["num_workers"], children())
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "3 []\n"


def test_workers_that_are_to_last_make_the_next_epochs_too(watched: Watched, steered: dict[str, str]) -> None:
    code = """
def item(i):
    return [i, os.getpid()]

if __name__ == "__main__":
    loader = DataLoader(Numbers(600, item), 4, num_workers=2, collate_fn=list)
    serve(num_workers=2, persistent_workers=True)
    for epoch in range(4):
        it = iter(loader)
        got, pids = [], []
        for batch in it:
            got += [i for i, _pid in batch]
            pids += [pid for _i, pid in batch]
            settle(it)
            if epoch == 2 and len(got) > 100:
                break
        assert got == list(range(600))[:len(got)]
        del it
        if epoch:
            last = set(pids) if epoch == 1 else last
            print(set(pids) == last, len(set(pids)), list(loader.__dict__["_iterator"] or []))
    del loader
    print(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "True 2 []\n" * 3 + "[]\n"


def test_a_try_ends_by_itself(watched: Watched, steered: dict[str, str]) -> None:
    code = """
if __name__ == "__main__":
    loader = DataLoader(Numbers(1600), 4)
    serve(num_workers=1)
    it, got, seen = iter(loader), [], []
    for n, batch in enumerate(it):
        got += plain(batch)
        seen.append(shell(it).force["num_workers"])
        if seen[-1] == 1 and orders._word[0] == 1:
            serve(12, num_workers=3)
        settle(it)
    print(got == list(range(1600)), sorted(set(seen) - {0}, key=seen.index), seen[-1])
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "True [1, 3] 1\n"
    notes = run.notes("steer")
    assert [note["state"] for note in notes] == ["serving", "serving", "back"]
    assert int(notes[2]["batch"]) - int(notes[1]["batch"]) >= 12


def test_a_stream_gets_more_and_less_prefetch(watched: Watched, steered: dict[str, str]) -> None:
    code = """
class Stream(IterableDataset):
    def __iter__(self):
        yield from range(300)

if __name__ == "__main__":
    for in_order in (True, False):
        loader = DataLoader(Stream(), 2, num_workers=1, in_order=in_order)
        got = follow(loader, [dict(prefetch_factor=n) for n in (6, 1, 3)])
        print(sum(got, []) == list(range(300)))
"""
    assert watched(HEAD + code, env=steered).healthy().out == "True\nTrue\n"


def test_batches_in_any_order_are_each_there_once(watched: Watched, steered: dict[str, str]) -> None:
    code = """
if __name__ == "__main__":
    loader = DataLoader(Numbers(2000), 4, num_workers=2, in_order=False)
    got = follow(loader, [dict(num_workers=n) for n in (3, 1, 4)] + [dict(num_workers=4, prefetch_factor=1)])
    print(sorted(sum(got, [])) == list(range(2000)))
"""
    assert watched(HEAD + code, env=steered).healthy().out == "True\n"


def test_in_a_trial_a_batch_is_replayed_and_the_script_ended_through_its_own_doors(
    watched: Watched, steered: dict[str, str]
) -> None:
    code = """
if __name__ == "__main__":
    got = []
    try:
        for n, batch in enumerate(DataLoader(Numbers(400), 4, num_workers=2)):
            got.append(plain(batch))
            batch.fill_(-1)
            if n == 4:
                orders.send({"do": "replay", "batches": 6})
            if n == 20:
                orders.send({"do": "end"})
    finally:
        print(json.dumps(got))
"""
    run = watched(HEAD + code, env={**steered, "GPUTUNE_TRIAL": "{}"}).healthy()
    whole = [list(range(n, n + 4)) for n in range(0, 400, 4)]
    assert json.loads(run.out) == whole[:6] + [whole[5]] * 6 + whole[6:15]
    assert [note["state"] for note in run.notes("steer")] == ["replaying", "ended"]
    replay = next(note for note in run.notes("loader") if note.get("replay"))
    numbers = {r.a for r in run.records(Kind.ITERATOR) if r.b == replay["id"]}
    assert sum(1 for b in run.records(Kind.BATCH) if b.a in numbers) == 6
    assert run.notes("steer")[0]["iterator"] in numbers


def test_a_batch_to_replay_is_page_locked_where_there_is_a_device_and_comes_as_it_is_elsewhere(
    watched: Watched, steered: dict[str, str]
) -> None:
    code = """
if __name__ == "__main__":
    for n, batch in enumerate(DataLoader(Numbers(400), 4)):
        if n in (4, 20):
            orders.send({"do": "replay", "batches": 6, "pin": True if n == 4 else "yes"})
        if n in (6, 7):
            print(plain(batch), batch.is_pinned())
"""
    run = watched(HEAD + code, env={**steered, "GPUTUNE_TRIAL": "{}", "CUDA_VISIBLE_DEVICES": ""}).healthy()
    assert run.out == "[20, 21, 22, 23] False\n" * 2
    replayed, refused = run.notes("steer")
    assert replayed["state"] == "replaying"
    assert refused["why"] == "no order that is known: pin: 'yes' is neither true nor false"


def test_two_loaders_are_told_apart_by_their_place_and_an_evaluation_is_left_alone(
    watched: Watched, steered: dict[str, str]
) -> None:
    code = """
if __name__ == "__main__":
    make = lambda: DataLoader(Numbers(300), 4)
    first, valid = make(), make()
    second = DataLoader(Numbers(300), 4)
    line = second_line = sys._getframe().f_lineno - 1
    orders.send({"do": "serve", "where": f"train.py:{line}", "set": {"num_workers": 2}})
    its = [iter(first), iter(second)]
    for a, b in zip(*its):
        assert plain(a) == plain(b)
        settle(its[1])
        with torch.no_grad():
            it = iter(valid)
            next(it)
            assert shell(it).force["num_workers"] == 0
    print([shell(it).force["num_workers"] for it in its])
"""
    run = watched(HEAD + code, env=steered).healthy()
    assert run.out == "[0, 2]\n"
    assert len(run.notes("steer")) == 1


def test_an_order_is_taken_whole_or_not_at_all(watched: Watched, steered: dict[str, str]) -> None:
    code = """
if __name__ == "__main__":
    serve()
    file = open(os.environ["GPUTUNE_STEER"], "r+b", buffering=0)
    whole = file.read()
    wrong = [b"\\x02" + whole[1:], whole[:16] + b"?" + whole[17:], whole]
    file.seek(0)
    file.write(wrong[0])
    for n, batch in enumerate(DataLoader(Numbers(200), 4), start=1):
        file.seek(0)
        file.write(wrong[n // 20])
"""
    run = watched(HEAD + code, env=steered).healthy()
    (note,) = run.notes("steer")
    assert (note["seq"], note["state"]) == (1, "serving")
    assert note["batch"] >= 40
    assert run.notes("draws") == [{"n": "draws", "of": [], "inline": True}]


def test_a_torch_of_another_kind_or_a_missing_file_is_said_and_harmless(
    watched: Watched, steered: dict[str, str], fake_torch: Path, tmp_path: Path
) -> None:
    code = """
from torch.utils.data.dataloader import DataLoader
print([batch for batch in DataLoader([1, 2, 3], 2, collate_fn=list)])
"""
    for env in (steered, {"GPUTUNE_STEER": str(tmp_path / "none")}):
        run = watched(code, path=(fake_torch,), env=env).healthy()
        assert run.out == "[[1, 2], [3]]\n"
        (note,) = run.notes("steer")
        assert (note["seq"], note["state"]) == (0, "refused")


def test_orders_are_numbered_on_by_who_takes_over_and_a_long_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "steer"
    first = OrderChannel(path)
    assert [first.send({"do": "end"}) for _ in range(3)] == [1, 2, 3]
    first.close()
    second = OrderChannel(path)
    assert second.send({"do": "end"}) == 4
    with pytest.raises(ValueError, match="too long"):
        second.send({"do": "x" * 4096})
    second.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert HEADER.unpack_from(path.read_bytes())[0] == 4


def test_it_is_told_whether_samples_draw_random_numbers_where_they_are_made(
    watched: Watched, steered: dict[str, str]
) -> None:
    code = """
class Dice(Dataset):
    def __init__(self, draw):
        self.draw = draw
    def __len__(self):
        return 32
    def __getitem__(self, i):
        self.draw()
        return i

if __name__ == "__main__":
    for batch in DataLoader(Dice(DRAW), 4, shuffle=True, num_workers=WORKERS):
        pass
"""
    both = "lambda: (random.random(), numpy.random.rand())"
    for draw, workers, found in (("lambda: torch.randn(1)", 0, ["torch"]), (both, 1, ["numpy", "random"])):
        run = watched(HEAD + code.replace("DRAW", draw).replace("WORKERS", str(workers)), env=steered).healthy()
        assert run.notes("draws") == [{"n": "draws", "of": found, "inline": not workers}], draw


def test_generators_that_a_dataset_holds_and_each_dataset_of_a_process_are_looked_at(
    watched: Watched, steered: dict[str, str]
) -> None:
    code = """
import functools

class Held(Dataset):
    def __init__(self, draw, *more):
        self.draw, self.more = draw, more
    def __len__(self):
        return 32
    def __getitem__(self, i):
        self.draw()
        return i
    def __getattr__(self, name):  # nothing of it is to be run
        raise AttributeError(name) if name == "__getitems__" else RuntimeError(name)  # which torch asks for

class Wrapped(Held):
    def __init__(self, inner):
        self.inner = {"deep": [inner]}
    def __getitem__(self, i):
        return self.inner["deep"][0][i]

def closed(generator):
    return lambda: generator.random()

mine, theirs = random.Random(3), numpy.random.default_rng(3)
third = torch.Generator().manual_seed(3)
kinds = [closed(mine), functools.partial(torch.rand, 1, generator=third), theirs.random]
for kind in kinds:
    pid = os.fork()
    if not pid:
        for batch in DataLoader(Numbers(64), 4):  # draws nothing
            pass
        for batch in DataLoader(Wrapped(Held(kind, theirs)), 4):
            pass
        sys.exit()
    assert os.waitpid(pid, 0)[1] == 0
"""
    told: dict[int, list[Any]] = {}
    for reading in watched(HEAD + code, env=steered).healthy().readings:
        if isinstance(reading, Note) and reading.fields["n"] == "draws":
            told.setdefault(reading.process, []).append(reading.fields["of"])
    assert list(told.values()) == [[[], ["own"]]] * 3
