"""Walks the options of every command of hires-flow and hires-engine by their --help: a number
beyond the range that the help prints is refused with the option's name, the number and the range,
exit code 2, before anything else is looked at. Prints how many there are; exit code 1 and a line
for each that is not so."""
import re, subprocess, sys

bin_dir, slide, model = sys.argv[1:]
# What a setting's option says is checked with all other settings, once the operands are known.
operands = {"infer": [slide, "--model", model, "--out", "not-written"], "tile": [slide]}
number = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
range_of = re.compile(rf"(?:^|; )(?:({number}) to ({number})|at least ({number}))(?:, default \S+)?(?=;|$)")


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def commands_of(program):
    listed = run(program, "--help").stdout.split("\ncommands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def options_of(program, command):
    """Names and help, whose lines are joined again."""
    text = run(program, command, "--help").stdout.split("\noptions:\n")[-1]
    text = re.sub(r"\n {31}", " ", text)
    return re.findall(r"^  --(\S+) (\S+) +(.*)$", text, re.M)


n, wrong = 0, []
for name in "hires-flow", "hires-engine":
    program = f"{bin_dir}/{name}"
    for command in commands_of(program):
        for option, _, help in options_of(program, command):
            ranges = range_of.findall(help)
            if len(ranges) != 1:
                continue  # none, or two settings in one option: flow_commands.sh has those
            least, most, only = ranges[0]
            for value in [f"{float(only or least) - 1:.15g}"] + ([f"{float(most) + 1:.15g}"] if most else []):
                done = run(program, command, *operands.get(command, []), f"--{option}={value}")
                said = done.stderr
                named = f"--{option} takes a" in said or f"--{option} is {value}; it must be" in said
                if done.returncode != 2 or not named or value not in said or (most or only) not in said:
                    wrong.append(f"{name} {command} --{option}={value}: exit code {done.returncode}, {said}")
                n += 1
for line in wrong:
    print(line, file=sys.stderr)
print(f"{n} numbers beyond a range")
sys.exit(1 if wrong or n < 80 else 0)
