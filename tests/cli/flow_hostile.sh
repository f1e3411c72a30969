#!/bin/sh
# A store whose values were changed by anything: every command reads it or refuses it by a sentence.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
"$flow" demo-data "$scratch/cohort" --slides 4 --size 1300 --difficulty 0 >/dev/null 2>&1
make_workflow "$scratch/w.yaml"
sed -i "s|^dataset:.*|dataset: {layout: files, files: [\"$scratch/cohort/testing/images/test_00[12].tif\"]}|" "$scratch/w.yaml"
echo 'report: {heatmaps: false, html: false}' >>"$scratch/w.yaml"
run=$scratch/run
"$flow" run "$scratch/w.yaml" --out "$run" >/dev/null 2>&1 || [ $? = 3 ] || fail "no run to begin with"
cp -r "$run" "$scratch/good"
job=$(sqlite3 "$run/run.db" "SELECT job_id FROM attempt WHERE kind=1 LIMIT 1")
n=0
# No signal, no finding of a sanitizer; what is refused is named with the way out.
bounded() { # what, command...
    what=$1
    shift
    code=0
    "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
    case $code in 0 | 1 | 2 | 3) ;; *) cat "$scratch/err"; fail "$what: exit $code: $*" ;; esac
    ! grep -q "Sanitizer\|runtime error" "$scratch/err" || { cat "$scratch/err"; fail "$what: $*"; }
    [ $code = 0 ] || [ $code = 3 ] || [ -s "$scratch/err" ] || fail "$what: not a word of $*"
}
try() { # SQL [text that status or why must say]
    rm -rf "$run"
    cp -r "$scratch/good" "$run"
    # By somebody who knows of the seal, too.
    sqlite3 "$run/run.db" "PRAGMA ignore_check_constraints=ON; DELETE FROM seal; $1" || fail "no such SQL: $1"
    said=
    for command in status why "why:test_001" "why:$job" report; do
        name=${command#*:}
        [ "$name" = "$command" ] && name=
        # shellcheck disable=SC2086
        bounded "$1" "$flow" ${command%:*} "$run" $name
        said="$said$(cat "$scratch/err")"
    done
    bounded "$1" "$flow" compare "$run" "$scratch/good"
    case $said in *"${2:-}"*) ;; *) fail "$1: nothing says '$2': $said" ;; esac
    n=$((n + 1))
}
again() { # SQL: ... and what else reads the store, or writes to it, ends as it should or by a sentence
    try "$@"
    bounded "$1" "$flow" why "$run" --json
    bounded "$1" "$flow" report "$run" --json
    bounded "$1" "$flow" aggregate "$run"
    bounded "$1" "$flow" plan "$scratch/w.yaml" --out "$run"
    bounded "$1" "$flow" run "$scratch/w.yaml" --out "$run"
}
damaged="is damaged"
again "UPDATE slide SET state=999" "$damaged"
try "UPDATE slide SET state=-1" "$damaged"
try "UPDATE slide SET truth=7" "column 'truth' of table 'slide'"
try "UPDATE slide SET name=NULL" "column 'name' of table 'slide'"
try "UPDATE slide SET path=x'2f61'" "a blob of 2 bytes in column 'path'"
try "UPDATE slide SET n_bytes=-5" "$damaged"
again "UPDATE slide SET id=id+4611686018427387904" "$damaged"
again "UPDATE task SET state=999" "999 in column 'state' of table 'task' is no number from 0 to 3"
try "UPDATE task SET state=-1" "$damaged"
again "UPDATE OR IGNORE task SET kind=77" "column 'kind' of table 'task'"
again "UPDATE OR IGNORE task SET slide_id=9999" "belongs to slide 9999, which does not exist"
try "UPDATE OR IGNORE task SET slide_id=-3" "column 'slide_id' of table 'task'"
again "UPDATE task SET id=id+4611686018427387904" "column 'id' of table 'task'"
again "UPDATE task SET id=id+2000000000"
again "UPDATE task SET n_patches=4611686018427387904" "column 'n_patches' of table 'task'"
again "UPDATE task SET n_attempts=9223372036854775807" "column 'n_attempts' of table 'task'"
try "UPDATE task SET memory_level=9223372036854775807" "column 'memory_level' of table 'task'"
try "UPDATE task SET precision='fp32fp32fp32' WHERE kind=1" "is longer than it can be"
try "UPDATE task SET key=NULL"
again "UPDATE attempt SET state=1, task_ids='1 2 x'" "is no list of task ids"
again "UPDATE attempt SET state=1, task_ids='99999999999999999999999'" "is no list of task ids"
again "UPDATE attempt SET state=1, task_ids=''"
again "UPDATE attempt SET state=1, task_ids=NULL" "column 'task_ids' of table 'attempt'"
again "UPDATE attempt SET state=1, directory='../../..'" "is no folder below jobs/"
again "UPDATE attempt SET state=1, pid=-1" "column 'pid' of table 'attempt'"
again "UPDATE attempt SET job_id='infer-9223372036854775807'"
try "UPDATE attempt SET kind=5" "column 'kind' of table 'attempt'"
try "UPDATE attempt SET submitted_ms=9223372036854775807" "column 'submitted_ms' of table 'attempt'"
try "UPDATE event SET subject='test_001', at_ms=-9223372036854775808" "column 'at_ms' of table 'event'"
again "UPDATE record SET bytes='text'" "is no blob"
again "UPDATE record SET bytes=NULL"
again "UPDATE record SET bytes=zeroblob(100000)" "damaged record"
try "UPDATE OR IGNORE slide_score SET slide_id=-1"
try "UPDATE phase SET name='a name that is far too long for a phase' WHERE name='infer'" "column 'name' of table 'phase'"
try "UPDATE fact SET value=x'00'"
again "INSERT OR REPLACE INTO lease(id, host, boot, pid, start_time, beat_ms, pid_space) VALUES(1, 'h', 'b', -1, 5, -9223372036854775808, 'p')" "column 'pid' of table 'lease'"
again "PRAGMA user_version=2147483647" "a run store of version 2147483647, and this hires-flow reads"
again "PRAGMA user_version=-2147483648" "store of version -2147483648"
again "PRAGMA user_version=0" "store of version 0"
again "DROP TABLE task"
again "DROP TABLE slide; CREATE VIEW slide AS SELECT randomblob(9)"
again "CREATE TRIGGER t AFTER UPDATE ON task BEGIN DELETE FROM record; END"
echo "$n passed, 0 failed"
