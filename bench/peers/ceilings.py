#!/usr/bin/env python3
"""What the GPU can do at best, as PyTorch reaches it: a large copy and a large matrix product, in fp32 and in TF32.
One JSON object a line.

    python3 bench/peers/ceilings.py
"""
import json
import statistics
import time

import torch


def milliseconds(run, seconds=2.0):
    """Median time of run(), each with a wait for the device."""
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main():
    source = torch.empty(2**30, device="cuda")
    target = torch.empty_like(source)
    ms = milliseconds(lambda: target.copy_(source))
    print(json.dumps({"ceiling": "copy", "gb_per_second": 2 * source.numel() * 4 / ms / 1e6}), flush=True)
    del source, target
    a, b = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        ms = milliseconds(lambda: a @ b)
        print(json.dumps({"ceiling": "gemm", "tf32": tf32, "tflop_per_second": 2 * 8192**3 / ms / 1e9}), flush=True)


if __name__ == "__main__":
    main()
