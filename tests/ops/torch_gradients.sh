#!/bin/sh
# torch_gradients.sh [cuda]
# `hires-engine gradient` against PyTorch in double, on small networks of every operator that has a gradient, by the CPU, by
# the reference and by ranks; or by the emulated GPU. Needs HRF_BIN_DIR; skips with 77 where PyTorch is not installed.
set -u
python=/usr/bin/python3
if ! $python -c 'from importlib.util import find_spec as has; exit(not (has("torch")))' 2>/dev/null; then
    echo "skipped: $python has no torch (Debian: python3-torch)"
    exit 77
fi
set -- "$HRF_BIN_DIR/hires-engine" "$@"
tool=${HRF_SOURCE_DIR:-.}/tools/reference/torch_gradients.py
if [ "${2:-}" = cuda ]; then
    cache=$(mktemp -d)
    trap 'rm -rf "$cache"' EXIT
    export HRF_MODULE_DIR="$HRF_BIN_DIR/../tests/emulated-cuda" XDG_CACHE_HOME="$cache"
    $python "$tool" "$1" --device cuda --without pads # reflection and edges have no kernel there
    exit
fi
exec $python "$tool" "$1" --device cpu,ref --layout single:spatial=2,stages=2
