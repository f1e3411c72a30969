"""Every page of the documentation has the same shape: a title, what the page is for, a first example, the rest; at most
1,200 words to read beside its tables. Every link leads to a page and a heading that are there, the index names every page, and
functions of the program that a page names are there.
(The index, the architecture and the pages for developers have no first example.)"""
import glob, os, re, sys

root = sys.argv[1]
docs = root + "/docs"
wrong = []


def slug(heading):
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("# ").replace("`", ""))
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


def without_code(text):
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)


pages = sorted(glob.glob(docs + "/**/*.md", recursive=True)) + [f"{root}/{name}" for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
texts = {os.path.normpath(page): open(page).read() for page in pages}
headings = {page: {slug(line) for line in without_code(text).splitlines() if line.startswith("#")} for page, text in texts.items()}
sources = "".join(open(path).read() for path in glob.glob(root + "/*/**/*.[ch]", recursive=True) if "/build/" not in path)
known = set(re.findall(r"\b(?:hrf|run)_\w+", sources))
for page, text in texts.items():
    name = os.path.relpath(page, docs)
    for function in re.findall(r"`((?:hrf|run)_\w+)`", text):
        if function not in known and f"{function}.so" not in text:
            wrong.append(f"{name}: there is no {function}")
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if link.startswith("http"):
            continue
        target, _, heading = link.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        if not os.path.exists(file):
            wrong.append(f"{name}: there is no {link}")
        elif heading and heading not in headings[file]:
            wrong.append(f"{name}: there is no heading {link}")
    if name.startswith("..") or name == "README.md":
        continue
    index = "measurements/README.md" if name.startswith("measurements/") and not name.endswith("README.md") else "README.md"
    if f"({os.path.relpath(name, os.path.dirname(index))})" not in texts[os.path.normpath(f"{docs}/{index}")]:
        wrong.append(f"docs/{index} does not name {name}")
    lines = [line for line in without_code(text).splitlines() if line.strip()]
    if not lines[0].startswith("# ") or lines[1][0] in "#|":
        wrong.append(f"{name} does not begin with a title and what it is for")
    if "/" in name or name == "architecture.md":
        continue
    sections = [line for line in lines if line.startswith("## ")]
    if sections and not sections[0].startswith("## First example"):
        wrong.append(f"{name}: the first section is '{sections[0]}', not the first example")
    words = len(" ".join(line for line in lines if not line.startswith("|")).split())
    if words > 1200:
        wrong.append(f"{name} has {words} words beside its tables: more than five minutes")
for line in wrong:
    print(line, file=sys.stderr)
print(f"{len(pages)} pages")
sys.exit(1 if wrong or len(pages) < 30 else 0)
