"""PyTorch's training step for compare.py: a process that is told how many steps to do and says how long each took.

    python peer.py CONFIG --mode eager|compile|compile-graphs --threads N [--device cuda] [--tf32]

First line out: {"ready": ...} when everything is compiled and warm. Then for each line in, {"lengths": [T, ...]}
(the model's length of every step), one line out: {"ms": [...], "process_mb_peak": ...}. A step is zero_grad, forward,
loss, backward, clip_grad_norm, AdamW and, on a GPU, the wait for it; making the batch is not timed.
"compile-graphs" is torch.compile's mode "reduce-overhead", which replays CUDA graphs.
"""
import argparse
import json
import os
import sys
import time


def process_mb(name):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    return 0.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--mode", choices=("eager", "compile", "compile-graphs"), default="eager")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tf32", action="store_true", help="matrix products in TF32")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)

    import torch

    from model import Config, Model

    torch.set_num_threads(arguments.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    on_gpu = arguments.device == "cuda"
    before = process_mb("VmRSS")
    config = Config(arguments.config)
    model = Model(config).to(arguments.device)
    model.train()
    loss_of = {"eager": lambda: model, "compile": lambda: torch.compile(model),
               "compile-graphs": lambda: torch.compile(model, mode="reduce-overhead")}[arguments.mode]()
    parameters = list(model.parameters())
    try:
        optimizer = torch.optim.AdamW(parameters, lr=config.lr, weight_decay=0.0, fused=True)
        fused = True
    except (RuntimeError, ValueError):
        optimizer = torch.optim.AdamW(parameters, lr=config.lr, weight_decay=0.0)
        fused = False

    generator = torch.Generator().manual_seed(2)
    batches = {}  # a few for each length, made before they are needed

    def batch_at(length, index):
        if length not in batches:
            batches[length] = [tuple(each.to(arguments.device) for each in config.batch_of(length, generator))
                               for _ in range(4)]
        return batches[length][index % 4]

    def step(tokens, targets):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss

    lengths = config.model_lengths()
    warm_up = [max(lengths)] * 3 + lengths[::-1] + [max(lengths)] * 2
    first_loss = None
    for index, length in enumerate(warm_up):
        loss = step(*batch_at(length, index))
        if first_loss is None:
            first_loss = loss.item()
    print(json.dumps({"ready": True, "torch": torch.__version__, "mode": arguments.mode, "fused_adamw": fused,
                      "device": torch.cuda.get_device_name() if on_gpu else "cpu", "tf32": arguments.tf32,
                      "threads": torch.get_num_threads(), "parameters": model.parameter_count(),
                      "classes": config.classes, "first_loss": first_loss, "process_mb_before": before}), flush=True)

    for line in sys.stdin:
        todo = json.loads(line)["lengths"]
        took = []
        for index, length in enumerate(todo):
            tokens, targets = batch_at(length, index)
            begin = time.perf_counter()
            step(tokens, targets)
            if on_gpu:
                torch.cuda.synchronize()
            took.append(1e3 * (time.perf_counter() - begin))
        print(json.dumps({"ms": took, "process_mb_peak": process_mb("VmHWM")}), flush=True)


if __name__ == "__main__":
    main()
