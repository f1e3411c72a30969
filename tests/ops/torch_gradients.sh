#!/bin/sh
# `hires-engine gradient` against PyTorch in double, on small networks of every operator that has a gradient, by the CPU, by
# the reference and by ranks. Needs HRF_BIN_DIR; skips with 77 where PyTorch is not installed.
set -u
python=/usr/bin/python3
if ! $python -c 'from importlib.util import find_spec as has; exit(not (has("torch")))' 2>/dev/null; then
    echo "skipped: $python has no torch (Debian: python3-torch)"
    exit 77
fi
exec $python "${HRF_SOURCE_DIR:-.}/tools/reference/torch_gradients.py" "$HRF_BIN_DIR/hires-engine" --device cpu,ref --layout single:spatial=2,stages=2
