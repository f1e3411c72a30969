/* runtime.cc - see cuda_runtime_api.h. Any thread; one at a time, the device's work included.
 *
 * HRF_EMULATED_CUDA chooses what machine this is: "no-driver", "old-driver", "stub-driver",
 * "no-device", "old-device", "no-peer" (two devices that do not reach each other), "no-ipc",
 * "devices=N", "memory=BYTES" or "full" (nothing can be allocated from now on); without it there is one device of 4 GiB.
 *
 * Memory and interprocess events lie in a file of the process's own (memfd), which other processes
 * of the user map: CUDA IPC. Work up to an interprocess event is done when it is recorded, because
 * nobody else's waiting can get it done; with an NCCL between processes (nccl.cc) the device works
 * by itself.
 */
#include "cuda_runtime_api.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <thread>
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

/* Streams that are being recorded together. */
struct recording {
    recording(cudaGraph_t g, cudaStream_t s) : graph(g), origin(s)
    {
    }
    cudaGraph_t graph;
    cudaStream_t origin;
    bool is_over = false;
};
using recording_part = std::shared_ptr<recording>;

struct emulated_event {
    std::atomic<long> own_issued{ 0 }, own_done{ 0 };
    std::atomic<long> *issued = &own_issued, *done = &own_done;
    cudaStream_t stream = nullptr; /* where it was recorded last */
    bool is_shared = false, is_foreign = false;
    int index = -1;          /* among the shared ones */
    recording_part recorded; /* its last record is part of that */
    std::vector<int> after;  /* and comes behind these nodes of it */
};

namespace
{
struct operation {
    hrf_emulated_attempt attempt; /* none: an event's */
    cudaEvent_t event;
    long generation;
    bool is_record;
    cudaStream_t recorded_on; /* what is waited for */
};
} // namespace

struct emulated_graph {
    struct node {
        std::function<hrf_emulated_attempt()> begin;
        std::vector<int> after;
    };
    std::vector<node> nodes;
};

struct emulated_stream {
    std::deque<operation> queue;
    recording_part capture;
    std::vector<int> tails; /* of the recording: what comes next comes behind them */
};

namespace
{

std::set<cudaStream_t> streams;

/* Does the stream's first operation; false: there is none, or it waits for another. */
bool step(cudaStream_t stream)
{
    if (stream->queue.empty())
        return false;
    const operation &next = stream->queue.front();
    if (next.attempt ? !next.attempt() : !next.is_record && *next.event->done < next.generation)
        return false;
    if (!next.attempt && next.is_record)
        *next.event->done = next.generation;
    stream->queue.pop_front();
    return true;
}

/* A step of the stream, or of the one that it waits for. */
bool advance(cudaStream_t stream)
{
    while (!step(stream)) {
        if (stream->queue.empty())
            return false;
        const operation &next = stream->queue.front();
        if (next.attempt || next.is_record || next.event->is_foreign)
            return false;
        stream = next.recorded_on;
    }
    return true;
}

/* Does what is needed and no more; all streams, where that stands still. With the lock held once:
 * others may queue meanwhile. */
void work_until(const std::function<bool()> &reached, cudaStream_t stream)
{
    open_memory open;
    for (int idle = 0; !reached();) {
        bool any = advance(stream);
        if (!any)
            for (cudaStream_t other : streams)
                any |= step(other);
        idle = any ? 0 : idle + 1;
        if (idle == 600000)
            die("what is waited for does not come");
        if (any)
            continue;
        lock.unlock();
        usleep(100);
        lock.lock();
    }
}

void drain(cudaStream_t stream, cudaEvent_t until, long generation)
{
    work_until(
        [=] {
            if (streams.count(stream) == 0) /* its owner has destroyed it meanwhile */
                return true;
            return until != nullptr ? *until->done >= generation || stream->queue.empty()
                                    : stream->queue.empty();
        },
        stream);
}

void drain_all()
{
    const std::vector<cudaStream_t> all(streams.begin(), streams.end());
    for (cudaStream_t stream : all)
        if (streams.count(stream) != 0)
            drain(stream, nullptr, 0);
}

/* ---- recordings ---- */

void add_node(cudaStream_t stream, std::function<hrf_emulated_attempt()> begin)
{
    cudaGraph_t graph = stream->capture->graph;
    graph->nodes.push_back({ std::move(begin), stream->tails });
    stream->tails = { int(graph->nodes.size()) - 1 };
}

/* All nodes that come before one of `tails`, those included. */
std::set<int> before(cudaGraph_t graph, std::vector<int> tails)
{
    std::set<int> found;
    while (!tails.empty()) {
        const int node = tails.back();
        tails.pop_back();
        if (found.insert(node).second)
            tails.insert(tails.end(), graph->nodes[size_t(node)].after.begin(),
                         graph->nodes[size_t(node)].after.end());
    }
    return found;
}

/* A recording that is done in the order which its dependencies allow and that is farthest from the
 * one in which it was recorded. */
struct replay {
    explicit replay(const emulated_graph &graph)
    {
        for (const auto &node : graph.nodes)
            nodes.push_back({ node.begin(), node.after, false });
    }
    bool operator()()
    {
        for (size_t i = nodes.size(); i-- > 0;) {
            node &n = nodes[i];
            bool may = !n.is_done;
            for (int before : n.after)
                may = may && nodes[size_t(before)].is_done;
            if (!may || !n.attempt())
                continue;
            n.is_done = true;
            n_done++;
            i = nodes.size();
        }
        return n_done == nodes.size();
    }
    struct node {
        hrf_emulated_attempt attempt;
        std::vector<int> after;
        bool is_done;
    };
    std::vector<node> nodes;
    size_t n_done = 0;
};

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
    if (allocated + n_bytes > memory_of_device() || machine() == "full")
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
    if (machine() == "full")
        return cudaErrorMemoryAllocation;
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
    if (stream->capture != nullptr && event->recorded != stream->capture)
        return cudaErrorStreamCaptureIsolation;
    if (event->recorded != nullptr && event->recorded->is_over)
        return cudaErrorInvalidValue;
    if (event->recorded != nullptr) {
        stream->capture = event->recorded;
        stream->tails.insert(stream->tails.end(), event->after.begin(), event->after.end());
    } else if (*event->issued > 0) {
        stream->queue.push_back({ nullptr, event, *event->issued, false, event->stream });
    }
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
    if (event->is_foreign)
        return cudaErrorInvalidValue;
    event->recorded = stream->capture;
    event->after = stream->tails;
    if (stream->capture != nullptr)
        return event->is_shared ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
    event->stream = stream;
    const long generation = *event->issued + 1;
    stream->queue.push_back({ nullptr, event, generation, true, nullptr });
    *event->issued = generation;
    if (event->is_shared)
        drain(stream, event, generation);
    return cudaSuccess;
}

/* Another process is at what is foreign: nothing of this one gets it done. */
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ALONE;
    const long generation = *event->issued;
    if (!event->is_foreign && *event->done < generation)
        drain(event->stream, event, generation);
    return event->is_foreign ? cudaErrorInvalidValue : cudaSuccess;
}

/* A look gets the device a step on, as time would. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    ALONE;
    open_memory open;
    for (int i = 0; i < 64 && *event->done < *event->issued; i++)
        if (!event->is_foreign && !advance(event->stream))
            for (cudaStream_t other : streams)
                step(other);
    return *event->done < *event->issued ? cudaErrorNotReady : cudaSuccess;
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
    stream->capture = std::make_shared<recording>(new emulated_graph, stream);
    stream->tails.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    ALONE;
    const recording_part capture = stream->capture;
    if (capture == nullptr || capture->origin != stream)
        return cudaErrorInvalidValue;
    const std::set<int> joined = before(capture->graph, stream->tails);
    bool all_joined = true;
    for (cudaStream_t other : streams) {
        if (other->capture != capture)
            continue;
        for (int tail : other->tails)
            all_joined = all_joined && joined.count(tail) != 0;
        other->capture = nullptr;
        other->tails.clear();
    }
    capture->is_over = true;
    *graph = capture->graph;
    return all_joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    *exec = new emulated_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    ALONE;
    stream->queue.push_back({ replay(*exec), nullptr, 0, false, nullptr });
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec; /* what was launched keeps what it needs */
    return cudaSuccess;
}

} // extern "C"

cudaError_t hrf_emulated_queue_attempt(cudaStream_t stream,
                                       std::function<hrf_emulated_attempt()> begin)
{
    ALONE;
    if (stream->capture != nullptr)
        add_node(stream, std::move(begin));
    else
        stream->queue.push_back({ begin(), nullptr, 0, false, nullptr });
    return cudaSuccess;
}

cudaError_t hrf_emulated_queue(cudaStream_t stream, std::function<void()> work)
{
    return hrf_emulated_queue_attempt(stream, [=]() -> hrf_emulated_attempt {
        return [=] {
            work();
            return true;
        };
    });
}

/* ---- for other modules ---- */

namespace
{

int current_device(void)
{
    return current;
}

bool is_a_part(const void *memory, size_t n_bytes)
{
    ALONE;
    return is_on_device(memory) && fits(memory, n_bytes);
}

std::thread worker;
int n_users;
std::atomic<bool> is_ending;

void work_on()
{
    while (!is_ending) {
        {
            ALONE;
            bool has_work = false;
            for (cudaStream_t stream : streams)
                has_work |= !stream->queue.empty();
            if (has_work) {
                open_memory open;
                for (cudaStream_t stream : streams)
                    while (step(stream))
                        continue;
            }
        }
        usleep(200);
    }
}

void work_by_itself(bool on)
{
    n_users += on ? 1 : -1;
    if (on && n_users == 1) {
        is_ending = false;
        worker = std::thread(work_on);
    } else if (!on && n_users == 0) {
        is_ending = true;
        worker.join();
    }
}

} // namespace

extern const struct hrf_emulated_gpu hrf_emulated_gpu_here;
const struct hrf_emulated_gpu hrf_emulated_gpu_here = { hrf_emulated_queue_attempt, current_device,
                                                        is_a_part, work_by_itself };
