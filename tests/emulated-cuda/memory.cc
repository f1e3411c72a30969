/* memory.cc - see cuda_runtime_api.h: the device's memory, closed to the host but while the device
 * works, and what the host and the device both reach. */
#include "runtime_private.hh"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace emulated
{

char *arena;
std::map<char *, size_t> blocks;

namespace
{

const size_t GUARD = 256;
const unsigned char FRESH = 0xa5, TAIL = 0xc3;

size_t arena_used, allocated;
std::map<const char *, size_t> pinned; /* and how many bytes */
int depth; /* of open_memory */

void set_access(int access)
{
    if (arena_used > 0 && mprotect(arena, arena_used, access) != 0)
        die("mprotect failed");
    set_foreign_access(access);
}

bool is_on_device(const void *memory)
{
    const char *at = static_cast<const char *>(memory);
    return arena != nullptr && at >= arena && at < arena + ARENA;
}

size_t room_of(size_t n_bytes)
{
    return (n_bytes + GUARD + PAGE - 1) / PAGE * PAGE;
}

/* Of one block: that of all memory takes its time for every page in use. */
void set_access_of(char *block, size_t n_bytes, int access)
{
    if (mprotect(block, room_of(n_bytes), access) != 0)
        die("mprotect failed");
}

/* First gap that is large enough. */
char *find_room(size_t n_bytes)
{
    char *at = arena;
    for (const auto &block : blocks) {
        if (block.first >= at + room_of(n_bytes))
            break;
        at = block.first + room_of(block.second);
    }
    return at;
}

/* One side on the device inside one block, the other in memory that the device reaches: pinned. There
 * is no cudaMemcpy here at all: from pageable memory it returns before the copy has arrived, and the
 * back end's streams do not wait for it, so code that uses it does not build. */
bool may_copy(const void *device, const void *host, size_t n_bytes)
{
    if (!is_on_device(device) || !fits(device, n_bytes) || is_on_device(host))
        return false;
    const char *at = static_cast<const char *>(host);
    const auto after = pinned.upper_bound(at);
    if (after == pinned.begin())
        return false;
    const auto block = std::prev(after);
    return at + n_bytes <= block->first + block->second;
}

} // namespace

open_memory::open_memory()
{
    if (depth++ == 0)
        set_access(PROT_READ | PROT_WRITE);
}

open_memory::~open_memory()
{
    if (--depth == 0)
        set_access(PROT_NONE);
}

bool fits(const void *memory, size_t n_bytes)
{
    char *at = static_cast<char *>(const_cast<void *>(memory));
    auto block = blocks.upper_bound(at);
    if (block == blocks.begin())
        return false;
    --block;
    return at + n_bytes <= block->first + block->second;
}

bool is_a_part(const void *memory, size_t n_bytes)
{
    ALONE;
    return is_on_device(memory) && fits(memory, n_bytes);
}

} // namespace emulated

using namespace emulated;

extern "C" {

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    ALONE;
    *total = memory_of_device();
    *free_bytes = *total - allocated;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t n_bytes)
{
    ALONE;
    if (allocated + n_bytes > memory_of_device() || machine() == "full")
        return cudaErrorMemoryAllocation;
    begin_file();
    for (cudaStream_t stream : streams) /* ThreadLocal: other threads may allocate */
        if (is_own(stream->capture))
            return cudaErrorStreamCaptureUnsupported;
    char *at = find_room(n_bytes);
    const size_t end = size_t(at - arena) + room_of(n_bytes);
    arena_used = end > arena_used ? end : arena_used;
    set_access_of(at, n_bytes, PROT_READ | PROT_WRITE);
    memset(at, FRESH, n_bytes);
    memset(at + n_bytes, TAIL, GUARD);
    if (depth == 0)
        set_access_of(at, n_bytes, PROT_NONE);
    blocks[at] = n_bytes;
    allocated += n_bytes;
    *memory = at;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    ALONE;
    drain_all();
    auto block = blocks.find(static_cast<char *>(memory));
    if (block == blocks.end())
        return memory == nullptr ? cudaSuccess : cudaErrorInvalidValue;
    forget_shared(block->first);
    set_access_of(block->first, block->second, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < GUARD; i++)
        if (static_cast<unsigned char>(block->first[block->second + i]) != TAIL)
            die("something was written behind the end of a block");
    memset(block->first, FRESH, block->second);
    madvise(block->first, room_of(block->second), MADV_REMOVE);
    allocated -= block->second;
    /* Access is opened and closed up to the last block, not up to the furthest that ever was. */
    set_access_of(block->first, block->second, PROT_NONE);
    blocks.erase(block);
    const auto last = blocks.rbegin();
    arena_used = last == blocks.rend() ? 0 : size_t(last->first - arena) + room_of(last->second);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t n_bytes)
{
    ALONE;
    if (machine() == "full")
        return cudaErrorMemoryAllocation;
    *memory = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    pinned[static_cast<char *>(*memory)] = n_bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    ALONE;
    drain_all();
    pinned.erase(static_cast<char *>(memory));
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    ALONE;
    const bool is_up = kind == cudaMemcpyHostToDevice;
    if (kind == cudaMemcpyDeviceToDevice
            ? !fits(to, n_bytes) || !fits(from, n_bytes)
            : !may_copy(is_up ? to : from, is_up ? from : to, n_bytes))
        return cudaErrorInvalidValue;
    return hrf_emulated_queue(stream, [=] { memcpy(to, from, n_bytes); });
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t n_bytes, cudaStream_t stream)
{
    ALONE;
    if (!fits(memory, n_bytes))
        return cudaErrorInvalidValue;
    return hrf_emulated_queue(stream, [=] { memset(memory, value, n_bytes); });
}

} // extern "C"
