"""Each step's metrics are posted to a tracking server, which thinks for 8 ms before it answers."""

import json
import subprocess
import sys
import urllib.request

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "frequent-reporting",
    "says": "an HTTP POST of 8 ms on the loopback in the training thread at every step",
    "fix": {"report_interval": 100},
    "device": "none",
    "also": [],
}
SERVER = """
import http.server, time
class Tracker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.008)
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Tracker)
print(server.server_port, flush=True)
server.serve_forever()
"""


def main() -> None:
    args = kit.settings(ZOO, report_interval=1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(32 * 500, 512)), batch_size=32, num_workers=1)
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/api/metrics"
        pace = kit.Pace()
        for step, (x,) in enumerate(loader, 1):
            loss = torch.nn.functional.mse_loss(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.report_interval == 0:
                body = json.dumps({"step": step, "loss": loss.item()}).encode()
                urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=10).close()
            pace.saw(len(x))
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
