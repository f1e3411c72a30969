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
        ;;
    3) ;;
    *) cat "$scratch/err"; fail "$size KiB: ended with $code" ;;
    esac
    mount -o remount,size=200m "$small"
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$small/run"
    diff -r "$scratch/clean/results" "$small/run/results" >/dev/null || fail "$size KiB: other bytes"
    until_unmounted
    passed=$((passed + 1))
done
[ "$full" -ge 4 ] && [ "$full" -lt "$passed" ] || fail "only $full of $passed disks were too small"
echo "$passed passed, 0 failed; $full of the disks were too small"
