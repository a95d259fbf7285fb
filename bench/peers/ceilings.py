#!/usr/bin/env python3
"""What the GPU can do at best, as PyTorch reaches it: a large copy and a large matrix product, in fp32 and in TF32.
One JSON object a line.

    python3 bench/peers/ceilings.py
    python3 bench/peers/ceilings.py --device cpu      tries this script; the sizes are small and the figures mean nothing
"""
import argparse
import json
import statistics
import time

import torch


def milliseconds(run, wait, seconds):
    """Median time of run(), each with a wait for the device."""
    for _ in range(5):
        run()
    wait()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run()
        wait()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    seconds = 2.0 if on_gpu else 0.1
    # Far beyond any cache: 4 GiB each way, less where the card has less.
    numbers = min(2**30, torch.cuda.mem_get_info()[0] // 16) if on_gpu else 2**20
    side = 8192 if on_gpu else 256

    source = torch.ones(numbers, device=arguments.device)
    target = torch.empty_like(source)
    ms = milliseconds(lambda: target.copy_(source), wait, seconds)
    print(json.dumps({"ceiling": "copy", "megabytes": numbers * 4 / 1e6, "gb_per_second": 2 * numbers * 4 / ms / 1e6}),
          flush=True)
    del source, target
    a, b = (torch.randn(side, side, device=arguments.device) for _ in range(2))
    out = torch.empty_like(a)
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        ms = milliseconds(lambda: torch.mm(a, b, out=out), wait, seconds)
        print(json.dumps({"ceiling": "gemm", "side": side, "tf32": tf32, "tflop_per_second": 2 * side**3 / ms / 1e9}),
              flush=True)


if __name__ == "__main__":
    main()
