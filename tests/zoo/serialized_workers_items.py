"""Each sample is asked of a server that serves one connection at a time, in a run too short to hold workers up."""

import multiprocessing
import socket
import socketserver
import time

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "serialized-workers",
    "says": "two workers ask one server for each of their samples, 25 ms an answer",
    "fix": {"threads": True},
    "device": "none",
    "also": [],
}
BATCH, LENGTH = 4, 256


class Answer(socketserver.BaseRequestHandler):
    """Thinks for a while, and sends a sample."""

    def handle(self) -> None:
        first = int(self.request.recv(16))
        time.sleep(0.025)
        self.request.sendall(first.to_bytes(8, "little") * (LENGTH // 8))


def serve(port: "multiprocessing.Queue[int]", threads: bool) -> None:
    kind = socketserver.ThreadingTCPServer if threads else socketserver.TCPServer
    kind.request_queue_size = 64
    with kind(("127.0.0.1", 0), Answer) as server:
        port.put(server.server_address[1])
        server.serve_forever()


class Samples(Dataset):
    def __init__(self, port: int) -> None:
        self.port = port

    def __len__(self) -> int:
        return BATCH * 180

    def __getitem__(self, index: int) -> torch.Tensor:
        with socket.create_connection(("127.0.0.1", self.port)) as asked, asked.makefile("rb") as answer:
            asked.sendall(b"%d" % index)
            return torch.frombuffer(bytearray(answer.read()), dtype=torch.uint8).float()


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, threads=False)
    torch.set_num_threads(1)
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(port, args.threads), daemon=True)
    server.start()
    model = torch.nn.Linear(LENGTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    pace = kit.Pace()
    for batch in DataLoader(Samples(port.get()), BATCH, shuffle=True, num_workers=args.num_workers):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(batch))
    server.terminate()


if __name__ == "__main__":
    main()
