"""Three running averages of the weights, each put together anew in double precision after each step."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "work-after-step",
    "says": "three dictionaries of new double tensors after each step, where one pass in place would do",
    "fix": {"in_place": True},
    "device": "none",
    "also": [],
}
DECAYS, BATCH, STEPS = (0.99, 0.996, 0.999), 48, 450


class Averages:
    """What we may want at the end of the training: the weights, averaged over so many steps."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.kept = [{name: w.detach().double() for name, w in network.state_dict().items()} for _ in DECAYS]

    @torch.no_grad()
    def update(self, network: torch.nn.Module) -> None:
        for number, decay in enumerate(DECAYS):
            now = network.state_dict()
            self.kept[number] = {n: decay * self.kept[number][n] + (1 - decay) * w.double() for n, w in now.items()}


class InPlace:
    def __init__(self, network: torch.nn.Module) -> None:
        self.kept = [[w.detach().clone() for w in network.state_dict().values()] for _ in DECAYS]

    @torch.no_grad()
    def update(self, network: torch.nn.Module) -> None:
        now = list(network.state_dict().values())
        for kept, decay in zip(self.kept, DECAYS, strict=True):
            torch._foreach_lerp_(kept, now, 1 - decay)


def main() -> None:
    args = kit.settings(ZOO, in_place=False)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(BATCH * STEPS, 256), torch.randn(BATCH * STEPS, 256))
    network = torch.nn.Sequential(
        torch.nn.Linear(256, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, 640),
        torch.nn.ReLU(),
        torch.nn.Linear(640, 256),
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    averages = (InPlace if args.in_place else Averages)(network)
    pace = kit.Pace()
    for epoch in range(2):
        for noisy, clean in DataLoader(data, batch_size=BATCH):
            loss = torch.nn.functional.mse_loss(network(noisy), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            averages.update(network)
            pace.saw(len(noisy))
        print(f"epoch {epoch}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
