#!/usr/bin/env bash
# What making a batch costs beside the training step that it feeds, for every task at the paper's size
# (bench/configs/paper.toml: 128 rows, lengths 1 to 40), as a Markdown table; under two minutes on an idle machine.
#   bench/batch_cost.sh [THREADS] [TASK...]      default: all processors, every task
# BUILD=DIR chooses the build folder (default: build), STEPS the timed steps of each task (default: 40).
set -euo pipefail
cd "$(dirname "$0")/.."
program=${BUILD:-build}/longshot
threads=${1:-$(nproc)}
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A megabyte of text, and 16,384 lines of 1 to 40 bytes with a target each.
for ((i = 0; i < 16384; ++i)); do
  echo "line $i: the quick brown fox jumps over the lazy dog, again and again"
done >"$work/text"
awk 'BEGIN { for (i = 0; i < 16384; ++i) { s = ""; for (j = 0; j <= (i * 7) % 40; ++j) s = s char(i * j);
       printf "{\"input\": \"%s\", \"target\": \"%s\"}\n", s, s } }
     function char(n) { return substr("abcdefghijklmnopqrstuvwxyz", n % 26 + 1, 1) }' >"$work/lines"

tasks=("$@")
if ((${#tasks[@]} == 0)); then
  mapfile -t tasks < <("$program" list tasks | sed -n 's/^\[task\] type = "\([a-z_]*\)".*/\1/p')
  tasks+=("jsonl, placeholders" "text, masked")
fi
printf '| task | batch, ms | step, ms | share |\n|---|--:|--:|--:|\n'
for task in "${tasks[@]}"; do
  type=${task%%,*} extra=()
  case $task in
    text) extra=(model.causal=true) ;;
    "text, masked") extra=('task.objective="masked"') ;;
    "jsonl, placeholders") extra=('task.target="placeholders"') ;;
  esac
  case $type in
    text) extra+=("task.corpus=$work/text") ;;
    jsonl) extra+=("task.train=$work/lines" "task.test=$work/lines") ;;
  esac
  # Tasks whose targets are later inputs want a causal model, and say so when they do not get one.
  result=$("$program" bench bench/configs/paper.toml --threads "$threads" --device cpu --json --steps "${STEPS:-40}" \
             "task.type=$type" "${extra[@]}" 2>"$work/errors") ||
    result=$("$program" bench bench/configs/paper.toml --threads "$threads" --device cpu --json --steps "${STEPS:-40}" \
               "task.type=$type" model.causal=true "${extra[@]}" 2>"$work/errors") ||
    { cat "$work/errors" >&2; exit 1; }
  awk -v task="$task" '
    function number(key) { return match($0, "\"" key "\": *[-+0-9.e]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0 }
    { printf "| %s | %.3f | %.1f | %.2f %% |\n", task, number("batch_ms"), number("mean_ms"), 100 * number("batch_share") }' <<<"$result"
done
