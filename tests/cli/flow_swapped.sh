#!/bin/sh
# Records that lie in another's place, each whole: they are named, and their tasks are done again.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
rm "$scratch/cohort/testing/images/test_004.tif"
make_workflow "$scratch/w.yaml"
sed -i "s|^dataset:.*|dataset: {layout: files, files: [\"$scratch/cohort/testing/images/*.tif\"]}|" "$scratch/w.yaml"
sed -i "s|patches_per_job: 20, max_jobs: 2|patches_per_job: 4000, max_jobs: 1|" "$scratch/w.yaml"
sed -i "s|^executor:|report: {heatmaps: false}\nexecutor:|" "$scratch/w.yaml"
run=$scratch/run
db() { sqlite3 "$run/run.db" "$1"; }
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$run"
cp -r "$run/results" "$scratch/wanted"
same() { diff -r "$scratch/wanted" "$run/results" >/dev/null || fail "$1: other results"; }
# The records of two slides' tasks of a kind change places.
swap() { # kind
    db "CREATE TEMP TABLE two AS SELECT key, slide_id FROM task WHERE kind=$1 AND slide_id IN (1, 2);
        CREATE TEMP TABLE moved AS SELECT a.key, record.bytes FROM two a JOIN two b ON a.slide_id<>b.slide_id
            JOIN record ON record.key=b.key;
        UPDATE record SET bytes=(SELECT bytes FROM moved WHERE moved.key=record.key)
            WHERE key IN (SELECT key FROM moved)"
}

# In the store: scores, then tile plans. The report refuses them, a run does the two tasks again.
for kind in 1 0; do
    swap $kind
    expect_code 2 "$flow" report "$run"
    expect_text "it is the record of another task"
    expect_text "'hires-flow run' does the task again"
    expect_code 0 "$flow" plan "$scratch/w.yaml" --out "$run"
    expect_code 0 "$flow" run "$scratch/w.yaml" --out "$run"
    expect_text "test_001: the $([ $kind = 1 ] && echo infer || echo tile) task is done again"
    expect_text "it is the record of another task"
    same "swapped records of kind $kind"
    "$flow" why "$run" test_002 | grep -q "is done again" || fail "why says nothing of it"
done

# A blob with a changed byte is the same to a run as none.
db "UPDATE record SET bytes=CAST(substr(bytes, 1, 400) || x'00' || substr(bytes, 402) AS BLOB)
    WHERE key=(SELECT key FROM task WHERE kind=1 AND slide_id=1)"
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$run"
expect_text "test_001: the infer task is done again"
same "a damaged record"

# As a driver that was killed before it took the infer job's results leaves the store.
forget() {
    db "DELETE FROM seal;
        DELETE FROM record WHERE key IN (SELECT key FROM task WHERE kind=1);
        UPDATE task SET state=1 WHERE kind=1;
        DELETE FROM attempt WHERE kind=1 AND id<(SELECT max(id) FROM attempt WHERE kind=1);
        UPDATE attempt SET state=1, ended_ms=0, task_ids=(SELECT group_concat(id, ' ') FROM task WHERE kind=1)
            WHERE kind=1"
}
job=$(db "SELECT directory FROM attempt WHERE kind=1 AND instr(task_ids, ' ') ORDER BY id LIMIT 1")
[ -e "$run/$job/t0002.rec" ] || fail "no job with three tasks"
db "DELETE FROM seal; DELETE FROM attempt WHERE kind=1 AND directory<>'$job'"
exchange() { mv "$1" "$scratch/x" && mv "$2" "$1" && mv "$scratch/x" "$2"; }
forget
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$run"
! grep -q "done again\|ended without" "$scratch/err" || fail "good results were not taken"
same "results that were found"

# Two tasks' files in the job's folder, statuses and all; then the records with the statuses redone.
forget
db "DELETE FROM seal; DELETE FROM attempt WHERE kind=1 AND directory<>'$job'"
for suffix in rec json; do exchange "$run/$job/t0000.$suffix" "$run/$job/t0001.$suffix"; done
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$run"
same "swapped files of two tasks"
"$flow" why "$run" test_001 | grep -q "it is the status of another task" || fail "why says nothing of the files"
for suffix in rec json; do exchange "$run/$job/t0000.$suffix" "$run/$job/t0001.$suffix"; done
forget
db "UPDATE attempt SET directory='$job', job_id='$(basename "$job" .a1)' WHERE kind=1"
exchange "$run/$job/t0000.rec" "$run/$job/t0001.rec"
for t in t0000 t0001; do
    sum=$(sha256sum "$run/$job/$t.rec" | cut -d' ' -f1)
    sed -i "s/\"record_sha256\": \"[0-9a-f]*\"/\"record_sha256\": \"$sum\"/;
        s/\"record_bytes\": [0-9]*/\"record_bytes\": $(stat -c %s "$run/$job/$t.rec")/" "$run/$job/$t.json"
done
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$run"
same "swapped records of two tasks"
"$flow" why "$run" test_001 | grep -q "it is the record of another task" || fail "why says nothing of the records"

# Tile plans as jobs read them.
set -- "$run"/plans/*.rec
exchange "$1" "$2"
db "DELETE FROM record WHERE key IN (SELECT key FROM task WHERE kind=1)"
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$run"
same "swapped tile plans"
echo "6 passed, 0 failed"
