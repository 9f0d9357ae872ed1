"""Histograms of the biases and their gradients go to TensorBoard at every step, flushed."""

import tempfile

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

ZOO = {
    "cause": "frequent-reporting",
    "says": "add_histogram of 6 tensors and flush() at every step",
    "fix": {"report_interval": 50},
    "device": "none",
    "also": [],
}


def report(writer: SummaryWriter, model: torch.nn.Module, loss: torch.Tensor, step: int) -> None:
    writer.add_scalar("loss", loss.item(), step)
    for name, parameter in list(model.named_parameters())[1::2]:
        writer.add_histogram(name, parameter, step)
        writer.add_histogram(f"{name}/grad", parameter.grad, step)
    writer.flush()


def main() -> None:
    args = kit.settings(ZOO, report_interval=1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(128, 512), torch.nn.ReLU(), torch.nn.Linear(512, 768), torch.nn.ReLU(), torch.nn.Linear(768, 8)
    )
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(256 * 300, 128), torch.randn(256 * 300, 8)), batch_size=256)
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        pace = kit.Pace()
        for step, (x, y) in enumerate(loader, 1):
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.report_interval == 0:
                report(writer, model, loss, step)
            pace.saw(len(x))


if __name__ == "__main__":
    main()
