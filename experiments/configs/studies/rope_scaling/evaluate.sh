#!/usr/bin/env bash
# Every finished run of the study, evaluated again with each way of scaling: nothing is trained.
#
#   bash experiments/configs/studies/rope_scaling/evaluate.sh [FOLDER OF RUNS] [PROGRAM]
set -eu
runs=${1:-runs/rope_scaling}
longshot=${2:-./longshot}
for run in "$runs"/*/; do
  for factor in 2 4 8; do
    for scaling in linear ntk yarn; do
      $longshot eval "${run%/}" encoding.scaling=$scaling encoding.factor=$factor
    done
  done
  # Its factor follows from each sequence's length.
  $longshot eval "${run%/}" encoding.scaling=dynamic encoding.factor=1
done
