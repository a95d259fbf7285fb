"""PyTorch's side of bench/device_check.sh: the machine's ceilings, and the training steps of bench/configs/ eager and
compiled. One JSON object a line.

    python3 bench/device_check_torch.py ceilings | eager | compile

The model is the one of those configs (pre-norm, GELU, learned positions, no dropout, fp32 or TF32) in PyTorch's
fastest ordinary form: fused attention, fused AdamW, gradients clipped by their norm, nothing read back inside a step.
"""

import json
import pathlib
import statistics
import sys
import time
import tomllib

import torch
from torch import nn

FOLDER = pathlib.Path(__file__).parent / "configs"
MODELS = ["tiny", "base", "small", "medium"]  # what is compared first, first


def milliseconds(run, seconds=2.0, warm_up=5):
    """Median time of run(), each with a wait for the device."""
    for _ in range(warm_up):
        run()
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def report(**values):
    print(json.dumps(values), flush=True)


def ceilings():
    source = torch.empty(2**30, device="cuda")
    target = torch.empty_like(source)
    ms = milliseconds(lambda: target.copy_(source))
    report(ceiling="copy", gb_per_second=2 * source.numel() * 4 / ms / 1e6)
    del source, target
    a, b = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        ms = milliseconds(lambda: a @ b)
        report(ceiling="gemm", tf32=tf32, tflop_per_second=2 * 8192**3 / ms / 1e9)


class Model(nn.Module):
    def __init__(self, dim, layers, heads, ffn, symbols, length):
        super().__init__()
        self.tokens = nn.Embedding(symbols, dim)
        self.positions = nn.Parameter(0.02 * torch.randn(length, dim))
        layer = nn.TransformerEncoderLayer(
            dim, heads, ffn, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.stack = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, symbols)

    def forward(self, tokens):
        return self.head(self.stack(self.tokens(tokens) + self.positions))


def step_of(name, tf32, compiled):
    config = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.manual_seed(1)
    shape, symbols = config["model"], config["task"]["symbols"]
    batch, length = config["train"]["batch"], config["train"]["lengths"]["max"]
    model = Model(shape["dim"], shape["layers"], shape["heads"], shape["ffn"], symbols, length).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    tokens = torch.randint(symbols, (batch, length), device="cuda")

    def forward(tokens):
        logits = model(tokens)
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    if compiled:
        forward = torch.compile(forward, mode=compiled)

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    return step


def steps(modes):
    for name in MODELS:
        for mode in modes:
            for tf32 in (False, True):
                ms = milliseconds(step_of(name, tf32, mode))
                report(model=name, mode=mode or "eager", tf32=tf32, median_ms=ms, steps_per_second=1e3 / ms)
                torch.compiler.reset()


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "ceilings":
        ceilings()
    elif what == "eager":
        steps([None])
    else:
        steps(["default", "reduce-overhead"])
