"""A batch is a list of hundreds of small tensors: each is opened on its own in the training process."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "heavy-collate",
    "says": "graphs of three small tensors each, handed over one by one or packed into three large ones",
    "fix": {"packed": True},
    "device": "none",
    "also": ["few-workers"],
}


class Graphs(Dataset):
    """Random graphs: nodes, edges and a target."""

    def __len__(self) -> int:
        return 96 * 110

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        nodes = 8 + index % 9
        return torch.full((nodes, 16), index / 1e4), torch.zeros(2, 3 * nodes), torch.full((1,), float(index % 2))


def as_they_are(items: list) -> list:
    return items


def pack(items: list) -> list:
    """One tensor of all nodes, one of all edges, one of all targets, and where each graph begins."""
    nodes, edges, targets = zip(*items, strict=True)
    sizes = torch.tensor([len(n) for n in nodes])
    return [torch.cat(nodes), torch.cat(edges, dim=1), torch.cat(targets), sizes]


def main() -> None:
    args = kit.settings(ZOO, num_workers=1, packed=False)
    torch.set_num_threads(1)
    layers = [torch.nn.Linear(16, 96), torch.nn.Tanh(), torch.nn.Linear(96, 1)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    collate = pack if args.packed else as_they_are
    loader = DataLoader(Graphs(), batch_size=96, num_workers=args.num_workers, collate_fn=collate)
    pace = kit.Pace()
    for batch in loader:
        if args.packed:
            nodes, _edges, targets, sizes = batch
        else:
            sizes = torch.tensor([len(graph[0]) for graph in batch])
            nodes, targets = torch.cat([graph[0] for graph in batch]), torch.cat([graph[2] for graph in batch])
        owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        score = torch.zeros(len(sizes), 1).index_add(0, owner, model(nodes)).squeeze(1)
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(score, targets).backward()
        optimizer.step()
        pace.saw(len(sizes))


if __name__ == "__main__":
    main()
