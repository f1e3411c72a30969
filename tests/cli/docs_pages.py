"""Carries out the commands of the documentation's pages, in their order, in a folder where the files that they name are
there: small networks and images stand for large ones. A page's commands that need a cluster, a GPU or weights of others
are left to the tests named in OTHERS. Prints how many were carried out; exit code 1 and the output of one that failed."""
import os, re, subprocess, sys

source, folder, pages = sys.argv[1], sys.argv[2], sys.argv[3:]
# What a command of these pages is run by instead: tests/slurm/rows/docs.sh; a GPU; flow_view (it ends by Ctrl-C).
OTHERS = re.compile(r"--executor slurm|srun |--device cuda|hires-flow view ")
SMALLER = [(r"resnet(101|50)", "resnet18"), (r"--size (2048|8192|1024|512)", "--size 64"), (r"--layout stages=4,microbatches=8", "--layout stages=4,microbatches=8 --runs 1"),
           (r"mpirun ", "mpirun --oversubscribe %s" % ("--allow-run-as-root " if os.geteuid() == 0 else "")), (r"--size 256", "--size 64"),
           (r"(bench engine|bench sweep|hires-engine bench|profile) ", r"\1 --runs 1 "), (r"tune-comm", "tune-comm --largest 65536"),
           (r"plan (.*)--runs 1", r"plan \1"), (r"--ranks 1..32", "--ranks 1..4"), (r"--mpp 0.5$", "--mpp 0.5 --out inferred"), (r"FILE.yaml --set", "FILE.yaml --out ranks --set")]


def commands(page):
    text, fenced = re.sub(r"\\\n\s*", " ", open(f"{source}/{page}").read()), False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            line = re.sub(r"\s+#.*", "", line.strip())
            if re.match(r"(mpirun .*)?(hires-flow|hires-engine) ", line) and not OTHERS.search(line):
                yield line


n = 0
for page in pages:
    for line in commands(page):
        key = subprocess.run(["hires-flow", "calibrate", "--list"], capture_output=True, text=True, cwd=folder).stdout.split() if "10a2c4" in line else None
        words = line if key is None else line.replace("10a2c4", next(w for w in key if re.fullmatch(r"[0-9a-f]{6,64}", w)))
        for old, new in SMALLER:
            words = re.sub(old, new, words)
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL)
        n += 1
        if done.returncode not in ((0, 3) if re.match(r"hires-flow (run|infer)", words) else (0,)): # 3: the damaged slide
            print(f"{page}: exit code {done.returncode}: {line}\nas: {words}\n{done.stdout[-500:]}{done.stderr[-1500:]}", file=sys.stderr)
            sys.exit(1)
print(f"{n} commands carried out")
