#!/bin/sh
# A virtual environment with PyTorch, for compare.py and check.py alone; nothing else needs it.
#
#   bench/peers/setup.sh [FOLDER]      default: bench/peers/venv
set -eu
case ${1:-} in
-*)
  echo "usage: bench/peers/setup.sh [FOLDER]" >&2
  exit 2
  ;;
esac
folder=${1:-$(dirname "$0")/venv}
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --upgrade torch numpy
"$folder/bin/python" -c 'import torch; print("PyTorch", torch.__version__)'
