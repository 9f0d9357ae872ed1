"""Reinforcement learning: the policy plays with gradients off, then learns for a few epochs from what it played."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": None,
    "says": "30 rounds: 64 games are played together, then 4 epochs of a DataLoader over them",
    "fix": {},
    "device": "none",
    "also": [],
}
ROUNDS, GAMES, MOVES = 30, 64, 24


class Policy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.Tanh(), torch.nn.Linear(1024, 512))
        self.moves, self.value = torch.nn.Linear(512, 6), torch.nn.Linear(512, 1)

    def forward(self, seen):
        found = torch.tanh(self.body(seen))
        return self.moves(found), self.value(found).squeeze(-1)


@torch.no_grad()
def play(policy: Policy) -> TensorDataset:
    seen, told = torch.randn(GAMES, 64), []
    for _move in range(MOVES):
        logits, _ = policy(seen)
        chosen = torch.distributions.Categorical(logits=logits).sample()
        told.append((seen, chosen, torch.randn(GAMES)))
        seen = 0.9 * seen + 0.1 * torch.randn(GAMES, 64)
    return TensorDataset(*(torch.cat(column) for column in zip(*told, strict=True)))


args = kit.settings(ZOO)
torch.set_num_threads(1)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
pace = kit.Pace()
for _round in range(ROUNDS):
    games = DataLoader(play(policy), batch_size=128, shuffle=True)
    for _epoch in range(4):
        for seen, chosen, gained in games:
            logits, value = policy(seen)
            likely = torch.distributions.Categorical(logits=logits).log_prob(chosen)
            loss = -(likely * (gained - value.detach())).mean() + (value - gained).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(len(chosen))
