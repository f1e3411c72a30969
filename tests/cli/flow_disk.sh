#!/bin/sh
# A disk that fills up, at many places: the run ends with 1 and says so, or gets through; with more
# room it goes on to the same bytes. Needs a small file system of its own: mounted by root, or in a
# user namespace; skipped where neither is allowed.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
if [ "$(id -u)" != 0 ] || ! mkdir "$scratch/try" || ! mount -t tmpfs tmpfs "$scratch/try" 2>/dev/null; then
    if [ -z "${HRF_IN_NAMESPACE:-}" ] && unshare -rm true 2>/dev/null; then
        rm -rf "$scratch"
        HRF_IN_NAMESPACE=1 exec unshare -rm "$0"
    fi
    echo "skipped: a small file system cannot be mounted here"
    exit 77
fi
umount "$scratch/try"
make_cohort
make_workflow "$scratch/w.yaml"
echo "precision: [fp32, int8]" >>"$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/clean"
small=$scratch/small
mkdir "$small"
trap 'umount "$small" 2>/dev/null || true; rm -rf "$scratch"' EXIT
until_unmounted() { until umount "$small" 2>/dev/null; do sleep 0.1; done; } # a launcher that ends has its log open
full=0 passed=0
for size in 40 400 1200 3000 4500 5500 20000; do
    mount -t tmpfs -o "size=${size}k" tmpfs "$small"
    # The cache that runs share fills up too.
    export XDG_CACHE_HOME="$small/cache"
    code=0
    "$flow" run "$scratch/w.yaml" --out "$small/run" >"$scratch/out" 2>"$scratch/err" || code=$?
    case $code in
    1)
        full=$((full + 1))
        grep -qE 'No space left|disk is full|disk full' "$scratch/err" ||
            { cat "$scratch/err"; fail "$size KiB: a full disk is not named"; }
        expect_text "free some space on that disk and run the same command again"
        # To the last byte full: what the run has so far is read all the same, and what is wrong is said.
        mountpoint -q "$small" && { head -c 20M /dev/zero >"$small/filler" || true; } 2>/dev/null
        for command in status plan cancel; do
            [ "$size" -ge 400 ] || break # it was full before there was a run
            of=$small/run
            [ $command != plan ] || of="$scratch/w.yaml --out $small/run"
            # shellcheck disable=SC2086
            expect_code 0 "$flow" $command $of
            expect_text "$([ $command = plan ] && echo "but only 0 B are free" || echo "run' is full: the run cannot go on")"
        done
        if [ "$size" -ge 400 ]; then # a report is not written there; elsewhere it is
            expect_code 1 "$flow" report "$small/run"
            expect_text "the report of '$small/run' cannot be written: "
            grep -qE 'No space left|disk is full' "$scratch/err" || fail "report: a full disk is not named"
            expect_text "or copy the folder of the run to another disk and report there"
            cp -a "$small/run" "$scratch/copy"
            code=0
            "$flow" report "$scratch/copy" >"$scratch/out" 2>"$scratch/err" || code=$?
            [ "$code" = 0 ] || [ "$code" = 3 ] || { cat "$scratch/err"; fail "the report of a copy: $code"; }
            rm -rf "$scratch/copy"
        fi
        rm "$small/filler"
        ;;
    3) ;;
    *) cat "$scratch/err"; fail "$size KiB: ended with $code" ;;
    esac
    mount --options-mode ignore -o remount,size=200m "$small" # in a namespace, its own uid= is none
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$small/run"
    diff -r "$scratch/clean/results" "$small/run/results" >/dev/null || fail "$size KiB: other bytes"
    until_unmounted
    passed=$((passed + 1))
done
[ "$full" -ge 4 ] && [ "$full" -lt "$passed" ] || fail "only $full of $passed disks were too small"
echo "$passed passed, 0 failed; $full of the disks were too small"
