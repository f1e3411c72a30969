#!/bin/sh
# Workflow files named by their fault, each with the messages that `check` must give.
# HRF_REFRESH_GOLDEN=1 writes them anew, to be read before they are committed.
set -u
cd "$HRF_SOURCE_DIR/tests/golden/workflow" || exit 2
passed=0 failed=0
for file in *.yaml; do
    here=$(pwd)
    text=$("$HRF_BIN_DIR/hires-flow" check "$file" 2>&1 | sed "s|$here/||g; s|$HRF_SOURCE_DIR/||g")
    [ "${HRF_REFRESH_GOLDEN:-0}" = 0 ] || printf '%s\n' "$text" >"${file%.yaml}.expected"
    if [ "$text" = "$(cat "${file%.yaml}.expected")" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s:\n%s\n' "$file" "$text"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -ge 40 ]
