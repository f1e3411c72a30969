#!/bin/sh
# Whole networks against PyTorch: `hires-engine eval` within 1e-4 of the largest output.
#   whole_nets.sh exported|made NET...
# exported: torchvision's network as PyTorch exports it. made: `hires-engine model make`'s file,
# whose weights PyTorch's own definition of the network loads. Needs HRF_BIN_DIR; skips with 77
# where PyTorch is not installed.
set -u
kind=$1
shift
python=/usr/bin/python3
script=${HRF_SOURCE_DIR:-.}/tools/reference/torch_nets.py
compare=${HRF_SOURCE_DIR:-.}/tools/reference/compare_npy.py
engine=$HRF_BIN_DIR/hires-engine
if ! $python -c 'from importlib.util import find_spec as has; exit(not (has("torch") and has("torchvision")))' 2>/dev/null; then
    echo "skipped: $python has no torch and torchvision (Debian: python3-torch, python3-torchvision)"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT INT TERM
if [ "$kind" = made ]; then
    for net in "$@"; do
        classes=1000
        case $net in *hires | unet* | hct*) classes=5 ;; esac
        size=0
        case $net in *hires) size=64 ;; esac
        "$engine" model make "$net" --output "$work/$net.onnx" --classes "$classes" --size "$size" >/dev/null || exit 1
    done
    $python "$script" run-made "$work" "$@" || exit 1
else
    $python "$script" export "$work" "$@" || exit 1
fi
bad=0
for net in "$@"; do
    for device in cpu ${HRF_ALSO_REF:+ref}; do
        "$engine" eval "$work/$net.onnx" --input "$work/$net.input.npy" \
            --output "$work/$net-$kind-$device.npy" --device $device --precision fp32 >/dev/null &&
            $python "$compare" "$work/$net-$kind-$device.npy" "$work/$net.output.npy" 1e-4 ||
            bad=1
    done
done
exit $bad
