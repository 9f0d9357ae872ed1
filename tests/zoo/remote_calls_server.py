"""A trainer sends its gradients to a parameter server after each batch, and waits 10 ms for the weights it answers."""

import sys
import time

import kit
import torch
import torch.multiprocessing as mp
from torch.distributed import rpc
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "remote-calls",
    "says": "a call by RPC to a parameter server that takes 10 ms, at every batch",
    "fix": {"gradient_accumulation": 20},
    "device": "none",
    "also": [],
}
STEP_S = 0.010
kept: list = []  # the server's model and optimizer


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))


def stepped(gradients: list) -> list:
    """On the server: make a step, and return the weights."""
    if not kept:
        own = model()
        kept[:] = own, torch.optim.SGD(own.parameters(), lr=0.01)
    own, optimizer = kept
    time.sleep(STEP_S)
    for weight, gradient in zip(own.parameters(), gradients, strict=True):
        weight.grad = gradient
    optimizer.step()
    return [weight.detach() for weight in own.parameters()]


def train(every: int) -> None:
    own = model()
    pace = kit.Pace()
    for batch, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(32 * 500, 512)), batch_size=32), 1):
        torch.nn.functional.mse_loss(own(x), x).backward()
        if batch % every == 0:
            answer = rpc.rpc_sync("server", stepped, args=([weight.grad for weight in own.parameters()],))
            for weight, new in zip(own.parameters(), answer, strict=True):
                weight.data.copy_(new)
                weight.grad = None
        pace.saw(len(x))


def run(rank: int, store: str, every: int) -> None:
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}")
    rpc.init_rpc("trainer" if rank else "server", rank=rank, world_size=2, rpc_backend_options=options)
    if rank:
        train(every)
    rpc.shutdown()


def main() -> None:
    import tempfile

    args = kit.settings(ZOO, gradient_accumulation=1)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (f"{folder}/store", args.gradient_accumulation), nprocs=2)


if __name__ == "__main__":
    sys.exit(main())
