"""Carries out every command of the documentation's pages, in their order, each page in a folder of its own that holds
only what the page says is there (GIVEN): small networks and images stand for large ones.

A command is a line of a code block, or a span of a table, that begins with a program. What a test machine has not is said
in the page, where its source is read: `<!-- needs a GPU -->` before a block, or "needs a GPU" in the comment of a line (a
cluster, root, a network connection, weights, a build, a browser); `<!-- run by: flow_head -->` names the test that
carries a block out. Prints how many there are of each; exit code 1 and the output of one that failed."""
import glob, os, re, subprocess, sys

source, given, scratch = sys.argv[1:]
GIVEN = {
    "README.md": "slides mine.onnx mine.yaml",
    "docs/coming-from.md": "slides model.onnx encoder.onnx head.yaml features labels.csv results out CLAM_DIR",
    "docs/gradients.md": "mine.onnx x.npy classes.npy",
    "docs/heads.md": "features labels.csv new",
    "docs/int8.md": "FILE.yaml mine.onnx x.npy",
    "docs/measurements/ranks.md": "MODEL.onnx",
    "docs/models.md": "model.onnx",
    "docs/install.md": "tools",
    "docs/night.md": "mine.yaml",
    "docs/own-model.md": "mine.onnx x.npy",
    "docs/parallel.md": "FILE.yaml MODEL.onnx X.npy",
    "docs/patches.md": "slides",
    "docs/planning.md": "FILE.yaml machines tools",
    "docs/precision.md": "FILE.yaml",
    "docs/results.md": "runs",
    "docs/running.md": "FILE.yaml",
    "docs/slides.md": "slides mine.onnx",
    "docs/study.md": "runs",
}
NEEDS = ("a cluster", "a GPU", "root", "a network connection", "weights", "a build", "a browser")
PROGRAM = re.compile(r"(hires-flow|hires-engine|mpirun|srun|nohup|tools/|packaging/|build/|/tmp/|mkdir|cmake|cc |\./|pip |apt |docker |apptainer |cp )")
SMALLER = [(r"resnet(101|50)", "resnet18"), (r"--size (2048|8192|1024|512|256|224)", "--size 64"), (r"--layout stages=4,microbatches=8", "--layout stages=4,microbatches=8 --runs 1"),
           (r"mpirun ", "mpirun --oversubscribe %s" % ("--allow-run-as-root " if os.geteuid() == 0 else "")),
           (r"(bench engine|bench sweep|hires-engine bench|profile) ", r"\1 --runs 1 "), (r"tune-comm", "tune-comm --largest 65536"),
           (r"plan (.*)--runs 1", r"plan \1"), (r"--ranks 1..32", "--ranks 1..4"), (r"--mpp 0.5$", "--mpp 0.5 --out inferred"), (r"FILE.yaml --set", "FILE.yaml --out ranks --set"),
           (r"--classes a,b", "--classes normal,tumor"), (r"^nohup (.*) --notify '[^']*' (.*) &$", r"\1 \2"), (r"\.\.\. --set", "slides/ --model encoder.onnx --size 64 --set"),
           (r"features.form=(clam|stamp)$", r"features.form=\1 --out \1")]
INFER = "hires-flow infer slides/test_001.tif --model model.onnx --size 64 --mpp 0.5 --out $(mktemp -d -p .)"
PLACEHOLDER = re.compile(r"\b(DIR|FILE|JOB|NAME|SLIDE)\b|^hires-flow( head)? [a-z]+$")


def commands(page):
    """(command, why it is not carried out here or None)"""
    text = re.sub(r"\\\n\s*", " ", open(f"{source}/{page}").read())
    fence, why, before = None, None, ""
    for line in text.splitlines():
        marker = re.fullmatch(r"\s*<!-- (needs|run by:) (.*) -->", line)
        if marker:
            why = (marker[1] + " " + marker[2]).replace("run by: ", "run by: ")
        elif line.lstrip().startswith("```"):
            fence = None if fence is not None else line.strip()[3:]
            why = why if fence is not None else None
        elif fence == "sh" or (fence is None and re.match(r"    +\S", line)):
            words, _, comment = line.strip().partition(" #")
            needs = re.search(r"needs (%s)" % "|".join(NEEDS), comment)
            if PROGRAM.match(words) and not words.endswith("]"):  # [--option]: how a command is written
                yield words.strip(), needs[0] if needs else why
        elif fence is None and line.strip():
            why = None
            for span in re.findall(r"\| [^|]*`((?:hires-flow|--set) [^`]*)`", line) if line.startswith("|") else ():
                if span.startswith("--set") and "[...]" not in span:  # read, and paths looked for, by a whole call
                    yield f"{INFER} {span}", None
                elif span.startswith("hires-flow") and not PLACEHOLDER.search(span):
                    yield span, None


def prepare(page, folder):
    os.makedirs(folder)
    for name in GIVEN.get(page, "").split():
        os.symlink(f"{given}/{name}", f"{folder}/{name}")
    if page != "docs/heads.md":
        return
    lines = open(f"{source}/{page}").read().splitlines()  # its first recipe, of fewer and shorter trainings
    first = lines.index("    version: 1")
    recipe = [line[4:] for line in lines[first : lines.index("", first)]]
    recipe = [line.replace("folds: 5", "folds: 3").replace("[1, 2, 3]", "[1], epochs: 2") for line in recipe]
    open(f"{folder}/head.yaml", "w").write("\n".join(recipe) + "\n")


count, wrong = {}, []
for page in ["README.md"] + sorted(os.path.relpath(path, source) for path in glob.glob(f"{source}/docs/**/*.md", recursive=True)):
    if page == "docs/first-steps.md":  # docs_commands carries it out as it stands
        continue
    folder = f"{scratch}/pages/" + page.replace("/", "-")
    prepare(page, folder)
    for line, why in commands(page):
        kind = why or "carried out"
        count[kind] = count.get(kind, 0) + 1
        if why is not None:
            test = why[8:] if why.startswith("run by: ") else None
            if test is None and why[6:] not in NEEDS or test is not None and not all(
                glob.glob(f"{source}/tests/*/{name}.sh") + glob.glob(f"{source}/tests/slurm/rows/{name}.sh") for name in re.split(", ", test)
            ):
                wrong.append(f"{page}: '{why}' is none of {', '.join(NEEDS)}, and no test: {line}")
            continue
        words = line
        if "10a2c4" in line:
            key = subprocess.run(["hires-flow", "calibrate", "--list"], capture_output=True, text=True, cwd=folder).stdout.split()
            words = line.replace("10a2c4", next(w for w in key if re.fullmatch(r"[0-9a-f]{6,64}", w)))
        for old, new in SMALLER:
            words = re.sub(old, new, words)
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL)
        if done.returncode not in ((0, 3) if re.match(r"hires-flow (run|infer|check .*--slides)", words) else (0,)):  # 3: the damaged slide
            wrong.append(f"{page}: exit code {done.returncode}: {line}\nas: {words}\n{done.stdout[-400:]}{done.stderr[-800:]}")
for text in wrong:
    print(text, file=sys.stderr)
print(", ".join(f"{n} {kind}" for kind, n in sorted(count.items())))
sys.exit(1 if wrong or count.get("carried out", 0) < 50 else 0)
