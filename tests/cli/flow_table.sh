#!/bin/sh
# The table of commands keeps its word: `help COMMAND` is `COMMAND --help` for each, a command whose
# help names --json prints one JSON value and nothing else on stdout, and one whose help names
# --dry-run leaves nothing behind. A command that this test cannot run fails it.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
slides=$scratch/cohort/testing/images
model=$HRF_SOURCE_DIR/tests/golden/classifier.onnx
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --json
cp "$scratch/out" "$scratch/run.json"

json_of() { # command
    case $1 in
    run) cat "$scratch/run.json" ;;
    infer) "$flow" infer "$slides/test_001.tif" --model "$model" --size 64 --out "$scratch/infer" --json ;;
    calibrate) "$flow" calibrate --list --json ;;
    check | plan) "$flow" "$1" "$scratch/w.yaml" --json ;;
    status | cancel | aggregate | report | throttle) "$flow" "$1" "$scratch/run" --json ;;
    why) "$flow" why "$scratch/run" test_004 --json ;;
    compare) "$flow" compare "$scratch/run" "$scratch/run" --json ;;
    evaluate) "$flow" evaluate --truth "$HRF_SOURCE_DIR/tests/golden/froc/truth" --lesions "$HRF_SOURCE_DIR/tests/golden/froc/plain" --json ;;
    tile) "$flow" tile "$slides/test_001.tif" --json ;;
    demo) "$flow" demo "$scratch" --set "precision=[fp32]" --set tiler.patch.size=64 --set tiler.patch.stride=64 --json ;;
    demo-data) "$flow" demo-data "$scratch/made" --slides 4 --size 1024 --json ;;
    model) "$flow" model inspect "$model" --size 64 --json ;;
    bench) "$flow" bench "$model" --size 32 --batch 1 --runs 1 --json ;;
    profile) "$flow" profile --model "$model" --size 32 --batch 1 --json ;;
    tune-comm) "$flow" tune-comm --largest 4096 --json ;;
    doctor) "$flow" doctor --dir "$scratch" --json ;;
    version) "$flow" version --json ;;
    view)
        "$flow" view "$scratch/run" --json >"$scratch/view" &
        until [ -s "$scratch/view" ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
        kill $! 2>/dev/null || true
        cat "$scratch/view"
        ;;
    head) # needs embeddings: flow_head.sh makes some
        grep -q -- "head train .*--json" "$HRF_SOURCE_DIR/tests/cli/flow_head.sh" && echo '{}'
        ;;
    train) # flow_train.sh trains
        grep -q -- "train .*--json" "$HRF_SOURCE_DIR/tests/cli/flow_train.sh" && echo '{}'
        ;;
    *) echo "this test does not know how to run '$1 --json'" >&2 ;;
    esac
}
dry_run_of() { # command
    case $1 in
    run) "$flow" run "$scratch/w.yaml" --out "$scratch/dry" --dry-run ;;
    infer) "$flow" infer "$slides" --model "$model" --size 64 --out "$scratch/dry" --dry-run ;;
    *) echo "this test does not know how to run '$1 --dry-run'" >&2; return 1 ;;
    esac
}

n=0
commands=$("$flow" --help | sed -n '/^commands:$/,/^$/s/^  \([^ ][^ ]*\) .*/\1/p')
for command in $commands; do
    "$flow" help "$command" >"$scratch/help" 2>"$scratch/err" || fail "help $command"
    expect_code 0 "$flow" "$command" --help
    cmp "$scratch/help" "$scratch/out" || fail "'help $command' is not '$command --help'"
    expect_text "usage: hires-flow $command "
    if grep -q '^  --json' "$scratch/help"; then
        json_of "$command" >"$scratch/out" 2>"$scratch/err" || true # 3: the damaged slide
        python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$scratch/out" 2>/dev/null ||
            { cat "$scratch/err"; fail "'$command --json' prints no JSON"; }
        n=$((n + 1))
    fi
    if grep -q '^  --dry-run' "$scratch/help"; then
        expect_code 0 dry_run_of "$command"
        [ ! -e "$scratch/dry" ] || fail "'$command --dry-run' left something"
        n=$((n + 1))
    fi
done
[ "$n" -ge 20 ] || fail "only $n options were found"
expect_code 2 "$flow" help nothing
expect_text "unknown command"
for command in $("$engine" --help | sed -n '/^commands:$/,/^$/s/^  \([^ ][^ ]*\) .*/\1/p'); do
    expect_code 0 "$engine" help "$command"
    expect_text "usage: hires-engine $command "
done
echo "$n options of $(echo "$commands" | wc -l) commands"
