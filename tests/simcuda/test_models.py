"""Real modules of torch run on it: nothing ends in something that is not there."""

from collections.abc import Callable
from typing import Any

Maker = Callable[..., Any]
STEPS = """
from torch import nn
def step(model, *inputs, loss=lambda out: out.float().sum(), **how):
    model = model.to(device); optimizer = torch.optim.AdamW(model.parameters(), **how)
    for _ in range(2):
        optimizer.zero_grad(); loss(model(*inputs)).backward(); optimizer.step()
    sync(); print("ok")
"""


def test_convolutions_attention_embeddings_and_recurrent_nets(machine: Maker) -> None:
    code = """
class Attention(nn.Module):
    def __init__(self): super().__init__(); self.project = nn.Linear(64, 192)
    def forward(self, x):
        q, k, v = self.project(x).view(8, 32, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
image, words = torch.randn(4, 3, 32, 32, device=device), torch.randint(0, 99, (64,), device=device)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=2),
                    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
step(net, image, fused=True)
step(net.to(memory_format=torch.channels_last), image.to(memory_format=torch.channels_last), foreach=True)
step(nn.Sequential(nn.ConvTranspose2d(3, 8, 4, 2, 1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Upsample(scale_factor=2)), image)
step(nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2), torch.randn(8, 32, 64, device=device))
step(Attention(), torch.randn(8, 32, 64, device=device))
step(Attention().bfloat16(), torch.randn(8, 32, 64, device=device, dtype=torch.bfloat16))
step(nn.EmbeddingBag(100, 16, mode="sum"), words, torch.arange(0, 64, 4, device=device))
step(nn.Embedding(100, 16), words)
for kind in (nn.LSTM, nn.GRU):
    step(kind(16, 32, 2, batch_first=True), torch.randn(4, 10, 16, device=device), loss=lambda out: out[0].sum())
"""
    assert machine().run(STEPS + code) == ["ok"] * 10


def test_a_compiled_model_runs_tritons_kernels(machine: Maker) -> None:
    made = machine()
    code = """
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)).to(device)
step(torch.compile(model), torch.randn(8, 64, device=device))
"""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(made.folder / "cache"), "TRITON_CACHE_DIR": str(made.folder / "triton")}
    trace = made.folder / "trace%p"
    assert made.run(STEPS + code, cache, trace=trace) == ["ok"]
    assert any("triton_" in file.read_text() for file in made.folder.glob("trace*"))
