#!/bin/bash
# The bundle on a machine that has nothing but libc and a shell: another root, without the build tree,
# without any library of this machine's but libc's. A small cohort is scored there.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
# Started through the linker by name, what that keeps for itself looks like leaks.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
chroot_here() { # root, command...
    if [ "$(id -u)" = 0 ]; then chroot "$@"; else unshare --user --map-root-user chroot "$@"; fi
}
other=$scratch/root
mkdir -p "$other"/{bin,lib64,lib/x86_64-linux-gnu,tmp,proc,dev,cohort}
# What every Linux has: a shell, a few tools, libc.
for tool in sh readlink dirname basename uname cat sed; do
    path=$(readlink -f "$(command -v $tool)")
    cp "$path" "$other/bin/$tool"
    ldd "$path" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$other$(dirname "$library")"
        cp -L "$library" "$other$library"
    done
done
for library in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2 libutil.so.1; do
    cp -L /lib/x86_64-linux-gnu/$library "$other/lib/x86_64-linux-gnu/" 2>/dev/null || true
done
cp -L /lib64/ld-linux-x86-64.so.2 "$other/lib64/"
chroot_here "$other" /bin/sh -c true 2>/dev/null || { echo "no other root can be entered here"; exit 77; }

mkdir "$scratch/sm90" # a set of plans, as far as the bundle is concerned
echo '{}' | tee "$scratch/sm90/set.json" >"$scratch/sm90/plan.json"
"$HRF_SOURCE_DIR/tools/bundle" "$HRF_BIN_DIR/.." "$other/hires" "$scratch/sm90" >"$scratch/out"
[ -e "$other/hires/lib/hires-flow/cuda-plans/sm90/plan.json" ] || fail "the set of plans is not in the bundle"
make_cohort
cp -r "$scratch/cohort/." "$other/cohort/"
make_workflow "$other/w.yaml"
sed -i "s|root: [^}]*|root: /cohort|; s|file: [^}]*|file: /hires/models/demo.onnx|" "$other/w.yaml"
mount_proc=
[ "$(id -u)" = 0 ] && mount -t proc proc "$other/proc" 2>/dev/null && mount_proc=yes
trap '[ -z "$mount_proc" ] || umount -l "$other/proc"; rm -rf "$scratch"' EXIT
mknod -m 666 "$other/dev/null" c 1 3 2>/dev/null || mount_proc=
[ -n "$mount_proc" ] || { echo "programs need /proc and /dev/null, which only root can make here"; exit 77; }

expect_code 0 chroot_here "$other" /hires/bin/hires-engine version
expect_text "cuda: missing"
expect_code 3 chroot_here "$other" /bin/sh -c 'HOME=/tmp XDG_CACHE_HOME=/tmp /hires/bin/hires-flow run /w.yaml --out /tmp/run'
expect_text "4 slides: 3 done, 1 failed"
[ -s "$other/tmp/run/results/labels.csv" ] || fail "no labels"
# Two ranks as processes, by the bundle's own Open MPI: the bytes of one.
if [ -e "$other/hires/mpi" ]; then
    { # one image of 3 x 64 x 64 as a NumPy file
        printf '\223NUMPY\001\000v\000'
        printf '%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 64, 64), }"
        LC_ALL=C awk 'BEGIN { srand(7); for (i = 0; i < 12288; i++)
            printf "%c%c%c%c", 1 + rand() * 126, 1 + rand() * 126, 1 + rand() * 254, rand() < 0.5 ? 63 : 191 }'
    } >"$other/tmp/x.npy"
    mkdir -p "$other/dev/shm"
    for ranks in 1 2; do
        expect_code 0 chroot_here "$other" /bin/sh -c "cd /tmp; export HOME=/tmp OMPI_ALLOW_RUN_AS_ROOT=1
            export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; /hires/mpi/bin/mpirun -n $ranks --oversubscribe \
            /hires/bin/hires-engine eval /hires/models/demo.onnx --input x.npy --output y$ranks.npy \
            --precision int8 --threads 1 --layout spatial=$ranks --comm mpi"
    done
    cmp "$other/tmp/y1.npy" "$other/tmp/y2.npy" || fail "two ranks give other bytes than one"
fi
# A machine whose libc is too old: the bundle's own is taken, by the jobs that a run starts, too.
sed -i 's/^newest=[0-9]*/newest=999/' "$other/hires/bin/with-libraries"
mv "$other/lib/x86_64-linux-gnu/libm.so.6" "$other/tmp/" # which the bundle's programs need, a shell not
expect_code 3 chroot_here "$other" /bin/sh -c 'HOME=/tmp XDG_CACHE_HOME=/tmp /hires/bin/hires-flow run /w.yaml --out /tmp/old'
cmp "$other/tmp/run/results/labels.csv" "$other/tmp/old/results/labels.csv" || fail "other labels with another libc"
code=0
chroot_here "$other" /bin/sh /hires/tools/gpu-check --out /tmp/check >"$scratch/out" 2>"$scratch/err" || code=$?
[ "$code" = 4 ] || fail "gpu-check without a GPU ended with $code, not 4"
expect_text "gpu-check: "
