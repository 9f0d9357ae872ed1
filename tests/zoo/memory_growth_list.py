"""The losses are kept with their graphs, for a plot at the end: each step leaves its activations behind."""

import kit
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

ZOO = {
    "cause": "memory-growth",
    "says": "losses are appended to a list with all that their graphs hold, some 2 MB a step",
    "fix": {"detach": True},
    "device": "none",
    "also": [],
}


def main() -> None:
    args = kit.settings(ZOO, detach=False)
    torch.set_num_threads(1)
    torch.manual_seed(3)
    pixels = torch.randn(64 * 120, 512)
    dataset = TensorDataset(pixels, pixels.sum(dim=1))
    loader = DataLoader(dataset, batch_size=None, sampler=BatchSampler(RandomSampler(dataset), 64, drop_last=True))
    layers = [part for width in (512, 2048) for part in (torch.nn.Linear(width, 2048), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(2048, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    history = []
    pace = kit.Pace()
    for _epoch in range(8):  # a trend needs a dozen readings, one a second
        for rows, target in loader:
            loss = torch.nn.functional.mse_loss(model(rows).squeeze(1), target)
            optimizer.zero_grad()
            loss.backward(retain_graph=not args.detach)
            optimizer.step()
            history.append(loss.detach() if args.detach else loss)
            pace.saw(len(target))
    print(f"last loss {history[-1].item():.3f}")


if __name__ == "__main__":
    main()
