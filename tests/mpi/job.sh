#!/usr/bin/env bash
# A job whose ranks are processes, under the local executor: groups of ranks run the network
# together and share the patches, or run a slide as one image, with the results of one rank; a rank
# that cannot read a slide fails that slide alone.
. "$(dirname "$0")/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
sed -i 's/patches_per_job: 20, max_jobs: 2/patches_per_job: 200, max_jobs: 1/' "$scratch/w.yaml"
sed 's/^tiler:.*/tiler: {mode: slide, slide: {size: 512, mpp: 0.5}}/' "$scratch/w.yaml" >"$scratch/s.yaml"
one() { # FILE DIR OPTION...: by one rank
    file=$1 dir=$2
    shift 2
    expect_code 3 "$flow" run "$scratch/$file" --out "$scratch/$dir" "$@" # one slide is broken
}
many() { # FILE RANKS LAYOUT OPTION...
    file=$1 number=$2 layout=$3
    shift 3
    rm -rf "${scratch:?}/many"
    one "$file" many --set executor.local.ranks="$number" --set "engine.parallel.$layout" "$@"
}
same_scores() { # DIR: to 1e-5
    /usr/bin/python3 - "$scratch/$1/labels.csv" "$scratch/many/results/labels.csv" <<'END' || fail "$number ranks, $layout: other scores"
import csv, sys
one, other = ([(r["slide"], r["label"], float(r["score"])) for r in csv.DictReader(open(f)) if r["score"]] for f in sys.argv[1:])
assert [r[:2] for r in one] == [r[:2] for r in other]
assert all(abs(a[2] - b[2]) <= 1e-5 for a, b in zip(one, other)), (one, other)
END
}

one w.yaml patches --set 'precision=[fp32, int8]'
many w.yaml 4 spatial=2 --set 'precision=[fp32, int8]' # two groups of two
same_scores patches/results
diff -r "$scratch/patches/results/int8" "$scratch/many/results/int8" || fail "INT8 is not one rank's"
for k in 0 1 2 3; do
    grep -q '"state": "done"' "$scratch"/many/jobs/infer-*/rank-000$k.json || fail "no record of rank $k"
done
grep -q '"n_batches": [1-9]' "$scratch"/many/jobs/infer-*/rank-0003.json || fail "rank 3 did nothing"
many w.yaml 4 spatial.cols=4 --set 'precision=[int8]'
diff -r "$scratch/patches/results/int8" "$scratch/many/results/int8" || fail "columns are not one rank's"
many w.yaml 4 stages=2 --set 'engine.parallel={spatial: 2, stages: 2, microbatches: 2, bidirectional: true}' \
    --set 'precision=[int8]'
diff -r "$scratch/patches/results/int8" "$scratch/many/results/int8" || fail "both ways are not one rank's"
many w.yaml 4 tensor=2 --set 'precision=[int8]' # two groups, each rank with half of the weights
diff -r "$scratch/patches/results/int8" "$scratch/many/results/int8" || fail "channels are not one rank's"
one s.yaml slides --set 'precision=[int8]'
many s.yaml 4 'spatial={rows: 2, cols: 2}' --set 'precision=[int8]'
diff -r "$scratch/slides/results" "$scratch/many/results" || fail "slides in INT8 are not one rank's"

# Without MPI: said before anything is written; where only the job's machine lacks it, one try and the reason.
for command in check "run --out $scratch/none"; do
    HRF_MODULE_DIR=$scratch/none expect_code 4 "$flow" $command "$scratch/w.yaml" --set executor.local.ranks=2
    expect_text "executor.local.ranks asks for 2 ranks a job, which need MPI (openmpi-bin"
done
[ ! -e "$scratch/none" ] || fail "something was written"
HRF_MODULE_DIR=$scratch/none expect_code 4 "$flow" doctor "$scratch/w.yaml" --set executor.local.ranks=2
expect_text "BAD  ranks       executor.local.ranks asks for 2 ranks a job"
root=$([ "$(id -u)" != 0 ] || echo ", --allow-run-as-root")
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/lacking" --set executor.local.ranks=2 \
    --set "executor.local.launcher=[env, HRF_MODULE_DIR=$scratch/none, mpirun, --oversubscribe$root]"
expect_text "2 ranks need MPI (ask for one rank, or see hires-flow doctor): this installation has no mpi module"
[ "$(find "$scratch/lacking/jobs" -maxdepth 1 -name 'infer-*.a2' | wc -l)" = 0 ] || fail "tried again without MPI"

# One rank sees another file system: the slide fails, by name, and the others do not.
cat >"$scratch/other.py" <<'END'
# spec.json with another slide and the checksum of that: of all other keys, without white space.
import hashlib, re, sys
text = re.sub("test_002.tif", "nothing.tif", open(sys.argv[1]).read())
parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
compact = "".join(part if i % 2 else re.sub(r"\s", "", part) for i, part in enumerate(parts))
compact = re.sub(r'"sha256":"[0-9a-f]*",', "", compact)
sha256 = hashlib.sha256(compact.encode()).hexdigest()
open(sys.argv[2], "w").write(re.sub(r'("sha256": ")[0-9a-f]*', r"\g<1>" + sha256, text))
END
cat >"$scratch/engine" <<END
#!/bin/sh
[ "\$1" = infer ] && [ "\$OMPI_COMM_WORLD_RANK" = 1 ] || exec "$engine" "\$@"
spec=\$(dirname "\$2")/spec.rank1.json
/usr/bin/python3 "$scratch/other.py" "\$2" "\$spec"
exec "$engine" infer "\$spec"
END
chmod +x "$scratch/engine"
for file in w.yaml s.yaml; do
    HRF_ENGINE=$scratch/engine many $file 2 spatial=2
    expect_text "4 slides: 2 done, 2 failed"
    expect_text "nothing.tif"
done

expect_code 2 "$flow" run "$scratch/s.yaml" --out "$scratch/bad" --set executor.local.ranks=4
expect_text "a slide is one image: 'engine.parallel' has to share it out over all 4 ranks"
expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/bad" --set executor.local.ranks=4 --set engine.parallel.spatial=3
expect_text "'engine.parallel' multiplies to 3, and a job has 4 ranks"
expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/bad" --set executor.local.ranks=4 --set engine.parallel.data=2
expect_text "'engine.parallel' multiplies to 2, and a job has 4 ranks"
