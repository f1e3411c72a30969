/* flags.cc - see cuda_runtime_api.h: memory operations of streams (cuda.h). HRF_EMULATED_CUDA (with
 * others, joined by commas): "no-flags" (they are not supported), "no-peer-flags" (nor in another
 * process's memory), "harsh" (each takes its time, and
 * other streams get on meanwhile in any order), "loses=N" (the Nth write to a neighbour's memory
 * never arrives). */
#include "runtime_private.hh"

#include "cuda.h"

#include <cstdlib>

namespace emulated
{

bool is_harsh()
{
    return machine().find("harsh") != std::string::npos;
}

unsigned chance(unsigned below)
{
    static unsigned long long state = 1;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return unsigned(state >> 33) % below;
}

namespace
{

/* A word of the device's own memory, of another device's of this process, or of another process's. */
bool may_reach(const void *word)
{
    return size_t(word) % sizeof(uint32_t) == 0 &&
           (is_a_part(word, sizeof(uint32_t)) || is_foreign(word, sizeof(uint32_t)));
}

bool is_lost()
{
    static long n_written;
    const size_t at = machine().find("loses=");
    return at != std::string::npos && ++n_written == atol(machine().c_str() + at + 6);
}

/* One operation, which is over when it is true. Another process may write the word meanwhile. */
bool is_over(const hrf_emulated_memory_operation &op, bool is_recorded)
{
    auto *word = reinterpret_cast<uint32_t *>(op.address);
    if (is_harsh() && chance(3) != 0)
        return false;
    if (op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != op.value)
            return false;
        counts.flags_taken++;
        counts.flags_taken_replayed += is_recorded;
    } else if (op.value == 0 || !is_recorded || !is_lost()) {
        __atomic_store_n(word, op.value, __ATOMIC_RELEASE);
    }
    return true;
}

CUresult batch(CUstream stream, unsigned n, CUstreamBatchMemOpParams *params, unsigned flags)
{
    ALONE;
    if (machine().find("no-flags") != std::string::npos)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (n == 0 || n >= 256 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    std::vector<hrf_emulated_memory_operation> ops;
    for (unsigned i = 0; i < n; i++) {
        const bool is_wait = params[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
        const auto &op = is_wait ? params[i].waitValue : params[i].writeValue;
        const auto *word = reinterpret_cast<const uint32_t *>(op.address);
        if (is_foreign(word, sizeof *word) && machine().find("no-peer-flags") != std::string::npos)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (!may_reach(word) || (is_wait ? op.flags != CU_STREAM_WAIT_VALUE_EQ : op.flags != 0))
            return CUDA_ERROR_INVALID_VALUE;
        if (is_foreign(word, sizeof *word))
            serve_foreign();
        ops.push_back(op);
    }
    const bool is_recorded = stream->capture != nullptr;
    hrf_emulated_queue_attempt(stream, [=]() -> hrf_emulated_attempt {
        auto next = std::make_shared<size_t>(0);
        return [=] {
            while (*next < ops.size() && is_over(ops[*next], is_recorded))
                ++*next;
            return *next == ops.size();
        };
    });
    return CUDA_SUCCESS;
}

} // namespace

} // namespace emulated

extern "C" cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                 unsigned long long, enum cudaDriverEntryPointQueryResult *found)
{
    const bool is_known = std::string(symbol) == "cuStreamBatchMemOp" && version == 12000;
    *function = is_known ? reinterpret_cast<void *>(emulated::batch) : nullptr;
    *found = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
