"""Reinforcement learning without a DataLoader: the policy plays in eval mode, then learns from minibatches of it."""

import kit
import torch

ZOO = {
    "cause": None,
    "says": "8 games are played together for 32 moves with dropout off, then 4 epochs of minibatches of 64",
    "fix": {},
    "device": "none",
    "also": [],
}
ROUNDS, GAMES, MOVES, MINIBATCH = 60, 8, 32, 64


class Policy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Dropout(0.1))
        self.moves, self.value = torch.nn.Linear(512, 6), torch.nn.Linear(512, 1)

    def forward(self, seen):
        found = self.body(seen)
        return torch.distributions.Categorical(logits=self.moves(found)), self.value(found).squeeze(-1)


@torch.no_grad()
def play(policy: Policy) -> list[torch.Tensor]:
    policy.eval()
    seen, told = torch.randn(GAMES, 64), []
    for _move in range(MOVES):
        moves, _ = policy(seen)
        chosen = moves.sample()
        told.append((seen, chosen, moves.log_prob(chosen), torch.randn(GAMES)))
        seen = 0.9 * seen + 0.1 * torch.randn(GAMES, 64)
    policy.train()
    return [torch.cat(column) for column in zip(*told, strict=True)]


args = kit.settings(ZOO)
torch.set_num_threads(1)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
pace = kit.Pace()
for _round in range(ROUNDS):
    seen, chosen, likely, gained = play(policy)
    for _epoch in range(4):
        for part in torch.randperm(len(seen)).split(MINIBATCH):
            moves, value = policy(seen[part])
            ratio = (moves.log_prob(chosen[part]) - likely[part]).exp()
            loss = -(ratio * gained[part]).mean() + (value - gained[part]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(len(part))
