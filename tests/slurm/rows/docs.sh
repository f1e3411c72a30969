# fault: none, the documentation
# how: every command of docs/slurm.md, slurm-trouble.md and night.md, on the login node, in a folder that all nodes see
# on: cluster
# promise: each ends as the page says; a command that is new on the pages is missing here
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
site=$scratch/site
mkdir -p "$site/runs" "$scratch/bin"
cd "$site"
export PATH=$scratch/bin:$HRF_BIN_DIR:$PATH
printf '#!/bin/sh\ncat >"%s/mail"\n' "$site" >"$scratch/bin/mail"
chmod +x "$scratch/bin/mail"
cp "$cohort/w.yaml" FILE.yaml
sed 's/^executor: {/&type: slurm, /' "$cohort/w.yaml" >mine.yaml
printf 'partition: main\n' >hpc2.yaml

does() { # wanted exit code, the command as it stands on a page
    local wanted=$1 line=$2 words code=0
    echo "$line" >>"$scratch/carried-out"
    words=$(echo "$line" | sed "s|/shared/runs|$site/runs|; s|\bDIR\b|$site/runs/mine|; s|\bSLIDE\b|test_001|; s|\bJOB\b|${job-}|")
    bash -c "$words" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    [ "$code" = "$wanted" ] || { cat "$scratch/out" "$scratch/err"; tell "exit code $code, not $wanted: $words"; }
}

# docs/slurm.md
does 0 'hires-flow doctor --slurm --dir /shared/runs'
expect_text "everything that a run with Slurm needs is available"
does 0 'hires-flow plan FILE.yaml --set executor.type=slurm'
expect_text "sbatch"
does 0 'hires-flow check FILE.yaml --submit --set executor.type=slurm'
expect_text "infer: Slurm would accept it"
does 3 'hires-flow run FILE.yaml --executor slurm --out /shared/runs/mine'
run=$site/runs/mine
same
does 0 'hires-flow status /shared/runs/mine --watch'
does 0 'hires-flow status DIR'
does 0 'hires-flow why DIR SLIDE'
does 0 'hires-flow doctor --slurm --dir DIR'
does 0 'hires-flow check FILE.yaml --submit'
does 3 'hires-flow run FILE.yaml --executor slurm --set executor.slurm.profile=hpc2.yaml'
python3 - "$run/report/report.json" <<'PY' || tell "the report's jobs"
import json, sys
jobs = json.load(open(sys.argv[1]))["jobs"]
assert len(jobs) >= 4 and all(j["host"].startswith("n") and j["processor_seconds"] > 0 and j["peak_process_bytes"] > 0 for j in jobs), jobs
PY

# docs/night.md, in the evening
does 0 'hires-flow doctor mine.yaml --dir .'
does 3 'hires-flow check mine.yaml --slides' # one is cut short
does 0 'hires-flow plan mine.yaml'
does 0 'hires-flow check mine.yaml --submit'
hold
rm -f "$gate"/starts/*
does 0 "nohup hires-flow run mine.yaml --out night --notify 'mail -s \"cohort\" me@lab.example' >night.log 2>&1 &"
held 1
job=$(job_of | cut -d. -f1)
does 0 'hires-flow status night'
expect_text "process "
does 0 'hires-flow why night JOB'
does 0 'hires-flow throttle night --jobs 32'
does 0 'hires-flow throttle DIR --jobs 4'
does 0 'hires-flow cancel night'
expect_text "jobs ended; run again to continue"
release
until_true "the mail of a run that was cancelled" test -s mail
rm mail
does 3 'hires-flow run mine.yaml --out night' # the same command again
cp -r night lastnight
# in the morning
does 0 'hires-flow why night'
does 0 'hires-flow report night --json'
does 0 'hires-flow compare lastnight night'
does 0 'hires-flow cancel DIR'
run=$site/night
same

python3 - "$scratch/carried-out" "$HRF_SOURCE_DIR/docs/slurm.md" "$HRF_SOURCE_DIR/docs/slurm-trouble.md" "$HRF_SOURCE_DIR/docs/night.md" <<'PY' || tell "commands of the pages that are not tried here"
import re, sys
tried = open(sys.argv[1]).read()
for page in sys.argv[2:]:
    text = open(page).read()
    found = re.findall(r"^ +((?:nohup )?hires-flow .*?)(?:  +#.*)?$", text, re.M) + re.findall(r"`(hires-flow [^`]*)`", text)
    assert len(found) >= 8, found
    for line in found:
        assert line.strip() in tried, (page, line)
PY
