# fault: none, a network over several nodes
# how: each infer job 2 nodes of 2 ranks; patches by two groups that run the networks of FP32 and INT8 together, one reading for both, then slides by all four ranks
# on: cluster
# promise: the bytes of one rank's local run
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
same_as_local() { # DIR
    ended 3 # one slide of the cohort is broken
    diff -r "$scratch/$1/results" "$run/results" >"$scratch/diff" 2>&1 || {
        head -n 5 "$scratch/diff"
        tell "other bytes than one rank's"
    }
    started_once
    [ "$(ls "$gate/starts" | grep -c '\.3\.')" -ge 1 ] || tell "no job had 4 ranks"
    for record in "$run"/jobs/infer*/rank-0003.json; do
        grep -q '"n_ranks": 4' "$record" || tell "no rank of 4 told of itself"
    done
}
one_rank() { expect_code 3 env -u HRF_ENGINE "$flow" run "$cohort/w.yaml" --out "$scratch/$1" "${@:2}"; }
both="--set precision=[fp32,int8]"
one_rank patches $both
start $ranks $both --set engine.parallel.spatial=2
same_as_local patches
grep -q 'rank 1 of group 1 of 2' "$run"/jobs/infer*/log || tell "there were no two groups"
grep -q 'rank 3 .*each patch is read once for 2 networks' "$run"/jobs/infer*/log || tell "patches were read twice"

slides="--set tiler.mode=slide --set tiler.slide.size=512 --set tiler.slide.mpp=0.5"
one_rank slides $both $slides
rm -rf "${run:?}" "${gate:?}"/starts/*
start $ranks $both $slides --set engine.parallel.spatial.rows=2 --set engine.parallel.spatial.cols=2
same_as_local slides
