#!/usr/bin/env bash
# Ranks that run a network together and lose one, or are asked to stop: the job ends with a message,
# what was done is kept, and the next attempt gives one rank's bytes.
. "$(dirname "$0")/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
sed -i 's/patches_per_job: 20, max_jobs: 2/patches_per_job: 200, max_jobs: 1/' "$scratch/w.yaml"
export HRF_PART_MS=1 HRF_RANK_DEADLINE_MS=3000 HRF_BEAT_MS=500
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/one" --set 'precision=[int8]'

# The first time that the engine runs, rank $victim gets signal $harm somewhere in its first second.
cat >"$scratch/engine" <<END
#!/bin/bash
[ "\$1" = infer ] && [ "\$OMPI_COMM_WORLD_RANK" = "\$victim" ] && mkdir "$scratch/mark" 2>/dev/null &&
    (sleep 0.\$delay; kill -\$harm \$\$) >/dev/null 2>&1 &
exec "$engine" "\$@"
END
chmod +x "$scratch/engine"
export HRF_ENGINE=$scratch/engine victim harm delay
try() { # harm, victim, layout
    harm=$1 victim=$2 delay=$((RANDOM % 9))5
    rm -rf "${scratch:?}/run" "${scratch:?}/mark"
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set 'precision=[int8]' \
        --set executor.local.ranks=4 --set "engine.parallel=$3"
    [ -d "$scratch/mark" ] || fail "nothing was harmed"
    diff -r "$scratch/one/results" "$scratch/run/results" || fail "$3, $1 of rank $2: other bytes"
    attempts=$(find "$scratch/run/jobs" -maxdepth 1 -name 'infer*' | wc -l)
    echo "$3: rank $2, signal $1 after 0.$delay s: $attempts attempts"
}
for layout in '{spatial: 2}' '{stages: 2, microbatches: 2}' '{spatial: 2, stages: 2}'; do
    for rank in 0 1 2 3; do
        try KILL $rank "$layout"
    done
done
try STOP 3 '{spatial: 4}'
try STOP 0 '{spatial: 2}'

# Asked to stop: all ranks of a group stop at the same batch, whichever of them hears it.
for rank in 0 1 2 3; do
    try TERM $rank '{spatial: 2}'
done

# From here the harm is at a point of the engine's way.
unset HRF_ENGINE
cat >"$scratch/stepping" <<END
#!/bin/bash
if [ "\$1" = infer ] && [ "\$OMPI_COMM_WORLD_RANK" = "\$victim" ] && mkdir "$scratch/mark" 2>/dev/null; then
    [ "\$harm" = none ] && export HRF_CRASH_LIST=$scratch/passed ||
        export HRF_CRASH_AT=\$point HRF_CRASH_SIGNAL=\$harm
fi
exec "$engine" "\$@"
END
chmod +x "$scratch/stepping"
export point
try_at() { # harm, victim, point, workflow, what one rank gave, ranks, layout; sets $attempts
    harm=$1 victim=$2 point=$3
    rm -rf "${scratch:?}/run" "${scratch:?}/mark"
    HRF_ENGINE=$scratch/stepping expect_code 3 "$flow" run "$scratch/$4.yaml" --out "$scratch/run" \
        --set 'precision=[int8]' --set executor.local.ranks="$6" --set "engine.parallel=$7"
    [ -d "$scratch/mark" ] || fail "nothing was harmed"
    diff -r "$scratch/$5/results" "$scratch/run/results" || fail "$7, $1 of rank $2 at $3: other bytes"
    attempts=$(find "$scratch/run/jobs" -maxdepth 1 -name 'infer*' | wc -l)
}

# Stopped where there are no steps. Who stops before the work is done is missed by the others; who
# stops after it costs nothing, even where the others are gone and nobody but the launcher sees it.
try_at none 0 - w one 4 '{spatial: 2}'
whole=$attempts
for rank in 0 3; do
    for place in engine.rank.begin engine.rank.joined mpi.group.split; do
        try_at STOP $rank $place w one 4 '{spatial: 2}'
        [ "$attempts" -gt "$whole" ] || fail "rank $rank stopped at $place: nobody noticed"
    done
    for place in engine.rank.ended engine.end; do
        try_at STOP $rank $place w one 4 '{spatial: 2}'
        [ "$attempts" = "$whole" ] || fail "rank $rank stopped at $place: $attempts attempts, not $whole"
    done
    grep -q "the work was over, and rank $rank of 4 on .* did not end within 6 s" "$scratch"/run/jobs/infer*/done.json ||
        fail "rank $rank is not named"
    echo "rank $rank stopped at its beginning and at its end"
done

# Slides, and the harm at a step of a network: the first, one in the middle and the last of each
# rank, or every one of them (HRF_TEST_EVERY_STEP=1: an hour).
sed 's/^tiler:.*/tiler: {mode: slide, slide: {size: 256, mpp: 0.5}}/' "$scratch/w.yaml" >"$scratch/s.yaml"
expect_code 3 "$flow" run "$scratch/s.yaml" --out "$scratch/slides" --set 'precision=[int8]'
try_slides() { # harm, victim, step, layout
    try_at "$1" "$2" "engine.step:$3" s slides 2 "$4"
    [ "$1" = none ] || [ "$attempts" -gt "${whole:-0}" ] || fail "$4, $1 of rank $2 at step $3: nobody noticed"
}
for layout in '{spatial: 2, halos: overlap}' '{stages: 2}'; do
    for rank in 0 1; do
        rm -f "$scratch/passed" && whole=0
        try_slides none $rank 0 "$layout"
        whole=$attempts
        n=$(grep -c engine.step "$scratch/passed")
        steps="1 $((n / 2)) $n"
        [ "${HRF_TEST_EVERY_STEP:-0}" = 0 ] || steps=$(seq "$n")
        for at in $steps; do
            try_slides KILL $rank "$at" "$layout"
        done
        try_slides STOP $rank $((n / 3 + 1)) "$layout"
        echo "slides, $layout: rank $rank killed at steps $steps of $n, stopped at $((n / 3 + 1))"
    done
done
