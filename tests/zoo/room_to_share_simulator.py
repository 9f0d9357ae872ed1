"""Nothing is wrong: a policy that learns from a simulator which cannot be hurried, on a card that is hardly used."""

import time

import kit
import torch
from simnet import SimNet

ZOO = {
    "cause": "room-to-share",
    "says": "5 ms on the device of every 25; between forward and backward pass a simulator answers after 18 ms",
    "fix": {"same": True},
    "device": "sim",
    "also": [],
}


def answer(decided: torch.Tensor) -> torch.Tensor:
    """Return what the simulator makes of a decision."""
    time.sleep(0.018)
    return decided * 0.5


def main() -> None:
    kit.settings(ZOO, same=False)  # there is nothing to mend: the twin is the same
    torch.set_num_threads(1)
    policy = SimNet(per_sample=0.005 / 8, kernels=60)
    optimizer = torch.optim.Adam(policy.parameters())
    state = torch.zeros(8, 32)
    pace = kit.Pace()
    for _ in range(450):
        loss = answer(policy(state))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(state))
    policy.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
