#!/usr/bin/env python3
"""Do the peer's models compute what ours do? Trains ours a few steps, loads its checkpoint into PyTorch, compares
logits on sequences of several lengths. Run it with the Python that has torch:

    bench/peers/venv/bin/python bench/peers/check.py [--longshot PATH] [--models tiny,paper]
"""
import argparse
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from model import Config, Model

ROOT = Path(__file__).resolve().parent.parent.parent


def read_safetensors(path):
    data = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            raw = bytearray(data[8 + size + begin:8 + size + end])
            tensors[name] = torch.frombuffer(raw, dtype=torch.float32).reshape(entry["shape"])
    return tensors


def check(longshot, name):
    path = ROOT / "bench" / "configs" / f"{name}.toml"
    config = Config(path)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([longshot, "run", str(path), "train.steps=3", "train.batch=2", "evaluate.samples=2",
                        "evaluate.in_range_samples=2", "evaluate.batch=2", "--device", "cpu", "--out", folder],
                       check=True, capture_output=True, text=True)
        (checkpoint,) = Path(folder).rglob("checkpoint.safetensors")
        weights = read_safetensors(checkpoint)
        generator = torch.Generator().manual_seed(3)
        longest = config.longest
        inputs = [torch.randint(config.classes, (n,), generator=generator)
                  for n in (longest, max(1, longest // 3), 2)]
        text = "".join(" ".join(str(int(i)) for i in each) + "\n" for each in inputs)
        answer = subprocess.run([longshot, "predict", str(checkpoint.parent), "--logits", "--device", "cpu"],
                                input=text, check=True, capture_output=True, text=True).stdout
    model = Model(config).eval()
    names = model.longshot_names()
    if set(names) != set(weights):
        sys.exit(f"{name}: parameters that only one side has: {sorted(set(names) ^ set(weights))}")
    with torch.no_grad():
        for key, parameter in names.items():
            parameter.copy_(weights[key])
        worst = 0.0
        for each, line in zip(inputs, answer.splitlines(), strict=True):
            tokens = torch.cat([each, torch.full_like(each, config.classes)]) if config.placeholders else each
            expected = model.logits(tokens[None])[0]
            got = torch.tensor(json.loads(line)["logits"])
            worst = max(worst, float((expected - got).abs().max()))
    print(f"{name}: {model.parameter_count()} parameters, logits differ by at most {worst:.1e}")
    if not worst < 1e-4:
        sys.exit(f"{name}: the models are not the same")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--longshot", default=str(ROOT / "build" / "longshot"))
    parser.add_argument("--models", default="tiny,paper,small,medium,base")
    arguments = parser.parse_args()
    for name in arguments.models.split(","):
        check(arguments.longshot, name)


if __name__ == "__main__":
    main()
