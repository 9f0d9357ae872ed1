"""Reinforcement learning off policy: what is played fills a buffer that was made at once, and is learnt from."""

import kit
import numpy as np
import torch

ZOO = {
    "cause": None,
    "says": "each of 12,000 moves goes into a buffer of 36,000 pictures of 16 kB, from which 32 are learnt from",
    "fix": {},
    "device": "none",
    "also": [],
}
SIZE, ROOM, MOVES, BATCH = (4, 64, 64), 36_000, 12_000, 32

args = kit.settings(ZOO)
torch.set_num_threads(1)
torch.manual_seed(0)
policy = torch.nn.Sequential(
    torch.nn.Conv2d(4, 8, 8, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 15 * 15, 6)
)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-4)
drawn = np.random.default_rng(0)
seen = np.zeros((ROOM, *SIZE), dtype=np.uint8)
moves, gains = np.zeros(ROOM, dtype=np.int64), np.zeros(ROOM, dtype=np.float32)
screen = drawn.integers(256, size=SIZE, dtype=np.uint8)
pace = kit.Pace()
for move in range(MOVES):
    with torch.no_grad():
        chosen = int(policy(torch.from_numpy(screen).float()[None] / 255).argmax())
    seen[move], moves[move], gains[move] = screen, chosen, drawn.standard_normal()
    screen = np.roll(screen, 1, axis=2)
    if move < BATCH:
        continue
    rows = drawn.integers(move, size=BATCH)
    values = policy(torch.from_numpy(seen[rows]).float() / 255).gather(1, torch.from_numpy(moves[rows])[:, None])
    loss = (values[:, 0] - torch.from_numpy(gains[rows])).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    pace.saw(BATCH)
