#!/bin/bash
# tools/gpu-check on the emulated GPU: a row that hangs and one that crashes cost themselves alone, all
# others are right, and everything is in one archive.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
emulated=$HRF_BIN_DIR/../tests/emulated-cuda
[ -e "$emulated/hrf_cuda.so" ] || { echo "the emulated GPU is not built (no C++ compiler)"; exit 77; }
export HRF_MODULE_DIR=$emulated HRF_ENGINE=$engine # not that of another build beside this one
check=$HRF_SOURCE_DIR/tools/gpu-check

# The engine, but for two rows.
cat >"$scratch/engine" <<END
#!/bin/sh
case "\$*" in
*--only\ rounding:3x3-16to16\ *) exec sleep 600 ;;
*--only\ rounding:1x1-64to64\ *) kill -SEGV \$\$ ;;
esac
exec "$engine" "\$@"
END
chmod +x "$scratch/engine"
expect_code 1 env HRF_ENGINE="$scratch/engine" "$check" --part machine --part rounding --part memcheck \
    --row-seconds 25 --out "$scratch/gpu"
[ "$(wc -l <"$scratch/gpu/summary.txt")" -le 60 ] || fail "a summary of more than 60 lines"
python3 - "$scratch/gpu/rows.jsonl" <<'END'
import json, sys
rows = {r["part"] + ":" + r["row"]: r for r in map(json.loads, open(sys.argv[1]))}
wrong = {name: r["exit"] for name, r in rows.items() if r["verdict"] == "BAD"}
assert wrong == {"rounding:3x3-16to16": 124, "rounding:1x1-64to64": 139}, wrong
right = [name for name, r in rows.items() if r["verdict"] == "ok"]
assert len(right) >= 9 and "machine:device" in right and "rounding:3x3-64to64-residual" in right, right
END
tar -tzf "$scratch/gpu.tar.gz" >"$scratch/out"
expect_text "gpu/rows.jsonl"
expect_text "gpu/cache/hires-flow/cuda-plans/"

# Of ranks, too: a layout that hangs and one that crashes are two bad ones of three. Without mpirun.
cat >"$scratch/engine" <<END
#!/bin/sh
case "\$*" in
*--layout\ spatial=3*) exec sleep 600 ;;
*--layout\ spatial=2,stages*) kill -SEGV \$\$ ;;
esac
exec "$engine" "\$@"
END
mkdir "$scratch/tools"
for tool in sh sed awk cmp tail rm mktemp timeout env sleep; do ln -s "$(command -v $tool)" "$scratch/tools/"; done
expect_code 1 env PATH="$scratch/tools" HRF_LAYOUT_SECONDS=1 sh "$HRF_SOURCE_DIR/tools/gpu-ranks" "$scratch/engine" "$scratch"
expect_text "loop, ended after its limit of 1 s"
expect_text "loop, exit 139"
expect_text "0 layouts have the bytes of one rank, 2 have not, 1 left out"

# A cuDNN that cuts results off is found and not used, one that rounds a product and a sum once is right,
# and an engine that was right and cannot run any more is said with the node that it was for.
HRF_EMULATED_CUDNN=truncates expect_code 1 "$engine" check --device cuda --only rounding:3x3-64to64
expect_text "BAD"
expect_text "1150 of 1150 half-way sums to even"
expect_text "an engine was left out"
HRF_EMULATED_CUDNN=truncates expect_code 1 "$engine" check --device cuda --only rounding:7x7-3to64
HRF_EMULATED_CUDNN=contracts expect_code 0 "$engine" check --device cuda --only rounding:3x3-64to64
HRF_EMULATED_CUDNN=fails=7 expect_code 1 "$engine" check --device cuda --only rounding:3x3-64to64
expect_text "node 'conv': cuDNN, running a plan: execution failed"

# What is measured is compared with the CPU.
expect_code 0 "$engine" check --device cuda --small --only speed:resnet-v2-101-hires-int8-256x64
expect_text "outputs as the CPU's"

expect_code 0 "$check" --part sweep --small --out "$scratch/sweep"
expect_text "convolutions timed"
python3 - "$scratch/sweep/sweep.json" <<'END'
import json, sys
rows = json.load(open(sys.argv[1]))
assert len(rows) > 5 and {c["engine"] for c in rows[0]["candidates"]} == {7, 8}, rows[:1]
END

# A call with the same folder keeps what was found of other parts.
expect_code 0 "$check" --part machine --out "$scratch/sweep"
expect_text "machine: 1 of 2 rows right"
expect_text "sweep: 2 of 2 rows right"
[ "$(wc -l <"$scratch/sweep/rows.jsonl")" = 4 ] || fail "rows of another part are lost"

expect_code 2 "$check" --part nosuch
expect_text "no part is called 'nosuch': machine rounding"
expect_code 0 "$engine" check --list
expect_text "rounding:7x7-3to64"
expect_code 2 "$engine" check --only nosuch
expect_text "no row is called 'nosuch'"
HRF_EMULATED_CUDA=no-driver expect_code 4 "$check" --out "$scratch/none"
expect_text "no NVIDIA driver is installed"
