#!/bin/sh
# The text that each planted fault changes stands in its file once: who changes the one changes the other.
cd "$(dirname "$0")/../.." || exit 2
tools/plant-faults --list >/dev/null || {
    tools/plant-faults --list | grep 'the text is not there once'
    echo '  -> tests/planted.txt'
    exit 1
}
