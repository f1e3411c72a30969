/* runtime.cc - see cuda_runtime_api.h. Any thread; one at a time, the device's work included.
 *
 * HRF_EMULATED_CUDA chooses what machine this is: "no-driver", "old-driver", "stub-driver",
 * "no-device", "old-device", "no-peer" (two devices that do not reach each other), "no-ipc",
 * "devices=N" or "memory=BYTES"; without it there is one device of 4 GiB.
 *
 * Memory and interprocess events lie in a file of the process's own (memfd), which other processes
 * of the user map: CUDA IPC. Work up to an interprocess event is done when it is recorded, because
 * nobody else's waiting can get it done.
 */
#include "cuda_runtime_api.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace
{

/* ---- the machine ---- */

const size_t DEFAULT_MEMORY = size_t(4) << 30;

std::string machine()
{
    const char *text = getenv("HRF_EMULATED_CUDA");
    return text != nullptr ? text : "";
}

size_t memory_of_device()
{
    const std::string text = machine();
    return text.rfind("memory=", 0) == 0 ? strtoull(text.c_str() + 7, nullptr, 10) : DEFAULT_MEMORY;
}

int n_devices()
{
    const std::string text = machine();
    return text == "no-peer" ? 2 : text.rfind("devices=", 0) == 0 ? atoi(text.c_str() + 8) : 1;
}

thread_local int current; /* device */

std::recursive_mutex lock;
#define ALONE std::lock_guard<std::recursive_mutex> alone(lock)

/* ---- memory: closed to the host but while the device works ---- */

const size_t ARENA = size_t(64) << 30; /* addresses, not memory */
const size_t PAGE = 4096, GUARD = 256;
const unsigned char FRESH = 0xa5, TAIL = 0xc3;

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
struct ipc_handle { /* what both kinds of handle hold */
    int process, fd, index;
    size_t offset, n_bytes;
};

char *arena;
size_t arena_used, allocated;
std::map<char *, size_t> blocks; /* start -> bytes asked for */
std::set<const void *> pinned;

[[noreturn]] void die(const char *what)
{
    fprintf(stderr, "emulated GPU: %s\n", what);
    abort();
}

void set_access(int access)
{
    if (arena_used > 0 && mprotect(arena, arena_used, access) != 0)
        die("mprotect failed");
    for (const auto &block : foreign)
        if (mprotect(block.first, block.second.n_bytes, access) != 0)
            die("mprotect failed");
}

struct open_memory {
    static int depth;
    open_memory()
    {
        if (depth++ == 0)
            set_access(PROT_READ | PROT_WRITE);
    }
    ~open_memory()
    {
        if (--depth == 0)
            set_access(PROT_NONE);
    }
};
int open_memory::depth;

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

bool is_on_device(const void *memory)
{
    const char *at = static_cast<const char *>(memory);
    return arena != nullptr && at >= arena && at < arena + ARENA;
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

size_t room_of(size_t n_bytes)
{
    return (n_bytes + GUARD + PAGE - 1) / PAGE * PAGE;
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

} // namespace

/* ---- streams ---- */

struct emulated_event {
    std::atomic<long> own_issued{ 0 }, own_done{ 0 };
    std::atomic<long> *issued = &own_issued, *done = &own_done;
    cudaStream_t stream = nullptr; /* where it was recorded last */
    bool is_shared = false, is_foreign = false;
    int index = -1; /* among the shared ones */
};

namespace
{
struct operation {
    std::function<void()> work; /* none: an event's */
    cudaEvent_t event;
    long generation;
    bool is_record;
};
} // namespace

struct emulated_graph {
    std::vector<std::function<void()>> work;
};

struct emulated_stream {
    std::deque<operation> queue;
    cudaGraph_t capture = nullptr;
};

namespace
{

/* Another process is at it. */
void wait_for_foreign(cudaEvent_t event, long generation)
{
    for (int ms = 0; *event->done < generation; ms++) {
        if (ms == 60000)
            die("another process's event does not come");
        usleep(1000);
    }
}

void drain(cudaStream_t stream, cudaEvent_t until, long generation)
{
    open_memory open;
    while (!stream->queue.empty() && (until == nullptr || *until->done < generation)) {
        operation next = stream->queue.front();
        stream->queue.pop_front();
        if (next.work)
            next.work();
        else if (next.is_record)
            *next.event->done = next.generation;
        else if (next.event->is_foreign)
            wait_for_foreign(next.event, next.generation);
        else if (*next.event->done < next.generation)
            drain(next.event->stream, next.event, next.generation);
    }
}

std::set<cudaStream_t> streams;

void drain_all()
{
    for (cudaStream_t stream : streams)
        drain(stream, nullptr, 0);
}

/* One side on the device inside one block, the other in memory that the device reaches. */
bool may_copy(const void *device, const void *host, size_t n_bytes, bool is_async)
{
    if (!is_on_device(device) || !fits(device, n_bytes) || is_on_device(host))
        return false;
    if (!is_async)
        return true;
    const auto after = pinned.upper_bound(host);
    return after != pinned.begin();
}

} // namespace

extern "C" {

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    default:
        return "invalid argument";
    }
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = machine() == "no-driver" ? 0 : machine() == "old-driver" ? 12020 : 13000;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    if (machine() == "no-driver" || machine() == "old-driver")
        return cudaErrorInsufficientDriver;
    if (machine() == "stub-driver")
        return cudaErrorStubLibrary;
    if (machine() == "no-device")
        return cudaErrorNoDevice;
    *count = n_devices();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int)
{
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "Emulated GPU");
    properties->totalGlobalMem = memory_of_device();
    properties->major = machine() == "old-device" ? 7 : 9;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= n_devices())
        return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *address, int size, int device)
{
    snprintf(address, size_t(size), "0000:%02x:00.0", device + 0x3b);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *address)
{
    unsigned bus = 0;
    if (sscanf(address, "0000:%x:00.0", &bus) != 1 || int(bus) - 0x3b >= n_devices())
        return cudaErrorInvalidDevice;
    *device = int(bus) - 0x3b;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
    *can = machine() != "no-peer";
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    ALONE;
    static std::set<std::pair<int, int>> enabled;
    if (peer == current || peer >= n_devices())
        return cudaErrorInvalidDevice;
    return enabled.insert({ current, peer }).second ? cudaSuccess
                                                    : cudaErrorPeerAccessAlreadyEnabled;
}

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
    if (allocated + n_bytes > memory_of_device())
        return cudaErrorMemoryAllocation;
    begin_file();
    for (cudaStream_t stream : streams)
        if (stream->capture != nullptr)
            return cudaErrorStreamCaptureUnsupported;
    char *at = find_room(n_bytes);
    const size_t end = size_t(at - arena) + room_of(n_bytes);
    arena_used = end > arena_used ? end : arena_used;
    open_memory open;
    set_access(PROT_READ | PROT_WRITE);
    memset(at, FRESH, n_bytes);
    memset(at + n_bytes, TAIL, GUARD);
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
    const auto known = shared_blocks.find(block->first);
    if (known != shared_blocks.end() && ours->opened[known->second] > 0)
        die("memory was freed that another process has open");
    if (known != shared_blocks.end())
        shared_blocks.erase(known);
    open_memory open;
    for (size_t i = 0; i < GUARD; i++)
        if (static_cast<unsigned char>(block->first[block->second + i]) != TAIL)
            die("something was written behind the end of a block");
    memset(block->first, FRESH, block->second);
    madvise(block->first, room_of(block->second), MADV_REMOVE);
    allocated -= block->second;
    blocks.erase(block);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t n_bytes)
{
    ALONE;
    *memory = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    pinned.insert(*memory);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    ALONE;
    drain_all();
    pinned.erase(memory);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind)
{
    ALONE;
    const bool is_up = kind == cudaMemcpyHostToDevice;
    if (!may_copy(is_up ? to : from, is_up ? from : to, n_bytes, false))
        return cudaErrorInvalidValue;
    open_memory open;
    memcpy(to, from, n_bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    ALONE;
    const bool is_up = kind == cudaMemcpyHostToDevice;
    if (kind == cudaMemcpyDeviceToDevice
            ? !fits(to, n_bytes) || !fits(from, n_bytes)
            : !may_copy(is_up ? to : from, is_up ? from : to, n_bytes, true))
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

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    ALONE;
    *stream = new emulated_stream;
    streams.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    ALONE;
    drain(stream, nullptr, 0);
    streams.erase(stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    ALONE;
    drain(stream, nullptr, 0);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    ALONE;
    if (stream->capture != nullptr)
        return cudaErrorStreamCaptureUnsupported;
    if (*event->issued > 0)
        stream->queue.push_back({ nullptr, event, *event->issued, false });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    ALONE;
    const bool is_shared = (flags & cudaEventInterprocess) != 0;
    if (is_shared && (flags & cudaEventDisableTiming) == 0)
        return cudaErrorInvalidValue;
    *event = new emulated_event;
    if (!is_shared)
        return cudaSuccess;
    begin_file();
    if (n_shared_events == MOST_SHARED)
        die("too many interprocess events");
    (*event)->is_shared = true;
    (*event)->index = n_shared_events++;
    (*event)->issued = &ours->issued[(*event)->index];
    (*event)->done = &ours->done[(*event)->index];
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    ALONE;
    drain_all();
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ALONE;
    if (stream->capture != nullptr)
        return cudaErrorStreamCaptureUnsupported;
    if (event->is_foreign)
        return cudaErrorInvalidValue;
    event->stream = stream;
    const long generation = *event->issued + 1;
    stream->queue.push_back({ nullptr, event, generation, true });
    *event->issued = generation;
    if (event->is_shared)
        drain(stream, event, generation);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ALONE;
    if (event->is_foreign)
        wait_for_foreign(event, *event->issued);
    else if (*event->done < *event->issued)
        drain(event->stream, event, *event->issued);
    return cudaSuccess;
}

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

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    ALONE;
    drain_all();
    const auto block = foreign.find(static_cast<char *>(memory));
    if (block == foreign.end())
        return cudaErrorInvalidValue;
    --*block->second.count;
    munmap(block->first, block->second.n_bytes);
    foreign.erase(block);
    return cudaSuccess;
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

/* Both recorded and done: a real device says "not ready" or "invalid handle" else. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    ALONE;
    if (begin->issued == 0 || end->issued == 0 || begin->done < begin->issued ||
        end->done < end->issued)
        return cudaErrorInvalidValue;
    *ms = 1;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
    ALONE;
    stream->capture = new emulated_graph;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    ALONE;
    *graph = stream->capture;
    stream->capture = nullptr;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    *exec = new emulated_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    ALONE;
    for (const auto &work : exec->work)
        stream->queue.push_back({ work, nullptr, 0, false });
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    ALONE;
    drain_all(); /* what was launched keeps copies; a real device waits here too */
    delete exec;
    return cudaSuccess;
}

} // extern "C"

cudaError_t hrf_emulated_queue(cudaStream_t stream, std::function<void()> work)
{
    ALONE;
    if (stream->capture != nullptr)
        stream->capture->work.push_back(std::move(work));
    else
        stream->queue.push_back({ std::move(work), nullptr, 0, false });
    return cudaSuccess;
}
