#!/bin/sh
# The container recipes cannot be built everywhere, so they are read: the same bases, the same steps,
# the same packages, all from tools/install-deps and packaging/make-deb; shell that parses.
set -eu
cd "${1:-$(dirname "$0")/../..}"
failed=0
say() { echo "$*"; failed=1; }
docker=packaging/Dockerfile apptainer=packaging/hires-flow.def
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The shell of each recipe, the stages one behind the other; without what only one kind needs.
sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba}' "$docker" >"$scratch/docker"
sed -n 's/^RUN //p' "$scratch/docker" | sed 's/ && /\n/g' >"$scratch/docker.sh"
awk '/^%/ { inside = ($1 == "%post") } /^Bootstrap:/ { inside = 0 } inside && !/^%/ && NF { sub(/^ +/, ""); print }' \
    "$apptainer" >"$scratch/apptainer.sh"
for kind in docker apptainer; do
    sh -n "$scratch/$kind.sh" || say "the shell of the $kind recipe does not parse"
    grep -qx "/source/packaging/make-deb /package" "$scratch/$kind.sh" || say "the $kind recipe does not build by packaging/make-deb"
    sed -n 's/^apt-get install -y --no-install-recommends //p' "$scratch/$kind.sh" >"$scratch/$kind.packages"
    [ -s "$scratch/$kind.packages" ] || say "the $kind recipe installs nothing"
done
cmp "$scratch/docker.packages" "$scratch/apptainer.packages" >/dev/null ||
    say "the recipes install other packages: '$(cat "$scratch/docker.packages")' and '$(cat "$scratch/apptainer.packages")'"
sed -n 's/^FROM \([^ ]*\).*/\1/p' "$docker" >"$scratch/docker.bases"
sed -n 's/^From: //p' "$apptainer" >"$scratch/apptainer.bases"
cmp "$scratch/docker.bases" "$scratch/apptainer.bases" >/dev/null || say "the recipes begin with other images"
while read -r word rest; do # what a Dockerfile may say
    case $word in
    "" | \#* | FROM | COPY | RUN | WORKDIR | ENTRYPOINT) ;;
    *) say "Dockerfile: '$word $rest' is no instruction that is known here" ;;
    esac
done <"$scratch/docker"
for section in $(grep -o '^%[a-z]*' "$apptainer"); do
    case $section in
    %files | %post | %runscript | %help | %labels | %environment | %test) ;;
    *) say "hires-flow.def: there is no section $section" ;;
    esac
done
grep -q "^tools/install-deps --package$" packaging/make-deb || say "packaging/make-deb does not install by tools/install-deps"
for script in packaging/make-deb; do sh -n "$script" || say "$script does not parse"; done
for script in tools/install-deps tools/demo tools/test; do bash -n "$script" || say "$script does not parse"; done
grep -q -- '--package \] ||.*libopenmpi-dev' tools/install-deps || say "a package made by packaging/make-deb has no module for MPI"
# What is copied into the image is there, and not left out by .dockerignore.
[ ! -e .dockerignore ] || ! grep -qE '^(packaging|tools|CMakeLists)' .dockerignore || say ".dockerignore leaves out what the recipe needs"
exit $failed
