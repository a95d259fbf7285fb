#!/usr/bin/env bash
# Prints every table of docs/performance.md anew, as Markdown; about five minutes for each number of threads.
#   bench/measure.sh [THREADS...]      default: 1 and all processors
# BUILD=DIR chooses the build folder (default: build-bench). Needs Google Benchmark; OpenBLAS is compared
# where its development package is installed. Anything else that runs makes the figures worthless.
set -euo pipefail
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
build=${BUILD:-build-bench}
if [ $# -gt 0 ]; then threads=("$@"); else threads=(1 "$(nproc)"); fi
[ "${threads[0]}" = "${threads[1]:-}" ] && threads=("${threads[0]}")

cmake -S . -B "$build" -G Ninja -DLONGSHOT_BENCH=ON -DLONGSHOT_TESTS=OFF >/dev/null
cmake --build "$build" --target longshot bench_kernels >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# kernels THREADS FILTER: name;ms;bytes/s and then share of peak, time of the peer over ours, time over that of
# the traffic, each 0 where a benchmark has none. A line for each.
kernels() {
  "$build/bench/bench_kernels" --threads="$1" --benchmark_filter="$2" --benchmark_format=csv 2>"$work/context" | awk -F, '
      function of(key) { return column[key] ? $column[key] + 0 : 0 }
      /^name,/ { for (i = 1; i <= NF; ++i) { gsub(/"/, "", $i); column[$i] = i } next }
      column["name"] { name = $1; gsub(/"|\/iterations.*/, "", name)
        scale = $column["time_unit"] == "ns" ? 1e-6 : $column["time_unit"] == "us" ? 1e-3 : 1
        print name ";" of("real_time") * scale ";" of("bytes_per_second") ";" of("share_of_peak") ";" of("times_peer") ";" of("over_traffic") }'
}
# products: lines of kernels as rows of a table, against peak and peer.
products() {
  awk -F';' '{ name = $1; sub(/^[a-z_]*\//, "", name)
    printf "| %s | %.3f | %.1f %% | %s |\n", name, $2, 100 * $4, ($5 > 0 ? sprintf("%.2f", $5) : "-") }'
}
limit() { sed -n "s/^$1: *//p" "$work/context" | head -1; }

echo "Machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) processors; load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "Compiler: $(c++ --version | head -1); commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"

for t in "${threads[@]}"; do
  kernels "$t" '^(gemm|openblas)/' >"$work/gemm"
  printf '\n### %s thread(s): FMA peak %s GFLOP/s, bandwidth %s GB/s\n' "$t" "$(limit fma_peak_gflops)" "$(limit bandwidth_gb_per_s)"
  openblas=$(limit openblas_kernels)
  [ -z "$openblas" ] || echo "OpenBLAS took its kernels for: $openblas"
  printf '\n| matrix product (rows x inner x columns / transposed) | ms | share of peak | times OpenBLAS |\n|---|---|---|---|\n'
  awk -F';' -v OFS=';' '{ key = $1; sub(/^[a-z]*\//, "", key) } $1 ~ /^gemm/ { order[++n] = key; line[key] = $0 } $1 ~ /^openblas/ { ms[key] = $2 }
    END { for (i = 1; i <= n; ++i) { $0 = line[order[i]]; $5 = ms[order[i]] / $2; print } }' "$work/gemm" | products
  printf '\n| attention (batch x heads x length x head width), forward + backward | ms | share of peak | times the composition |\n|---|---|---|---|\n'
  kernels "$t" '^attention/' | products
  printf '\n| memory-bound kernel (/ row length) | ms | GB/s | time over what its traffic needs |\n|---|---|---|---|\n'
  kernels "$t" '^(copy|read|gelu|gelu_backward|dropout|layer_norm|layer_norm_backward|cross_entropy|cross_entropy_backward|adamw)(/|$)' |
    awk -F';' '{ printf "| %s | %.1f | %.2f | %.2f |\n", $1, $2, 1e-9 * $3, $6 }'
done

printf '\n| whole step | threads | ms (10 %% to 90 %%) | tokens/s | GFLOP/s | share of peak | MB |\n|---|---|---|---|---|---|---|\n'
for config in bench/configs/*.toml; do
  [ -e "$config" ] || continue
  for t in "${threads[@]}"; do
    "$build/longshot" bench "$config" --threads "$t" --device cpu --json --steps "${STEPS:-12}" 2>/dev/null | awk -v t="$t" -v name="$(basename "$config" .toml)" '
      function number(key) { return match($0, "\"" key "\": *[-+0-9.e]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0 }
      { printf "| %s | %s | %.1f (%.1f to %.1f) | %.0f | %.1f | %.1f %% | %.0f |\n", name, t, number("median_ms"), number("p10_ms"), number("p90_ms"),
          number("tokens_per_second"), number("gflop_per_second"), 100 * number("share_of_peak"), number("memory_mb") }'
  done
done
