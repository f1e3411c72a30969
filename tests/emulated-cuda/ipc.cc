/* ipc.cc - see cuda_runtime_api.h: CUDA IPC. Memory and interprocess events lie in a file of the
 * process's own (memfd), which other processes of the user map. Work up to an interprocess event is
 * done when it is recorded, because nobody else's waiting can get it done. */
#include "runtime_private.hh"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emulated
{

namespace
{

/* What other processes may see of this one, at the beginning of its file; the arena lies behind. */
const int MOST_SHARED = 16384;
const size_t SHARED_BYTES = size_t(1) << 20;
struct shared {
    std::atomic<long> issued[MOST_SHARED], done[MOST_SHARED]; /* of events */
    std::atomic<long> opened[MOST_SHARED];                    /* blocks that others have open */
};
static_assert(sizeof(shared) <= SHARED_BYTES, "");
shared *ours;
int file = -1, n_shared_events, n_shared_blocks;
std::map<int, shared *> theirs; /* by process */
struct opened {
    size_t n_bytes;
    std::atomic<long> *count;
};
std::map<char *, opened> foreign; /* blocks of other processes */
std::map<char *, int> shared_blocks;
bool serves_foreign;
struct ipc_handle { /* what both kinds of handle hold */
    int process, fd, index;
    size_t offset, n_bytes;
};

/* `n_bytes` at `offset` of another process's file. */
void *map_theirs(int process, int fd, size_t offset, size_t n_bytes, int access)
{
    const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(fd);
    const int other = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (other < 0)
        return nullptr;
    void *at = mmap(nullptr, n_bytes, access, MAP_SHARED, other, off_t(offset));
    close(other);
    return at == MAP_FAILED ? nullptr : at;
}

shared *shared_of(const ipc_handle &handle)
{
    shared *&known = theirs[handle.process];
    if (known == nullptr)
        known = static_cast<shared *>(
            map_theirs(handle.process, handle.fd, 0, SHARED_BYTES, PROT_READ | PROT_WRITE));
    return known;
}

} // namespace

void begin_file()
{
    if (file >= 0)
        return;
    file = memfd_create("emulated-gpu", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, off_t(SHARED_BYTES + ARENA)) != 0)
        die("no memory file");
    void *front = mmap(nullptr, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void *all = mmap(nullptr, ARENA, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file,
                     off_t(SHARED_BYTES));
    if (front == MAP_FAILED || all == MAP_FAILED)
        die("no addresses left");
    ours = static_cast<shared *>(front);
    arena = static_cast<char *>(all);
}

void set_foreign_access(int access)
{
    for (const auto &block : foreign)
        if (mprotect(block.first, block.second.n_bytes, access) != 0)
            die("mprotect failed");
}

void serve_foreign()
{
    if (!serves_foreign)
        work_by_itself(true);
    serves_foreign = true;
}

bool is_foreign(const void *memory, size_t n_bytes)
{
    const char *at = static_cast<const char *>(memory);
    for (const auto &block : foreign)
        if (at >= block.first && at + n_bytes <= block.first + block.second.n_bytes)
            return true;
    return false;
}

void forget_shared(char *block)
{
    const auto known = shared_blocks.find(block);
    if (known == shared_blocks.end())
        return;
    if (ours->opened[known->second] > 0)
        die("memory was freed that another process has open");
    shared_blocks.erase(known);
}

void share(cudaEvent_t event)
{
    begin_file();
    if (n_shared_events == MOST_SHARED)
        die("too many interprocess events");
    event->is_shared = true;
    event->index = n_shared_events++;
    event->issued = &ours->issued[event->index];
    event->done = &ours->done[event->index];
}

} // namespace emulated

using namespace emulated;

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
    ALONE;
    const auto block = blocks.find(static_cast<char *>(memory));
    if (block == blocks.end() || machine() == "no-ipc")
        return cudaErrorInvalidValue;
    const auto known = shared_blocks.insert({ block->first, n_shared_blocks });
    n_shared_blocks += known.second;
    if (n_shared_blocks == MOST_SHARED)
        die("too many shared blocks");
    const ipc_handle made = { getpid(), file, known.first->second,
                              SHARED_BYTES + size_t(block->first - arena),
                              (block->second + PAGE - 1) / PAGE * PAGE };
    memcpy(handle, &made, sizeof made);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned)
{
    ALONE;
    ipc_handle h;
    memcpy(&h, &handle, sizeof h);
    if (h.process == getpid()) /* as the real one: not in the process that shared it */
        return cudaErrorDeviceUninitialized;
    shared *other = shared_of(h);
    void *at = map_theirs(h.process, h.fd, h.offset, h.n_bytes, PROT_NONE);
    if (other == nullptr || at == nullptr)
        return cudaErrorInvalidValue;
    foreign[static_cast<char *>(at)] = { h.n_bytes, &other->opened[h.index] };
    other->opened[h.index]++;
    *memory = at;
    return cudaSuccess;
}

static cudaError_t close_block(void *memory, bool *is_last)
{
    ALONE;
    drain_all();
    const auto block = foreign.find(static_cast<char *>(memory));
    if (block == foreign.end())
        return cudaErrorInvalidValue;
    --*block->second.count;
    munmap(block->first, block->second.n_bytes);
    foreign.erase(block);
    *is_last = foreign.empty() && serves_foreign;
    serves_foreign = serves_foreign && !*is_last;
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    bool is_last = false;
    const cudaError_t status = close_block(memory, &is_last);
    if (is_last)
        work_by_itself(false);
    return status;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    if (!event->is_shared || event->is_foreign)
        return cudaErrorInvalidValue;
    const ipc_handle made = { getpid(), file, event->index, 0, 0 };
    memcpy(handle, &made, sizeof made);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    ALONE;
    ipc_handle h;
    memcpy(&h, &handle, sizeof h);
    shared *other = h.process == getpid() ? nullptr : shared_of(h);
    if (other == nullptr)
        return cudaErrorInvalidValue;
    *event = new emulated_event;
    (*event)->is_shared = (*event)->is_foreign = true;
    (*event)->index = h.index;
    (*event)->issued = &other->issued[h.index];
    (*event)->done = &other->done[h.index];
    return cudaSuccess;
}

} // extern "C"
