"""Simulators that compute are stepped one by one while the policy waits; then it learns from what came of it."""

import importlib.util
import multiprocessing
import sys
from pathlib import Path

import kit
import torch

if importlib.util.find_spec("gymnasium") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "guest" / "fake_gymnasium"))
import gymnasium

ZOO = {
    "cause": "slow-rollouts",
    "says": "4 environments of 2 ms of CPU a step, stepped in turn; --env-processes 4: each in a process of its own",
    "fix": {"env_processes": 4},
    "device": "none",
    "also": [],
}
GAMES, MOVES, ROUNDS, STEP_S = 4, 64, 24, 0.002


class Simulator(gymnasium.Env):
    """One environment; what it shows does not matter here."""

    def reset(self, *, seed=None, options=None):
        return torch.zeros(32), {}

    def step(self, action):
        kit.burn(STEP_S)
        return torch.full((32,), action / 6), float(action), False, False, {}


class InTurn(gymnasium.vector.VectorEnv):
    """Steps its environments on the thread that asks."""

    def __init__(self):
        self.num_envs = GAMES
        self.envs = [Simulator() for _ in range(GAMES)]

    def step(self, actions):
        return [env.step(action) for env, action in zip(self.envs, actions, strict=True)]


class SideBySide(gymnasium.vector.VectorEnv):
    """Steps each of its environments in a process of its own."""

    def __init__(self):
        self.num_envs = GAMES
        context = multiprocessing.get_context("fork")
        pipes = [context.Pipe() for _ in range(GAMES)]
        self.processes = [context.Process(target=served, args=(theirs,), daemon=True) for _, theirs in pipes]
        self.pipes = [ours for ours, _ in pipes]
        for process in self.processes:
            process.start()

    def step(self, actions):
        for pipe, action in zip(self.pipes, actions, strict=True):
            pipe.send(action)
        return [pipe.recv() for pipe in self.pipes]


def served(pipe):
    env = Simulator()
    while True:
        _seen, gained, *rest = env.step(pipe.recv())
        pipe.send((torch.zeros(32), gained, *rest))


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.Tanh(), torch.nn.Linear(128, 6))

    def forward(self, seen):
        return torch.distributions.Categorical(logits=self.body(seen))


def rollout(policy, env, seen):
    """Play so many moves; return what was seen and done in them, what it brought, and what is seen now."""
    told = []
    for _move in range(MOVES):
        with torch.no_grad():
            actions = policy(seen).sample()
        came = env.step(actions.tolist())
        told.append((seen, actions, torch.tensor([each[1] for each in came])))
        seen = torch.stack([each[0] for each in came])
    return [torch.cat(column) for column in zip(*told, strict=True)], seen


def main():
    args = kit.settings(ZOO, env_processes=0)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    env = SideBySide() if args.env_processes else InTurn()
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    seen = torch.zeros(GAMES, 32)
    pace = kit.Pace()
    for _round in range(ROUNDS):
        (observed, actions, gained), seen = rollout(policy, env, seen)
        for _epoch in range(4):
            for part in torch.randperm(len(actions)).split(64):
                likely = policy(observed[part]).log_prob(actions[part])
                loss = -(likely * (gained[part] - gained.mean())).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        pace.saw(len(actions))


if __name__ == "__main__":
    main()
