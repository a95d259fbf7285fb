#!/usr/bin/env bash
# Everything to be seen on a machine with a GPU, in under eight minutes, in one go:
#
#   bench/device_check.sh pack        here, where the packages are installed: gathers them in build-device-packages/
#   bench/device_check.sh [OUT]       there, needing only a compiler, CMake, Ninja, CUDA and PyTorch (no network)
#   bench/device_check.sh try [OUT]   anywhere: tries the script itself, on the tests' emulated device and with tiny
#                                     sizes; its figures mean nothing (BUILD=DIR: an existing build, PYTHON: has torch)
#
# Each stage writes OUT/<stage>.json when it ends (OUT: device-check unless named), and a stage whose JSON says "ok"
# is not run again, so a run that was cut short goes on where it stopped. The log of a stage lies beside it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=$PWD/build-device-packages
build=${BUILD:-$PWD/build-device}
python=${PYTHON:-python3}
trial=false
limit=470  # seconds for everything; later stages give way

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
if [[ ${1:-} == try ]]; then
  shift
  trial=true
  limit=3600
elif ! nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | grep .; then
  echo "device_check.sh: there is no GPU here (nvidia-smi is missing or sees none), and nothing was run." >&2
  echo "  'bench/device_check.sh try' tries the script itself on the emulated device." >&2
  exit 1
elif ! command -v nvcc >/dev/null && [[ ! -x /usr/local/cuda/bin/nvcc ]]; then
  echo "device_check.sh: there is no nvcc here to build the CUDA module with, and nothing was run." >&2
  exit 1
fi

mkdir -p "${1:-device-check}"
out=$(cd "${1:-device-check}" && pwd)
if [[ -d $packages ]] && ! $trial; then
  libraries=$(echo "$packages"/usr/lib/*-linux-gnu)
  export CMAKE_PREFIX_PATH=$packages/usr CMAKE_LIBRARY_PATH=$libraries CMAKE_INCLUDE_PATH=$packages/usr/include
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export CPATH=$packages/usr/include PKG_CONFIG_SYSROOT_DIR=$packages
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$packages/usr/share/pkgconfig:$packages/usr/lib/pkgconfig
  command -v pkg-config >/dev/null || export PATH=$PATH:$packages/usr/bin
fi

models="tiny small medium base paper"
# What the goals are about, first: tiny in fp32, base in TF32.
compared="tiny base/tf32 tiny/tf32 base small small/tf32 medium medium/tf32"
training="train.steps=300"
of_nn="~[memory]~[positions]~[registry]"
of_train="[train]~[memory]"
steps=0
if $trial; then
  models=tiny compared="tiny tiny/tf32" steps=6
  size="model.dim=16 model.layers=1 model.heads=2 model.ffn=16 train.batch=2"
  training="train.steps=12 $size train.lengths.max=5 evaluate.lengths=[6] evaluate.samples=4 evaluate.in_range_samples=4"
  of_nn="encoder: mean pooling*" of_train="the same config gives*"
  export LONGSHOT_CUDA_MODULE=$build/tests/liblongshot_emulated_module.so FAKE_CUDA_DEVICES=1
  export LD_LIBRARY_PATH=$build/tests/fake_driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} OMP_NUM_THREADS=1
else
  size=""
  export LONGSHOT_CUDA_MODULE=$build/liblongshot_cuda.so
fi

stages=()
# stage NAME SECONDS COMMAND...: runs it unless it is done; its JSON holds its outcome, its time and what the command
# printed on lines that begin with "{".
stage() {
  local name=$1 most=$2 begin=$SECONDS code=0 left=$((limit - SECONDS)) results
  shift 2
  if grep -q '"ok": true' "$out/$name.json" 2>/dev/null; then
    echo "== $name: done before"
    return 0
  fi
  stages+=("$name")
  if ((left < 10)); then
    echo "== $name: no time left"
    return 1
  fi
  if $trial; then most=$left; fi
  # A stage that does not end when it is told to has 5 seconds more.
  timeout -k 5 "$((most < left ? most : left))" "$@" >"$out/$name.log" 2>&1 || code=$?
  results=$(grep '^{' "$out/$name.log" | paste -sd, -)
  printf '{"stage": "%s", "ok": %s, "exit_code": %d, "seconds": %d, "results": [%s]}\n' "$name" \
         "$([[ $code == 0 ]] && echo true || echo false)" "$code" "$((SECONDS - begin))" "$results" >"$out/$name.json"
  echo "== $name: exit code $code after $((SECONDS - begin)) s"
  ((code == 0)) || tail -n 15 "$out/$name.log"
  return "$code"
}

build_all() {
  if $trial; then
    [[ -f $build/build.ninja ]] || cmake -S . -B "$build" -G Ninja -DLONGSHOT_CUDA=OFF || return 1
    ninja -C "$build" longshot test_cuda test_core test_nn test_train
    return
  fi
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .) || return 1
  cmake -S . -B "$build" -G Ninja -DLONGSHOT_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$architecture" &&
    ninja -C "$build" longshot longshot_cuda test_cuda test_core test_nn test_train
}

# The programs that ctest runs on the emulator. What tests the emulator, the choice of a device and the program on a
# fake driver has no business here.
tests_on_device() {
  local operations failed=0
  operations=$(printf ',[#%s]~[cpu]' $(basename -s .cpp -a tests/core/{ops,cpu}/*_test.cpp | sort -u) network_test \
                      backend_parity_test)
  export LONGSHOT_TEST_DEVICE=cuda LONGSHOT_TEST_BACKEND=cuda
  "$build/tests/test_cuda" "~[emulator]~[device]~[program]~[checked]" || failed=1
  "$build/tests/test_core" -\# "${operations:1}" || failed=1
  "$build/tests/test_nn" "$of_nn" || failed=1
  "$build/tests/test_train" "$of_train" || failed=1
  return "$failed"
}

checked() {
  LONGSHOT_TEST_DEVICE=cuda "$build/tests/test_cuda" '[checked]'
}

# Two runs and one without recording: one sum of all parameters.
equal_bits() {
  local folder first="" name sum
  folder=$(mktemp -d)
  for name in a b eager; do
    "$build/longshot" run bench/configs/paper.toml --device cuda --out "$folder/$name" $training \
      train.evaluate_every=0 "device.capture=$([[ $name == eager ]] && echo false || echo true)" || return 1
    sum=$(grep -rho '"parameters_sha256": *"[0-9a-f]*"' "$folder/$name" --include=summary.json | head -1)
    [[ -n $sum ]] || return 1
    printf '{"run": "%s", %s}\n' "$name" "$sum"
    [[ -z $first || $sum == "$first" ]] || return 1
    first=$sum
  done
}

ours() {
  local model tf32 capture result
  for model in $models; do
    for tf32 in false true; do
      for capture in true false; do
        result=$("$build/longshot" bench "bench/configs/$model.toml" --device cuda --json --steps "$steps" \
                 "device.tf32=$tf32" "device.capture=$capture" $size) || return 1
        printf '{"model": "%s", "tf32": %s, "capture": %s, "bench": %s}\n' "$model" "$tf32" "$capture" \
               "$(tr -d '\n' <<<"$result")"
      done
    done
  done
}

need_torch() {
  "$python" -c 'import torch' || { echo "there is no PyTorch for $python"; return 1; }
}
ceilings() {
  need_torch && "$python" bench/peers/ceilings.py --device "$($trial && echo cpu || echo cuda)"
}

# PyTorch beside ours, in turn, model by model, so that a cut-short stage has the first ones.
peers() {
  local each model tf32 device=cuda rounds=3 seconds=0.7
  need_torch || return 1
  if $trial; then device=cpu rounds=1 seconds=0.1; fi  # PyTorch knows no emulated device
  for each in $compared; do
    model=${each%/tf32} tf32=false
    if [[ $each == */tf32 ]]; then tf32=true; fi
    "$python" bench/peers/compare.py --longshot "$build/longshot" --python "$(command -v "$python")" \
      --device "$device" $($tf32 && echo --tf32) --models "$model" --modes "$1" --rounds "$rounds" \
      --seconds "$seconds" --json "$out/peers.part" || return 1
    printf '{"tf32": %s, "compared": %s}\n' "$tf32" "$(tr -d '\n' <"$out/peers.part")"
  done
}

export -f build_all tests_on_device checked equal_bits ours need_torch ceilings peers
export build out python trial models compared training of_nn of_train steps size
run() { stage "$1" "$2" bash -c "${*:3}"; }

run 0_build 240 build_all || exit 1
run 1_tests 90 tests_on_device
run 2_checked 60 checked
run 3_equal_bits 40 equal_bits
run 4_ceilings 30 ceilings
run 5_ours 120 ours
run 6_torch_eager 90 peers eager
run 7_torch_compile 180 peers compile,compile-graphs
rm -f "$out/peers.part"
failed=()
for name in "${stages[@]}"; do grep -qs '"ok": true' "$out/$name.json" || failed+=("$name"); done
((${#failed[@]} == 0)) || { echo "not passed: ${failed[*]}"; exit 1; }
