#!/bin/sh
# Calls that are not used here, each with what to use instead. A line opts out with "ci-allow".
cd "$(dirname "$0")/../.." || exit 2
bad=0
ban() {
    found=$(tests/lint/files.sh '\.[ch]' | xargs grep -nE "(^|[^A-Za-z0-9_.>])($1) ?\(" |
        grep -vE 'ci-allow|^library/example/|^[^:]*:[0-9]+: \*|^[^:]*:[0-9]+:/\*|tests/lint/')
    if [ -n "$found" ]; then
        printf '%s\n  -> %s\n' "$found" "$2"
        bad=1
    fi
}
ban 'malloc|calloc|realloc|free|strdup|strndup|asprintf|vasprintf' 'base/alloc.h: hrf_alloc, hrf_free, hrf_strdup, hrf_format'
ban 'strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets' 'snprintf or base/strbuf.h'
ban 'atoi|atol|atof|sscanf' 'strtoll, strtod with their checks'
ban 'strtok|localtime|gmtime|asctime|ctime|strerror' 'the reentrant forms'
ban 'system|popen|mktemp|tmpnam' 'base/process.h from argv; mkstemp, hrf_file_temporary'
ban 'rand|srand|random|drand48' 'base/random.h: seeded, the same on every machine'
ban 'json_pack|json_object_set|json_object_set_new|json_array_append|json_array_append_new' 'base/json.h: hrf_json_put and its relatives, which check'
ban 'abort|exit' 'a status: libraries never end the process'
found=$(tests/lint/files.sh '\.[ch]' | grep -v '^schema/store/columns.c$\|^tests/' |
    xargs grep -nE 'sqlite3_column_(int|int64|double|text|blob|bytes|value) ?\(')
if [ -n "$found" ]; then
    printf '%s\n  -> %s\n' "$found" 'schema/store/columns.h: values of a store are checked where they are read'
    bad=1
fi
found=$(grep -nE '(^|[^A-Za-z0-9_])(printf|vprintf) ?\(' orchestrator/cli/*.c)
if [ -n "$found" ]; then
    printf '%s\n  -> %s\n' "$found" 'orchestrator/cli/cli.h: hrf_cli_printf makes control characters harmless'
    bad=1
fi
found=$(tests/lint/files.sh '\.(c|h|cu|cuh)' | grep -v '^tests/unit/unit.h$' | xargs grep -nF '<cmocka.h>')
if [ -n "$found" ]; then
    printf '%s\n  -> %s\n' "$found" 'tests/unit/unit.h: its fail_msg() has its format checked'
    bad=1
fi
# A switch over operators is a second place for what their rows in engine/ir/op.c say: the number of
# its labels may only fall. Whoever removes some lowers it here.
most=82
found=$(tests/lint/files.sh '\.(c|h|cu|cuh)' | xargs grep -ohE 'case HRF_OP_' | wc -l)
if [ "$found" -gt "$most" ]; then
    printf '%s labels "case HRF_OP_", at most %s\n  -> %s\n' "$found" "$most" 'engine/ir/op.h: rows, classes'
    bad=1
fi
exit $bad
