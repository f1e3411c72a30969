/* nccl.cc - NCCL between emulated GPUs (stream.cc) of threads and processes of one machine.
 *
 * Ranks meet in a file of the process that made the id. A pair's bytes flow through a lane of it,
 * each message behind its size. A group is done only when all that it receives is there and all
 * that it sends was taken: what would stand still with rendezvous stands still here. Ranks that
 * share a GPU and messages of two sizes are refused as NCCL refuses them.
 *
 * HRF_EMULATED_NCCL, items joined by commas: "version=N" (of the library), "init-fails=R" (rank R
 * cannot join), "breaks=R:N" (rank R's communicator reports an error from its Nth group on, which
 * is never done), "stands-still=R:N" (the same, and reports nothing).
 */
#include "nccl.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace
{

const int MOST_RANKS = 8;
const uint64_t LANE = 1 << 16;

struct lane {
    std::atomic<uint64_t> written, read;
    char bytes[LANE];
};
struct seat {
    std::atomic<int> process, device, is_taken;
};
struct room {
    std::atomic<int> n_joined, n_left, has_failed;
    seat seats[MOST_RANKS];
    lane lanes[MOST_RANKS][MOST_RANKS]; /* from, to */
};
struct id_words {
    int process, fd;
};

[[noreturn]] void die(const char *what)
{
    fprintf(stderr, "emulated NCCL: %s\n", what);
    abort();
}

const hrf_emulated_gpu *gpu()
{
    static const auto *found = static_cast<const hrf_emulated_gpu *const *>(
        dlsym(RTLD_DEFAULT, "hrf_emulated_gpu_pointer"));
    if (found == nullptr)
        die("no emulated GPU in this process");
    return *found;
}

/* The numbers behind "name=" in HRF_EMULATED_NCCL. */
bool asked(const char *name, int *first, int *second)
{
    const char *text = getenv("HRF_EMULATED_NCCL");
    const std::string all = std::string(",") + (text != nullptr ? text : "");
    const size_t at = all.find(std::string(",") + name + "=");
    return at != std::string::npos &&
           sscanf(all.c_str() + at + 2 + strlen(name), "%d:%d", first, second) >= 1;
}

thread_local std::string last_error;

ncclResult_t fail(ncclResult_t code, const std::string &text)
{
    last_error = text;
    return code;
}

} // namespace

struct ncclComm {
    room *meeting;
    int rank, n_ranks;
    bool has_far_peers;
    std::atomic<bool> is_aborted{ false }, is_broken{ false };
    int n_groups = 0; /* tried so far */
};

namespace
{

struct transfer {
    ncclComm_t comm;
    cudaStream_t stream;
    bool is_send;
    int peer;
    char *bytes;
    uint64_t n_bytes;
};

thread_local std::vector<transfer> group;
thread_local int depth;

/* A message on its way through its lane: size first. */
struct flow {
    explicit flow(const transfer &t) : t(t), size(t.n_bytes)
    {
    }
    lane &way() const
    {
        return t.is_send ? t.comm->meeting->lanes[t.comm->rank][t.peer]
                         : t.comm->meeting->lanes[t.peer][t.comm->rank];
    }
    char *at(uint64_t i)
    {
        return i < 8 ? reinterpret_cast<char *>(&size) + i : t.bytes + (i - 8);
    }
    bool send()
    {
        lane &l = way();
        const uint64_t end = t.n_bytes + 8;
        for (; done < end && l.written - l.read < LANE; done++) {
            l.bytes[l.written % LANE] = *at(done);
            l.written++; /* from now on another process may read it */
        }
        if (done == end && last == 0)
            last = l.written;
        return done == end;
    }
    bool was_taken() const
    {
        return way().read >= last;
    }
    bool receive()
    {
        lane &l = way();
        const uint64_t end = t.n_bytes + 8;
        for (; done < end && l.read < l.written; done++) {
            *at(done) = l.bytes[l.read % LANE];
            l.read++;
            if (done == 7 && size != t.n_bytes) {
                fprintf(stderr, "rank %d expects %llu bytes of rank %d, which sends %llu\n",
                        t.comm->rank, (unsigned long long)t.n_bytes, t.peer,
                        (unsigned long long)size);
                die("a message has another size than its receiver expects");
            }
        }
        return done == end;
    }
    transfer t;
    uint64_t size, done = 0, last = 0;
};

struct exchange {
    std::vector<flow> sends, receives;
    bool has_begun = false;
};

bool try_exchange(ncclComm_t comm, exchange &x)
{
    int rank = 0, after = 0;
    if (comm->is_aborted)
        return true;
    if (!x.has_begun)
        comm->n_groups++;
    x.has_begun = true;
    const bool breaks = asked("breaks", &rank, &after) && rank == comm->rank &&
                        comm->n_groups > after;
    if (breaks)
        comm->is_broken = true;
    if (breaks ||
        (asked("stands-still", &rank, &after) && rank == comm->rank && comm->n_groups > after))
        return false;
    bool is_done = true;
    /* Of one lane one after the other. */
    bool stuck_to[MOST_RANKS] = {}, stuck_from[MOST_RANKS] = {};
    for (flow &f : x.sends)
        stuck_to[f.t.peer] = stuck_to[f.t.peer] || !f.send();
    for (flow &f : x.receives)
        stuck_from[f.t.peer] = stuck_from[f.t.peer] || !f.receive();
    for (int r = 0; r < MOST_RANKS; r++)
        is_done = is_done && !stuck_to[r] && !stuck_from[r];
    for (const flow &f : x.sends)
        is_done = is_done && f.was_taken();
    return is_done;
}

room *find_room(const ncclUniqueId &id)
{
    id_words words;
    memcpy(&words, id.internal, sizeof words);
    const std::string path = "/proc/" + std::to_string(words.process) + "/fd/" +
                             std::to_string(words.fd);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0)
        return nullptr;
    void *at = mmap(nullptr, sizeof(room), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return at == MAP_FAILED ? nullptr : static_cast<room *>(at);
}

ncclResult_t check_seats(const room &m, int n_ranks)
{
    for (int a = 0; a < n_ranks; a++)
        for (int b = 0; b < a; b++)
            if (m.seats[a].device == m.seats[b].device)
                return fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a) +
                                                  " and rank " + std::to_string(b) +
                                                  " both on CUDA device");
    return ncclSuccess;
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    int unused;
    *version = NCCL_VERSION_CODE;
    asked("version", version, &unused);
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const int file = memfd_create("emulated-nccl", MFD_CLOEXEC); /* stays: others may come late */
    if (file < 0 || ftruncate(file, sizeof(room)) != 0)
        return fail(ncclSystemError, "no memory file");
    const id_words words = { getpid(), file };
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &words, sizeof words);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank)
{
    int failing = -1, unused;
    room *meeting = find_room(id);
    if (meeting == nullptr || n_ranks > MOST_RANKS || rank < 0 || rank >= n_ranks)
        return fail(ncclInvalidArgument, "no such group");
    if (asked("init-fails", &failing, &unused) && failing == rank) {
        meeting->has_failed = 1;
        return fail(ncclSystemError, "Call to socket failed : no route to host");
    }
    seat &own = meeting->seats[rank];
    if (own.is_taken.exchange(1) != 0)
        return fail(ncclInvalidUsage, "two ranks of one number");
    own.process = getpid();
    own.device = gpu()->current_device();
    meeting->n_joined++;
    for (int i = 0; meeting->n_joined < n_ranks; i++) {
        if (meeting->has_failed)
            return fail(ncclRemoteError, "remote process exited or there was a network error");
        if (i == 600000)
            die("a rank does not join");
        usleep(100);
    }
    const ncclResult_t status = check_seats(*meeting, n_ranks);
    if (status != ncclSuccess)
        return status;
    *comm = new ncclComm;
    (*comm)->meeting = meeting;
    (*comm)->rank = rank;
    (*comm)->n_ranks = n_ranks;
    (*comm)->has_far_peers = false;
    for (int r = 0; r < n_ranks; r++)
        (*comm)->has_far_peers = (*comm)->has_far_peers || meeting->seats[r].process != getpid();
    if ((*comm)->has_far_peers)
        gpu()->work_by_itself(true);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm->has_far_peers)
        gpu()->work_by_itself(false);
    munmap(comm->meeting, sizeof(room));
    delete comm;
    return ncclSuccess;
}

/* Work may still be queued that looks at it: it stays. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    static auto *ended = new std::vector<ncclComm_t>;
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    while (busy.test_and_set())
        usleep(10);
    ended->push_back(comm);
    busy.clear();
    comm->is_aborted = true;
    if (comm->has_far_peers)
        gpu()->work_by_itself(false);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    *error = comm->is_broken ? fail(ncclRemoteError, "socket closed by rank 7") : ncclSuccess;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code)
{
    static const char *const texts[] = { "no error",
                                         "unhandled cuda error",
                                         "unhandled system error",
                                         "internal error",
                                         "invalid argument",
                                         "invalid usage",
                                         "remote process exited or there was a network error",
                                         "NCCL operation in progress" };
    return texts[code];
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_error.c_str();
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

static ncclResult_t add(const transfer &t)
{
    if (t.peer < 0 || t.peer >= t.comm->n_ranks || t.peer == t.comm->rank)
        return fail(ncclInvalidArgument, "no such peer");
    if (!gpu()->is_on_device(t.bytes, t.n_bytes))
        return fail(ncclInvalidArgument, "memory that is not the GPU's");
    ncclGroupStart();
    group.push_back(t);
    return ncclGroupEnd();
}

ncclResult_t ncclSend(const void *bytes, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add({ comm, stream, true, peer, static_cast<char *>(const_cast<void *>(bytes)), count });
}

ncclResult_t ncclRecv(void *bytes, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add({ comm, stream, false, peer, static_cast<char *>(bytes), count });
}

ncclResult_t ncclGroupEnd(void)
{
    if (--depth > 0 || group.empty())
        return ncclSuccess;
    const std::vector<transfer> all = std::move(group);
    group.clear();
    for (const transfer &t : all)
        if (t.comm != all[0].comm || t.stream != all[0].stream)
            return fail(ncclInvalidUsage, "a group of two communicators or streams");
    ncclComm_t comm = all[0].comm;
    const cudaError_t queued = gpu()->queue_attempt(all[0].stream, [=]() -> hrf_emulated_attempt {
        auto x = std::make_shared<exchange>();
        for (const transfer &t : all)
            (t.is_send ? x->sends : x->receives).emplace_back(t);
        return [=] { return try_exchange(comm, *x); };
    });
    return queued == cudaSuccess ? ncclSuccess : fail(ncclUnhandledCudaError, "cannot queue");
}

} // extern "C"
