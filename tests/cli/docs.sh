#!/bin/sh
# What the documentation says is so: its table of keys is the program's, its examples are valid, and
# every field of a real report has its word. HRF_REFRESH_GOLDEN=1 writes the table anew.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
docs=$HRF_SOURCE_DIR/docs

# The tables of keys in heads.md and training.md.
for page in "heads:head train" "training:train"; do
    name=${page%%:*} command=${page#*:}
    # shellcheck disable=SC2086 # a command of one word or two
    "$HRF_BIN_DIR/hires-engine" $command --keys >"$scratch/keys"
    sed -n "/^\`hires-flow $command --keys\` prints/,\$p" "$docs/$name.md" | tail -n +3 | diff - "$scratch/keys" >"$scratch/keys.diff" ||
        fail "docs/$name.md is not what 'hires-flow $command --keys' prints: $(cat "$scratch/keys.diff")"
done

# The table of keys in workflow.md.
page=$docs/workflow.md
{
    sed '/^<!-- keys/q' "$page"
    "$flow" check --keys
    sed -n '/^<!-- end of keys/,$p' "$page"
} >"$scratch/workflow.md"
[ "${HRF_REFRESH_GOLDEN:-0}" = 0 ] || cp "$scratch/workflow.md" "$page"
diff "$page" "$scratch/workflow.md" >"$scratch/out" ||
    fail "docs/workflow.md is not what 'hires-flow check --keys' prints: HRF_REFRESH_GOLDEN=1 $0"

# Every part of a layout, as the message of an unknown one lists them, has its row in parallel.md.
expect_code 2 "$HRF_BIN_DIR/hires-engine" bench --model resnet18 --layout unknown=1
sed 's/.*; parts are //' "$scratch/err" | grep -oE '[a-z]+=' | sort -u >"$scratch/parts"
[ "$(wc -l <"$scratch/parts")" -ge 8 ] || fail "no parts of a layout in: $(cat "$scratch/err")"
while read -r part; do
    grep -qF "| \`$part" "$docs/parallel.md" || fail "docs/parallel.md has no row for $part"
done <"$scratch/parts"

# Every YAML example that is a whole workflow. Paths are relative to the file: it lies where the
# model is.
mkdir "$scratch/models"
cp "$HRF_SOURCE_DIR/models/demo.onnx" "$scratch/models/demo.onnx"
n=0
for page in "$docs"/*.md "$docs"/*/*.md "$HRF_SOURCE_DIR/README.md"; do
    rm -f "$scratch"/example-*.yaml
    awk -v to="$scratch/example-" '/^```yaml/ { inside = 1; n++; file = to n ".yaml"; next }
        /^```/ { inside = 0 } inside { print > file }' "$page"
    for example in "$scratch"/example-*.yaml; do
        grep -q '^version: 1' "$example" 2>/dev/null || continue
        expect_code 0 "$flow" check "$example"
        n=$((n + 1))
    done
done
[ "$n" -ge 1 ] || fail "no example was found"

# Every workflow that comes along.
for file in "$HRF_SOURCE_DIR"/workflows/*.yaml; do
    expect_code 0 "$flow" check "$file"
done

# Manual pages: a section for every command, and nothing that roff stumbles over.
for program in "$flow" "$engine"; do
    "$HRF_SOURCE_DIR/tools/man" "$program" >"$scratch/page.1" || fail "tools/man $program"
    "$program" --help | sed -n '/^commands:$/,/^$/s/^  \([^ ][^ ]*\) .*/\1/p' | while read -r command; do
        sed 's/\\-/-/g' "$scratch/page.1" | grep -q "^.SS \"$command " || exit 1
    done || fail "the manual page of $program lacks a command"
    ! command -v groff >/dev/null || [ -z "$(groff -man -ww -z "$scratch/page.1" 2>&1)" ] ||
        fail "$(groff -man -ww -z "$scratch/page.1" 2>&1)"
done

# Installed, the programs find each other and their modules, and have their pages.
if [ -e "$HRF_BIN_DIR/../cmake_install.cmake" ]; then
    expect_code 0 cmake --install "$HRF_BIN_DIR/.." --prefix "$scratch/usr"
    expect_code 0 "$scratch/usr/bin/hires-flow" doctor --dir "$scratch"
    expect_text "hires-engine 0"
    for module in hrf_cuda.so hrf_forest.so hrf_hdf5.so hrf_mpi.so hrf_nccl.so; do
        [ ! -e "$HRF_BIN_DIR/../lib/hires-flow/$module" ] || [ -e "$scratch/usr/lib/hires-flow/$module" ] ||
            fail "$module is not installed"
    done
    expect_code 0 "$scratch/usr/bin/hires-flow" check "$scratch/usr/share/hires-flow/workflows/demo.yaml"
    grep -q '^.TH HIRES' "$scratch/usr/share/man/man1/hires-engine.1" || fail "no manual page"

    # Completion, made from --help: an option's words, a command, an option; another shell's parses.
    expect_code 0 bash -c '. "$1/usr/share/bash-completion/completions/hires-flow"
        complete_at() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hires_flow; echo "${COMPREPLY[@]}"; }
        complete_at hires-flow run --executor ""
        complete_at hires-flow ev
        complete_at hires-flow plan w.yaml --time' bash "$scratch"
    [ "$(cat "$scratch/out")" = "local slurm
evaluate
--timeline" ] || fail "completion in bash"
    for shell in zsh fish; do
        expect_code 0 "$HRF_SOURCE_DIR/tools/completion" $shell "$flow"
        cp "$scratch/out" "$scratch/completion"
        ! command -v $shell >/dev/null || expect_code 0 $shell -n "$scratch/completion"
    done
    expect_code 2 "$HRF_SOURCE_DIR/tools/completion" ksh "$flow"

    # The demo of an installation finds its workflow and model there.
    "$flow" demo-data "$scratch/demo/cohort" --slides 4 --size 1300 >/dev/null 2>&1
    expect_code 0 "$scratch/usr/bin/hires-flow" demo "$scratch/demo" --set tiler.patch.size=64 \
        --set tiler.patch.stride=64 --set engine.batch=8 --set "precision=[fp32, int8]"
    expect_text "damaged on purpose"
    grep -qE "^int8 against fp32: gains [0-9.]+ x the speed of the network, .* in 0[.][0-9]+ x the memory; costs: 100.00 % of patches" \
        "$scratch/out" || fail "the demo does not say what INT8 costs and gains"
    [ "$(tail -n 1 "$scratch/out")" = "page: $scratch/demo/run/report/index.html" ] || fail "the last line names no page"
    # Again: nothing is left to do. The picture of the README is of this page.
    expect_code 0 "$scratch/usr/bin/hires-flow" demo "$scratch/demo" --set tiler.patch.size=64 \
        --set tiler.patch.stride=64 --set engine.batch=8 --set "precision=[fp32, int8]"
    grep -q "nothing has changed since the report was written" "$scratch/err" || fail "the report was written again"
    if command -v chromium >/dev/null; then
        expect_code 0 python3 "$HRF_SOURCE_DIR/tests/cli/report_picture.py" "$scratch/demo/run/report/index.html" "$scratch/report.png"
        python3 - "$scratch/report.png" "$HRF_SOURCE_DIR/docs/report.png" <<'END' || fail "docs/report.png is not what tools/demo --picture makes"
import struct, sys
sides = [struct.unpack(">II", open(path, "rb").read()[16:24]) for path in sys.argv[1:]]
assert sides[0] == sides[1], sides
END
    fi
    rm "$scratch/demo/cohort/testing/images/test_001.tif" # a second failure is told
    expect_code 3 "$scratch/usr/bin/hires-flow" demo "$scratch/demo" --set tiler.patch.size=32 \
        --set tiler.patch.stride=32 --set "precision=[fp32]"
fi

# The README names every command.
"$flow" --help | sed -n '/^commands:$/,/^$/s/^  \([^ ][^ ]*\) .*/\1/p' | while read -r command; do
    [ "$command" = version ] || grep -q "\`$command\`" "$HRF_SOURCE_DIR/README.md" ||
        { echo "README.md does not name the command '$command'" >"$scratch/out"; exit 1; }
done || fail "README.md"

# Fields of a report, columns of the tables.
make_cohort
make_workflow "$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set 'precision=[fp32, int8]'
python3 - "$scratch/run" "$docs/results.md" <<'END' || fail "docs/results.md is not complete"
import csv, json, re, sys
run, page = sys.argv[1:]
told = set(re.findall(r"`([^`]+)`", open(page).read()))
def fields(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)
used = {"x", "y"} | {key for key in fields(json.load(open(run + "/report/report.json"))) if not key.endswith("_reason")}
for name in ("report/study.csv", "results/labels.csv", "results/patch-flips.csv"):
    used |= set(next(csv.reader(open(run + "/" + name))))
missing = sorted(used - told)
for key in missing:
    print(f"docs/results.md does not tell what '{key}' is", file=sys.stderr)
sys.exit(bool(missing))
END
echo "$n examples, $(grep -c '^| `' "$docs/workflow.md") keys"
