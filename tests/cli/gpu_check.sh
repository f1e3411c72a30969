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
# The results by themselves, the tuned plans apart; what slowed the GPU down beside each row.
tar -tzf "$scratch/gpu.results.tar.gz" >"$scratch/out"
expect_text "gpu/rows.jsonl"
expect_text "gpu/summary.txt"
if grep cache "$scratch/out"; then fail "the tuned plans are among the results"; fi
cat "$scratch"/gpu.cache.tar.xz.* | tar -tJ >"$scratch/out"
expect_text "cache/hires-flow/cuda-plans/"

# A command that is cut leaves what was measured, and the next one begins with what is left. The driver says that
# the GPU is slowed down by its power limit (4).
mkdir "$scratch/driver" "$scratch/away"
cat >"$scratch/driver/nvidia-smi" <<'END'
#!/bin/sh
case "$*" in *clocks.sm*) while :; do echo "1755, 612.34, 61, 0x0000000000000004"; sleep 0.1; done ;; esac
END
chmod +x "$scratch/driver/nvidia-smi"
cat >"$scratch/engine" <<END
#!/bin/sh
case "\$*" in *--only\ agreement*) touch "$scratch/is-there"; exec sleep 600 ;; esac
exec "$engine" "\$@"
END
PATH="$scratch/driver:$PATH" HRF_ENGINE="$scratch/engine" setsid "$check" --part rounding --part agreement --part large \
    --out "$scratch/cut" --archives "$scratch/away" >/dev/null 2>&1 &
cut=$!
wait_for() { for _ in $(seq 1200); do [ ! -e "$1" ] || return 0; sleep 0.1; done; fail "$1 did not come"; }
wait_for "$scratch/is-there"
kill -KILL -- "-$cut"
mkdir "$scratch/found"
tar -C "$scratch/found" -xzf "$scratch/away/cut.results.tar.gz"
python3 - "$scratch/found/cut/rows.jsonl" <<'END'
import json, sys
rows = [r for r in map(json.loads, open(sys.argv[1])) if r["part"] == "rounding"]
assert len(rows) >= 9 and all(r["verdict"] == "ok" for r in rows), rows
assert any(r.get("slowed_by") == "0x0000000000000004" and r["sm_mhz"] == [1755, 1755] and r["power_w"] == 612
           for r in rows), rows
END
expect_file() { grep -q -- "$2" "$1" || fail "no '$2' in $1"; }
expect_file "$scratch/found/cut/next.sh" "--part agreement --part large"
expect_file "$scratch/found/cut/next.sh" "--out '$scratch/cut'"

# Operators by processes: one that crashes is named and the others are compared; a library that is wrong is found.
operators=$HRF_BIN_DIR/../tests/device_operators
expect_code 0 "$check" --part operators --small --out "$scratch/sweep"
expect_text "operators: 4 of 4 rows right"
expect_code 1 env HRF_EMULATED_CUDNN=fails=7 "$operators" bf16 --cases 1 --device nosuch
expect_text "0 operators in bf16 as the reference"

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
[ "$(wc -l <"$scratch/sweep/rows.jsonl")" = 8 ] || fail "rows of another part are lost"

# From slides to labels, as the CPU gives them.
expect_code 0 "$check" --part run --small --row-seconds 300 --out "$scratch/sweep"
expect_text "0 with another label than the CPU's"

expect_code 2 "$check" --part nosuch
expect_text "no part is called 'nosuch': machine rounding"
expect_code 0 "$engine" check --list
expect_text "rounding:7x7-3to64"
expect_code 2 "$engine" check --only nosuch
expect_text "no row is called 'nosuch'"
HRF_EMULATED_CUDA=no-driver expect_code 4 "$check" --out "$scratch/none"
expect_text "no NVIDIA driver is installed"
