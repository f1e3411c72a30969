"""Every command of hires-flow and hires-engine on the documentation's pages is one that the program
has, with options that its --help names. Prints how many there are; exit code 1 and a line for each
that is not so."""
import re, subprocess, sys

bin_dir, pages = sys.argv[1], sys.argv[2:]
help_of = {}


def help_text(words):
    key = tuple(words)
    if key not in help_of:
        done = subprocess.run([f"{bin_dir}/{words[0]}", *words[1:], "--help"], capture_output=True, text=True)
        help_of[key] = done.stdout if done.returncode == 0 else None
    return help_of[key]


def code_of(page):
    """The lines of code: indented blocks, fenced blocks, spans; continued lines joined."""
    text = open(page).read()
    text = re.sub(r"\\\n\s*", " ", text)
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line
        else:
            yield from re.findall(r"`([^`]+)`", line)


n, wrong = 0, []
for page in pages:
    for line in code_of(page):
        for found in re.finditer(r"(?<![\w./-])(hires-flow|hires-engine) ([a-z][a-z-]*)([^|;&#]*)", line):
            program, command, rest = found.groups()
            words = [program, command]
            first = rest.split()[:1]
            if command == "bench" and first == ["sweep"]:
                words.append("sweep")
            text = help_text(words) or help_text(words[:2])
            n += 1
            if text is None:
                wrong.append(f"{page}: no command '{program} {command}': {line.strip()}")
                continue
            for option in re.findall(r"(?:^|\s)(--[a-z][a-z0-9-]*)", rest):
                if not re.search(r"^\s+" + option + r"(\s|$)", text, re.M):
                    wrong.append(f"{page}: '{program} {command}' has no {option}: {line.strip()}")
for line in wrong:
    print(line, file=sys.stderr)
print(f"{n} commands of {len(pages)} pages")
sys.exit(1 if wrong or n < 100 else 0)
