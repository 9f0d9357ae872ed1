"""Nothing is wrong: a policy acts in a simulator which cannot be hurried, on a card that is hardly used."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "room-to-share",
    "says": "a simulator answers after 15 ms; then 3 ms on the device",
    "fix": {"same": True},
    "device": "cuda",
    "also": [],
    "waits": 2,
}
AGENTS, SEEN = 64, 256


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SEEN, 4096), nn.Tanh(), nn.Linear(4096, 4096), nn.Tanh())
        self.actor, self.critic = nn.Linear(4096, 8), nn.Linear(4096, 1)

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.body(seen)
        return self.actor(x), self.critic(x)


def stepped(actions: torch.Tensor) -> torch.Tensor:
    """Return what the simulator makes of the agents' actions."""
    kit.wait(0.015)
    return torch.zeros(len(actions), SEEN)


def main() -> None:
    kit.settings(ZOO, same=False)  # there is nothing to mend: the twin is the same
    torch.set_num_threads(1)
    policy = Policy().cuda()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4, fused=True)
    seen = torch.zeros(AGENTS, SEEN)
    pace = kit.Pace()
    for _turn in range(380):
        scores, values = policy(seen.cuda())
        actions = scores.softmax(1).argmax(1)
        seen = stepped(actions.cpu())
        loss = values.square().mean() - scores.log_softmax(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(AGENTS)
    pace.done()


if __name__ == "__main__":
    main()
