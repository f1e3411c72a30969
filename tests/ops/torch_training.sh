#!/bin/sh
# 50 steps of training beside PyTorch's in double, on small networks, by SGD and AdamW, with frozen statistics and those of the
# batch. Needs HRF_BIN_DIR; skips with 77 where PyTorch is not installed.
set -u
python=/usr/bin/python3
if ! $python -c 'from importlib.util import find_spec as has; exit(not (has("torch")))' 2>/dev/null; then
    echo "skipped: $python has no torch (Debian: python3-torch)"
    exit 77
fi
exec $python "${HRF_SOURCE_DIR:-.}/tools/reference/torch_training.py" "$1"
