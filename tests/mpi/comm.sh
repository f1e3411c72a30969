#!/usr/bin/env bash
# Messages between MPI ranks: longer than MPI takes at once (by a small limit), in groups, of a rank
# that stops in the middle of one, and what they cost, kept beside what messages between threads cost.
. "$(dirname "$0")/lib.sh"
export HRF_MODULE_DIR=$HRF_BIN_DIR/../lib/hires-flow
ranks 4 "$HRF_BIN_DIR/../tests/comm_itself"
# By TCP, a long message is sent on as its receiver asks for more.
OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self expect_code 3 ranks 2 "$HRF_BIN_DIR/../tests/comm_itself" stop
expect_text "rank 1 hangs or has died: it has shown no progress for 6 s"
tune() { "$@" tune-comm --largest 4096 --cache "$scratch/kept" --json; }
tune "$flow" >"$scratch/threads.json"
ranks 3 "$flow" tune-comm --comm mpi --largest 4096 --cache "$scratch/kept" --json >"$scratch/all.json"
tune "$flow" >"$scratch/again.json"
/usr/bin/python3 - "$scratch" <<'END' || fail "the table is not as it should be"
import json, math, sys
threads, both, again = (json.load(open(f"{sys.argv[1]}/{n}.json")) for n in ("threads", "all", "again"))
names = lambda m: sorted((l["comm"], l["placement"]) for l in m["links"])
assert names(threads) == [("loop", "process")], names(threads)
assert names(both) == [("loop", "process"), ("mpi", "node")] == names(again), (names(both), names(again))
mpi = [l for l in both["links"] if l["comm"] == "mpi"][0]
assert [p[0] for p in mpi["points"]] == [64, 256, 1024, 4096]
assert all(t >= 0 for p in mpi["points"] for t in p)
kept = [l for l in again["links"] if l["comm"] == "mpi"][0] # seconds, but microseconds in the file
assert len(kept["points"]) == len(mpi["points"]) and all(
    math.isclose(a, b, rel_tol=1e-12) for p, q in zip(mpi["points"], kept["points"]) for a, b in zip(p, q)
), "lost by measuring threads again"
END
expect_code 2 "$flow" tune-comm --comm mpi
expect_text "messages need two ranks"
