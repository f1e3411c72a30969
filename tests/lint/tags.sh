#!/bin/sh
# A tag means one thing in the whole tree: no two structs, enums, unions, types or public functions
# of product code share a name. A struct that each back end or test defines for itself, because an
# interface declares it incomplete, is listed here.
cd "$(dirname "$0")/../.." || exit 2
# hrf_backend: by each back end; hrf_tuning_learner: by each kind of steps of a training.
opaque=', struct hrf_backend, struct hrf_tuning_learner,'
found=$(tests/lint/files.sh '\.(c|h|cu|cuh)' | grep -v '^tests/' |
    xargs grep -HoE '^(typedef )?(struct|enum|union) hrf_[a-z0-9_]+ \{|^(struct|enum|union) hrf_[a-z0-9_]+$' |
    sed -E 's/^([^:]*):(typedef )?(.*[a-z0-9_])( \{)?$/\3 \1/; s/ \{//' | sort |
    awk -v opaque="$opaque" '{
        tag = $1 " " $2
        if (index(opaque, ", " tag ",")) next
        if (tag == before) print tag ": " place " and " $3
        before = tag
        place = $3
    }')
[ -z "$found" ] && exit 0
echo "$found"
exit 1
