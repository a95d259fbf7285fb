#!/usr/bin/env bash
# Everything to be seen on a machine with a GPU, in under eight minutes, in one go:
#
#   bench/device_check.sh pack     here, where the packages are installed: gathers them in build-device-packages/
#   bench/device_check.sh [OUT]    there, needing only a compiler, CMake, Ninja, CUDA and PyTorch (no network)
#
# Each stage writes OUT/<stage>.json when it ends (OUT: device-check unless named), and a stage whose JSON says "ok"
# is not run again, so a run that was cut short goes on where it stopped. The log of a stage lies beside it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=$PWD/build-device-packages
build=$PWD/build-device

if [[ ${1:-} == pack ]]; then
  set -e
  rm -rf "$packages"
  mkdir -p "$packages"
  for package in libfmt-dev libfmt9 libfmt10 libspdlog-dev libspdlog1.10 libspdlog1.12 libtomlplusplus-dev \
                 libtomlplusplus3 libcli11-dev nlohmann-json3-dev libgmp-dev libgmp10 catch2 pkgconf pkgconf-bin \
                 libpkgconf3; do
    dpkg -L "$package" 2>/dev/null | grep -E '/(include|cmake|pkgconfig|bin)/|\.(so|a)([.0-9]*)$' |
      grep -v /doc/ | while read -r file; do
        if [[ -f $file || -L $file ]]; then cp -P --parents "$file" "$packages"; fi
      done
  done
  echo "packed $(du -sh "$packages" | cut -f1) in $packages"
  exit 0
fi

mkdir -p "${1:-device-check}"
out=$(cd "${1:-device-check}" && pwd)
if [[ -d $packages ]]; then
  libraries=$(echo "$packages"/usr/lib/*-linux-gnu)
  export CMAKE_PREFIX_PATH=$packages/usr CMAKE_LIBRARY_PATH=$libraries CMAKE_INCLUDE_PATH=$packages/usr/include
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export CPATH=$packages/usr/include PKG_CONFIG_SYSROOT_DIR=$packages
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$packages/usr/share/pkgconfig:$packages/usr/lib/pkgconfig
  command -v pkg-config >/dev/null || export PATH=$PATH:$packages/usr/bin
fi
export LONGSHOT_CUDA_MODULE=$build/liblongshot_cuda.so
limit=470  # seconds for everything; later stages give way

# stage NAME SECONDS COMMAND...: runs it unless it is done; its JSON holds its outcome, its time and what the command
# printed on lines that begin with "{".
stage() {
  local name=$1 most=$2 begin=$SECONDS code=0 left=$((limit - SECONDS)) results
  shift 2
  if grep -q '"ok": true' "$out/$name.json" 2>/dev/null; then
    echo "== $name: done before"
    return 0
  fi
  if ((left < 10)); then
    echo "== $name: no time left"
    return 1
  fi
  timeout "$((most < left ? most : left))" "$@" >"$out/$name.log" 2>&1 || code=$?
  results=$(grep '^{' "$out/$name.log" | paste -sd, -)
  printf '{"stage": "%s", "ok": %s, "exit_code": %d, "seconds": %d, "results": [%s]}\n' "$name" \
         "$([[ $code == 0 ]] && echo true || echo false)" "$code" "$((SECONDS - begin))" "$results" >"$out/$name.json"
  echo "== $name: exit code $code after $((SECONDS - begin)) s"
  ((code == 0)) || tail -n 15 "$out/$name.log"
  return "$code"
}

build_all() {
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .) || return 1
  cmake -S . -B "$build" -G Ninja -DLONGSHOT_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$architecture" &&
    ninja -C "$build" longshot longshot_cuda test_cuda test_core test_nn
}

tests_on_device() {
  local operations
  operations=$(printf ',[#%s]' $(basename -s .cpp -a tests/core/ops/*_test.cpp))
  export LONGSHOT_TEST_DEVICE=cuda LONGSHOT_TEST_BACKEND=cuda
  local failed=0
  "$build/tests/test_cuda" '~[emulator]~[device]~[checked]' || failed=1
  "$build/tests/test_core" -\# "${operations:1}" || failed=1
  "$build/tests/test_nn" -\# '[#conformance_test]' || failed=1
  return "$failed"
}

checked() {
  LONGSHOT_TEST_DEVICE=cuda "$build/tests/test_cuda" '[checked]'
}

# Two runs and one without recording: one sum of all parameters.
equal_bits() {
  local folder first="" name
  folder=$(mktemp -d)
  for name in a b eager; do
    "$build/longshot" run bench/configs/paper.toml --device cuda --out "$folder/$name" train.steps=300 \
      train.evaluate_every=0 "device.capture=$([[ $name == eager ]] && echo false || echo true)" || return 1
    local sum
    sum=$(grep -rho '"parameters_sha256": *"[0-9a-f]*"' "$folder/$name" --include=summary.json | head -1)
    [[ -n $sum ]] || return 1
    printf '{"run": "%s", %s}\n' "$name" "$sum"
    [[ -z $first || $sum == "$first" ]] || return 1
    first=$sum
  done
}

ours() {
  local model tf32 capture
  for model in tiny small medium base paper; do
    for tf32 in false true; do
      for capture in true false; do
        printf '{"model": "%s", "tf32": %s, "capture": %s, "bench": ' "$model" "$tf32" "$capture" >"$out/line"
        "$build/longshot" bench "bench/configs/$model.toml" --device cuda --json "device.tf32=$tf32" \
          "device.capture=$capture" >>"$out/line" || return 1
        tr -d '\n' <"$out/line"
        echo "}"
      done
    done
  done
}

torch() { python3 bench/device_check_torch.py "$@"; }

export -f build_all tests_on_device checked equal_bits ours torch
export build out
run() { stage "$1" "$2" bash -c "${*:3}"; }

run 0_build 240 build_all || exit 1
run 1_tests 90 tests_on_device
run 2_checked 60 checked
run 3_equal_bits 40 equal_bits
run 4_ceilings 30 torch ceilings
run 5_ours 120 ours
run 6_torch_eager 60 torch eager
run 7_torch_compile 180 torch compile
rm -f "$out/line"
grep -L '"ok": true' "$out"/[0-9]_*.json | sed 's/^/not passed: /'
