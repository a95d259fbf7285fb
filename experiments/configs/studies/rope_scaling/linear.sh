#!/usr/bin/env bash
# What linear scaling is meant for: the models of rope_scaling.toml trained on for 150 steps, at four times their length
# with their positions divided by four.
#
#   bash experiments/configs/studies/rope_scaling/linear.sh CORPUS [FOLDER OF RUNS] [PROGRAM]
set -eu
here=$(dirname "$0")
runs=${2:-runs}
longshot=${3:-./longshot}
mkdir -p "$runs/linear"
for seed in 1 2 3; do
  # Always the same place, so that a report sees runs that differ in nothing but the seed.
  cp "$runs"/rope_scaling/seed$seed-*/checkpoint.safetensors "$runs/linear/start.safetensors"
  $longshot run "$here/rope_scaling.toml" --out "$runs/linear" task.corpus="$1" seed=$seed \
    train.init_from="$runs/linear/start.safetensors" \
    encoding.scaling=linear encoding.factor=4 train.steps=150 train.warmup=10 train.batch=2 \
    train.lengths.min=512 train.lengths.max=512 evaluate.lengths=[512]
done
