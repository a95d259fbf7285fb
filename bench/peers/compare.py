#!/usr/bin/env python3
"""Longshot's training step against PyTorch's, in turn, pair by pair, on the same number of threads.

    bench/peers/setup.sh
    bench/peers/compare.py [--models tiny,paper] [--threads 2] [--rounds 5] [--json FILE] [--device cuda [--tf32]]

Each round measures ours and theirs one after the other, the order changing from round to round, with the same
lengths in the same order; a ratio is theirs / ours of one round (medians of step times; means where lengths vary).
Reported is the median ratio with the smallest and the largest. "Undisturbed" takes of each step the fastest of all
rounds, on both sides, and compares the means: what is left where other machines on the same hardware come and go.
Memory is the most each process had, and in brackets that less what it had before it made a model (the program, or
Python with PyTorch).
Keep the machine quiet: the ratios forgive a slow machine, not a busy one.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def ours(arguments, config, steps):
    command = [arguments.longshot, "bench", str(config), "--json", "--threads", str(arguments.threads), "--device",
               arguments.device, "--steps", str(steps), f"device.tf32={str(arguments.tf32).lower()}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Peer:
    def __init__(self, arguments, config, mode):
        environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
        self.process = subprocess.Popen(
            [arguments.python, str(HERE / "peer.py"), str(config), "--mode", mode, "--threads", str(arguments.threads),
             "--device", arguments.device] + ["--tf32"] * arguments.tf32,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare.py: peer.py ended early (exit code {self.process.wait()})")
        return json.loads(line)

    def measure(self, lengths):
        self.process.stdin.write(json.dumps({"lengths": lengths}) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def load_average():
    return os.getloadavg()[0]


def compare(arguments, name, modes):
    config = ROOT / "bench" / "configs" / f"{name}.toml"
    first = ours(arguments, config, 8)
    varying = "lengths" in first
    steps = max(60 if varying else 10, min(3000, round(1e3 * arguments.seconds / first["mean_ms"])))
    result = {"model": name, "threads": first["threads"], "steps": steps, "parameters": first["parameters"],
              "ours": [], "modes": {}}
    for mode in modes:
        peer = Peer(arguments, config, mode)
        about = peer.about
        if about["parameters"] != first["parameters"]:
            sys.exit(f"compare.py: {name}: PyTorch's model has {about['parameters']} parameters, ours "
                     f"{first['parameters']}")
        # Untrained logits have unit variance: the loss is about half a nat above that of guessing.
        for who, loss in (("ours", first["first_loss"]), ("PyTorch", about["first_loss"])):
            if abs(loss - math.log(about["classes"])) > 1.0:
                sys.exit(f"compare.py: {name}: first loss of {who} is {loss:.3f}, ln(classes) is "
                         f"{math.log(about['classes']):.3f}")
        rounds, mine_by_step, theirs_by_step = [], [], []
        for index in range(arguments.rounds):
            if index % 2 == 0 or varying:
                mine = ours(arguments, config, steps)
                theirs = peer.measure(mine.get("lengths", [fixed_length(config)] * steps))
            else:
                theirs = peer.measure([fixed_length(config)] * steps)
                mine = ours(arguments, config, steps)
            middle = statistics.fmean if varying else statistics.median
            my_ms = mine["mean_ms" if varying else "median_ms"]
            their_ms = middle(theirs["ms"])
            mine_by_step.append(mine["ms"])
            theirs_by_step.append(theirs["ms"])
            rounds.append({"ours_ms": my_ms, "theirs_ms": their_ms, "ratio": their_ms / my_ms,
                           "load": load_average()})
            result["ours"].append(mine)
        peer.close()
        ratios = [each["ratio"] for each in rounds]
        mine_best, theirs_best = (statistics.fmean(map(min, zip(*each))) for each in (mine_by_step, theirs_by_step))
        result["modes"][mode] = {
            "about": about, "rounds": rounds, "ms": statistics.median(each["theirs_ms"] for each in rounds),
            "ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios),
            "undisturbed": theirs_best / mine_best, "undisturbed_ms": [mine_best, theirs_best],
            "process_mb_peak": theirs["process_mb_peak"],
            "model_mb": theirs["process_mb_peak"] - about["process_mb_before"]}
        print(f"{name} {mode}: {result['modes'][mode]['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
              f"undisturbed {theirs_best:.2f} / {mine_best:.2f} = {theirs_best / mine_best:.2f}",
              file=sys.stderr, flush=True)
    mine = result["ours"]
    # All rounds do the same steps, so of each the fastest can be taken, and the best peak.
    fastest = statistics.fmean(map(min, zip(*(each["ms"] for each in mine))))
    operations = mine[0]["gflop_per_second"] * mine[0]["mean_ms"]
    result["undisturbed_ms"] = fastest
    result["undisturbed_share"] = operations / fastest / max(each["peak_gflop_per_second"] for each in mine)
    result["ms"] = statistics.median(each["mean_ms" if varying else "median_ms"] for each in mine)
    result["share_of_peak"] = statistics.median(each["share_of_peak"] for each in mine)
    result["process_mb_peak"] = max(each["process_mb_peak"] for each in mine)
    result["model_mb"] = result["process_mb_peak"] - mine[0]["process_mb_before"]
    return result


def fixed_length(config):
    import tomllib
    with open(config, "rb") as file:
        return tomllib.load(file)["train"]["lengths"]["max"]


def table(results, modes, on_cpu):
    head = ["model", "ours ms"] + ["of FMA peak", "undisturbed"] * on_cpu
    for mode in modes:
        head += [f"{mode} ms", f"{mode} / ours", "undisturbed"]
    head += ["ours MB"] + [f"{mode} MB" for mode in modes]
    print("| " + " | ".join(head) + " |")
    print("|---" + "|--:" * (len(head) - 1) + "|")
    for each in results:
        row = [each["model"], f"{each['ms']:.2f}"] + [f"{100 * each['share_of_peak']:.1f} %",
                                                        f"{100 * each['undisturbed_share']:.1f} %"] * on_cpu
        for mode in modes:
            theirs = each["modes"][mode]
            row += [f"{theirs['ms']:.2f}",
                    f"{theirs['ratio']:.2f} ({theirs['ratio_low']:.2f} to {theirs['ratio_high']:.2f})",
                    f"{theirs['undisturbed']:.2f}"]
        row.append(f"{each['process_mb_peak']:.0f} ({each['model_mb']:.0f})")
        row += [f"{each['modes'][m]['process_mb_peak']:.0f} ({each['modes'][m]['model_mb']:.0f})" for m in modes]
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longshot", default=str(ROOT / "build" / "longshot"))
    parser.add_argument("--python", default=str(HERE / "venv" / "bin" / "python"), help="one that has torch")
    parser.add_argument("--models", default="tiny,paper,small,medium,base")
    parser.add_argument("--modes", default="eager,compile", help="of eager, compile, compile-graphs")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tf32", action="store_true", help="matrix products in TF32, on both sides")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of our steps in each round")
    parser.add_argument("--json", help="where every number goes")
    arguments = parser.parse_args()
    for path, what in ((arguments.longshot, "--longshot: build it first"),
                       (arguments.python, "--python: run bench/peers/setup.sh first")):
        if not Path(path).exists():
            sys.exit(f"compare.py: {path} does not exist ({what})")
    modes = arguments.modes.split(",")
    results = []
    for name in arguments.models.split(","):
        results.append(compare(arguments, name, modes))
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(results, indent=1))
    about = results[0]["modes"][modes[0]]["about"]
    machine = results[0]["ours"][0]["device_description"]
    print(f"PyTorch {about['torch']}, {arguments.threads} thread(s), {machine}, load {load_average():.1f}\n")
    table(results, modes, arguments.device == "cpu")


if __name__ == "__main__":
    main()
