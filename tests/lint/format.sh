#!/bin/sh
# The formatting of .clang-format (version 14 is the one that decides).
cd "$(dirname "$0")/../.." || exit 2
command -v clang-format >/dev/null || { echo "clang-format is not installed"; exit 77; }
case $(clang-format --version) in *"version 14."*) ;; *) echo "clang-format 14 decides"; exit 77 ;; esac
tests/lint/files.sh '\.[ch]' | xargs clang-format --dry-run -Werror
