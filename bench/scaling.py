#!/usr/bin/env python3
"""How cost grows: with length, with the encoding, with evaluation length, with threads, with jobs side by side.

    bench/scaling.py [--only length,encodings,evaluation,threads,sweep] [--threads 2] [--json FILE]

Needs a built `longshot` and Python 3.9 alone. Each part prints a markdown table. Cost relative to `none` is measured
pair by pair (none, encoding, none, ...), median ratio of the rounds with the smallest and largest.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENCODINGS_BY_LENGTH = ["none", "rope", "alibi", "t5", "transformer_xl"]
LENGTHS = [64, 128, 256, 512, 1024, 2048, 4096]
EVALUATION_LENGTHS = [1024, 2048, 4096, 8192, 16384]
TOKENS = 4096


class Refused(Exception):
    """longshot said that this cannot be (exit code 2), with its message."""


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.steps = {}  # of each model, that fill the time

    def program(self, words):
        done = subprocess.run([self.arguments.longshot, *map(str, words)], capture_output=True, text=True)
        if done.returncode == 2:
            raise Refused(done.stderr.strip())
        if done.returncode != 0:
            sys.exit(f"scaling.py: longshot {' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr}")
        return done.stdout

    def step(self, model, overrides=(), threads=None, steps=None):
        words = ["bench", ROOT / "bench" / "configs" / f"{model}.toml", *overrides, "--json", "--device", "cpu",
                 "--threads", threads or self.arguments.threads]
        if steps is None:  # as many as fill the time
            probe = json.loads(self.program(words + ["--steps", 3]))
            steps = max(3, min(2000, round(1e3 * self.arguments.seconds / probe["median_ms"])))
        got = json.loads(self.program(words + ["--steps", steps]))
        print(f"{model} {' '.join(overrides)}: {got['median_ms']:.2f} ms", file=sys.stderr, flush=True)
        return got

    def steps_of_none(self, model):
        if model not in self.steps:
            self.steps[model] = self.step(model, ["encoding.type=none"])["steps"]
        return self.steps[model]

    def relative(self, model, encoding, steps):
        """Median, smallest and largest of encoding / none over the rounds; and whether the model had to be causal."""
        def pair(extra):
            ratios = []
            for index in range(self.arguments.rounds):
                order = ["none", encoding] if index % 2 == 0 else [encoding, "none"]
                ms = {each: self.step(model, ["encoding.type=" + each, *extra], steps=steps)["median_ms"]
                      for each in order}
                ratios.append(ms[encoding] / ms["none"])
            return statistics.median(ratios), min(ratios), max(ratios)
        try:
            return (*pair([]), False)
        except Refused as refused:
            if "causal" not in str(refused):
                raise
            return (*pair(["model.causal=true"]), True)


def table(title, head, rows):
    print(f"\n**{title}**\n\n| " + " | ".join(head) + " |\n|---" + "|--:" * (len(head) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


def available_bytes():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return 0


def by_length(bench):
    rows, result = [], []
    layers, heads = 5, 8  # of the tiny model
    for length in LENGTHS:
        row = [str(length)]
        base = None
        for encoding in ENCODINGS_BY_LENGTH:
            # A dense bias is built whole in training, and kept by every layer with what it is made from.
            if encoding == "transformer_xl" and 4 * layers * heads * length * length * 4 > 0.6 * available_bytes():
                row.append("needs more memory")
                continue
            got = bench.step("tiny", ["encoding.type=" + encoding, f"train.batch={TOKENS // length}",
                                      f"train.lengths.min={length}", f"train.lengths.max={length}"])
            base = base or got["median_ms"]
            result.append({"length": length, **got})
            row.append(f"{got['median_ms']:.2f}" + (f" ({got['median_ms'] / base:.2f})" if encoding != "none" else ""))
        rows.append(row)
    table(f"Training step of the tiny model by length, {TOKENS} tokens a step: ms (relative to none)",
          ["length"] + ENCODINGS_BY_LENGTH, rows)
    return result


def by_encoding(bench):
    names = re.findall(r'^\[encoding\] type = "([^"]+)"', bench.program(["list", "encodings"]), re.M)
    result, rows = [], []
    for name in sorted(set(names) - {"none"}):
        row = [name]
        for model in ("tiny", "medium"):
            steps = bench.steps_of_none(model)
            try:
                middle, low, high, causal = bench.relative(model, name, steps)
            except Refused as refused:
                row.append("refused")
                print(f"{name} at {model}: {refused}", file=sys.stderr)
                continue
            result.append({"model": model, "encoding": name, "ratio": middle, "low": low, "high": high,
                           "causal": causal})
            row.append(f"{middle:.2f} ({low:.2f} to {high:.2f})" + (", causal" if causal else ""))
        rows.append(row)
    table("Training step relative to `none`", ["encoding", "tiny", "medium"], rows)
    return result


def by_evaluation_length(bench):
    lengths = EVALUATION_LENGTHS
    rows, result = [], []
    for encoding in ENCODINGS_BY_LENGTH:
        row = [encoding]
        for length in lengths:
            with tempfile.TemporaryDirectory() as folder:
                words = [bench.arguments.longshot, "run", str(ROOT / "bench/configs/tiny.toml"),
                         "encoding.type=" + encoding, "train.steps=1", "train.batch=2", f"evaluate.lengths=[{length}]",
                         "evaluate.samples=1", "evaluate.batch=1", "evaluate.in_range_samples=1", "--device", "cpu",
                         "--threads", str(bench.arguments.threads), "--out", folder]
                process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                message = process.stderr.read().decode()
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode != 0:
                    sys.exit(f"scaling.py: evaluation of {encoding} at {length}: {message}")
                summary = json.loads(next(Path(folder).rglob("summary.json")).read_text())
            seconds = summary["evaluation"]["seconds"]
            megabytes = usage.ru_maxrss / 1024
            result.append({"encoding": encoding, "length": length, "seconds": seconds, "process_mb_peak": megabytes})
            row.append(f"{seconds:.2f} s, {megabytes:.0f} MB")
        rows.append(row)
    table("One sequence evaluated with the tiny model: time, and the process's peak memory",
          ["encoding"] + [str(each) for each in lengths], rows)
    return result


def by_threads(bench):
    rows, result = [], []
    for model in ("tiny", "paper", "small", "medium", "base"):
        one, two = bench.step(model, threads=1), bench.step(model, threads=2)
        result += [one, two]
        key = "mean_ms" if "lengths" in one else "median_ms"
        rows.append([model, f"{one[key]:.2f}", f"{100 * one['share_of_peak']:.1f} %", f"{two[key]:.2f}",
                     f"{100 * two['share_of_peak']:.1f} %", f"{one[key] / two[key]:.2f}"])
    table("Training step on 1 and 2 threads",
          ["model", "1 thread, ms", "of peak", "2 threads, ms", "of peak", "speedup"], rows)
    return result


def sweep(bench):
    rows, result = [], []
    settings = [("in sequence, 1 thread", 1, 1), ("in sequence, 2 threads", 1, 2), ("2 jobs of 1 thread", 2, 1)]
    for title, jobs, threads in settings:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "sweep.toml"
            config.write_text(f'extends = ["{ROOT}/bench/configs/paper.toml"]\n'
                              f"[train]\nsteps = {bench.arguments.sweep_steps}\ncheckpoint_every = 0\n"
                              f"[sweep]\ngrid = {{ seed = {list(range(1, 17))} }}\n")
            begin = time.perf_counter()
            bench.program(["run", config, "--jobs", jobs, "--threads", threads, "--device", "cpu", "--out", folder])
            seconds = time.perf_counter() - begin
            finished = len(list(Path(folder).rglob("summary.json")))
            if finished != 16:
                sys.exit(f"scaling.py: {finished} of 16 cells finished")
        result.append({"jobs": jobs, "threads": threads, "seconds": seconds, "cells_per_minute": 16 * 60 / seconds})
        rows.append([title, f"{seconds:.1f}", f"{16 * 60 / seconds:.1f}",
                     f"{result[0]['seconds'] / seconds:.2f}"])
    table(f"Sweep of 16 cells of the paper model, {bench.arguments.sweep_steps} steps each",
          ["", "seconds", "cells a minute", "relative"], rows)
    return result


PARTS = {"length": by_length, "encodings": by_encoding, "evaluation": by_evaluation_length, "threads": by_threads,
         "sweep": sweep}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longshot", default=str(ROOT / "build" / "longshot"))
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count()))
    parser.add_argument("--seconds", type=float, default=1.0, help="of steps in each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="pairs for each relative cost")
    parser.add_argument("--sweep-steps", type=int, default=100)
    parser.add_argument("--json", help="where every number goes")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        sys.exit(f"scaling.py: no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    bench = Bench(arguments)
    about = bench.step("tiny", steps=3)
    print(f"{about['device_description']}; {arguments.threads} thread(s) unless said; load {os.getloadavg()[0]:.1f}")
    results = {"about": about}
    for part in arguments.only.split(","):
        results[part] = PARTS[part](bench)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
