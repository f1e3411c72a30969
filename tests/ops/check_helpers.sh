#!/bin/sh
# usage: check_helpers.sh REF CPU COMMON IR HELPER ... (the static libraries of these folders)
# What computes in engine/backend and engine/ir: the reference uses nothing of it, and the CPU back
# end nothing but the helpers, in each of which test_reference plants a fault.
ref=$1 cpu=$2 common=$3 ir=$4
shift 4
# These compute no number of a tensor: graphs, shapes, types, names, memory, errors, and how a
# convolution is cut into strips, which runs the same kernels. The constants of attention on bytes are
# judged by test_byte_attention, whose formula in double shares nothing with them.
plain='^hrf_(graph|shape|dtype|op|kernel|kernels|backend|value|attributes|node|device_identity|strips)_|_destroy$|^hrf_spec_constant_bytes$|^hrf_attention_steps_of$'
symbols() # of a library, of the kinds that nm says
{
    nm "$2" 2>/dev/null | awk -v kinds="$1" 'NF > 1 && index(kinds, $(NF - 1)) { print $NF }' | sort -u
}
shared=$(for library in "$common" "$ir"; do symbols TRD "$library"; done | grep -Ev "$plain")
[ -n "$shared" ] || { echo "no function found in $common and $ir"; exit 1; }
failed=0
used_by() # the shared functions that a library refers to
{
    symbols U "$1" | grep -Fx "$shared"
}
for name in $(used_by "$ref"); do
    echo "the reference shares $name with the back ends that it judges"
    failed=1
done
for name in $(used_by "$cpu"); do
    case " $* " in
    *" $name "*) ;;
    *) echo "the CPU back end computes with $name: list it in tests/ops/CMakeLists.txt"; failed=1 ;;
    esac
done
exit $failed
