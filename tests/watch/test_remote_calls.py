"""A parameter server and its trainer, in two processes over the loopback: the wait is communication, and named."""

import json
import sys

import pytest

pytestmark = pytest.mark.long
TRAIN = """
import os, sys, time, torch
import torch.multiprocessing as mp
from torch.distributed import rpc
from torch.utils.data import DataLoader, TensorDataset

class Server:
    def __init__(self):
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def step(self, gradients):
        time.sleep(0.01)
        for weight, gradient in zip(self.model.parameters(), gradients):
            weight.grad = gradient
        self.optimizer.step()
        return [weight.detach() for weight in self.model.parameters()]

server = None

def stepped(gradients):
    global server
    server = server or Server()
    return server.step(gradients)

def call(how, model, remote):
    gradients = [weight.grad for weight in model.parameters()]
    if how == "sync":
        return rpc.rpc_sync("server", stepped, args=(gradients,))
    if how == "async":
        return rpc.rpc_async("server", stepped, args=(gradients,)).wait()
    if how == "remote":
        return rpc.remote("server", stepped, args=(gradients,)).to_here()
    return remote.rpc_sync().step(gradients)

def train(how):
    model = torch.nn.Linear(8, 1)
    remote = rpc.remote("server", Server)
    for (x,) in DataLoader(TensorDataset(torch.randn(400, 8)), 4):
        model(x).square().sum().backward()
        for weight, new in zip(model.parameters(), call(how, model, remote)):
            weight.data.copy_(new)
            weight.grad = None

def run(rank, how):
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(init_method="file://" + os.path.abspath("store"))
    rpc.init_rpc(["server", "trainer", "master"][rank], rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 1 and how != "called":
        train(how)
    if rank == 2 and how == "called":
        rpc.rpc_sync("trainer", train, args=("sync",))
    rpc.shutdown()

if __name__ == "__main__":
    mp.spawn(run, (sys.argv[1],), nprocs=3)
"""


@pytest.mark.parametrize("how", ["sync", "async", "remote", "method", "called"])
def test_the_wait_for_a_parameter_server_is_told_and_named(watch, tmp_path, how) -> None:
    """`called`: the trainer is called by a third process, and trains in a thread of RPC's."""
    pytest.importorskip("torch", reason="it is torch's RPC")
    (tmp_path / "train.py").write_text(TRAIN)
    done = watch("--json", "verdict.json", "--", sys.executable, "train.py", how)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "verdict.json").read_text())
    assert [process["batches"] for process in found["processes"]] == [100]
    spans = {row["span"]: row["seconds"] for row in found["ledger"]}
    assert spans["collective"] >= 0.9  # 100 calls of 10 ms, less the first ones of a thread that nobody knew yet
    (finding,) = (each for each in found["findings"] if each["id"] == "remote-calls")
    assert finding["where"].startswith("train.py:")
