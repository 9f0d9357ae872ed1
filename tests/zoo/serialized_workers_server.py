"""Batches are asked of a server that answers one request at a time, as a small feature store does."""

import multiprocessing
import socket
import socketserver
import time

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "serialized-workers",
    "says": "six workers ask one server, which takes 12 ms for each answer",
    "fix": {"threads": True},
    "device": "none",
    "also": [],
}
SIZE, LENGTH = 16, 512


class Answer(socketserver.BaseRequestHandler):
    """Thinks for a while, and sends the numbers of a batch."""

    def handle(self) -> None:
        first = int(self.request.recv(16))
        time.sleep(0.012)
        self.request.sendall(first.to_bytes(8, "little") * (SIZE * LENGTH // 8))


def serve(port: "multiprocessing.Queue[int]", threads: bool) -> None:
    kind = socketserver.ThreadingTCPServer if threads else socketserver.TCPServer
    kind.request_queue_size = 64
    with kind(("127.0.0.1", 0), Answer) as server:
        port.put(server.server_address[1])
        server.serve_forever()


class Batches(Dataset):
    def __init__(self, port: int) -> None:
        self.port = port

    def __len__(self) -> int:
        return 1900

    def __getitem__(self, index: int) -> torch.Tensor:
        with socket.create_connection(("127.0.0.1", self.port)) as asked, asked.makefile("rb") as answer:
            asked.sendall(b"%d" % index)
            return torch.frombuffer(bytearray(answer.read()), dtype=torch.uint8).reshape(SIZE, LENGTH).float()


def main() -> None:
    args = kit.settings(ZOO, num_workers=6, threads=False)
    torch.set_num_threads(1)
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(port, args.threads), daemon=True)
    server.start()
    model = torch.nn.Linear(LENGTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    pace = kit.Pace()
    for batch in DataLoader(Batches(port.get()), batch_size=None, shuffle=True, num_workers=args.num_workers):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(batch))
    server.terminate()


if __name__ == "__main__":
    main()
