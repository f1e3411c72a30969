/* runtime_private.hh - what the parts of the emulated CUDA run time share. Any thread; one at a
 * time (ALONE), the device's work included.
 *
 *   device.cc   which machine this is: driver, devices, who reaches whom
 *   memory.cc   the device's memory, pinned memory, copies
 *   stream.cc   streams and events: queued work and its order
 *   capture.cc  streams that are recorded, and their replay
 *   ipc.cc      memory and events that other processes see
 *   flags.cc    words in memory that streams write and wait for
 */
#ifndef HRF_TESTS_EMULATED_CUDA_RUNTIME_PRIVATE_HH
#define HRF_TESTS_EMULATED_CUDA_RUNTIME_PRIVATE_HH

#include "cuda_runtime_api.h"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace emulated
{

extern std::recursive_mutex lock;
#define ALONE std::lock_guard<std::recursive_mutex> alone(emulated::lock)

[[noreturn]] void die(const char *what);

/* ---- device.cc ---- */

std::string machine(); /* HRF_EMULATED_CUDA */
size_t memory_of_device();
int current_device();

/* ---- memory.cc ---- */

const size_t ARENA = size_t(64) << 30; /* addresses, not memory */
const size_t PAGE = 4096;
extern char *arena;                     /* begins with the process's file (ipc.cc) */
extern std::map<char *, size_t> blocks; /* start -> bytes asked for */

bool fits(const void *memory, size_t n_bytes); /* in one block */
bool is_a_part(const void *memory, size_t n_bytes);

/* The device's memory is closed to the host but while one of these stands. */
struct open_memory {
    open_memory();
    ~open_memory();
};

/* ---- stream.cc ---- */

struct recording;
using recording_part = std::shared_ptr<recording>;
struct operation {
    hrf_emulated_attempt attempt; /* none: an event's */
    cudaEvent_t event;
    long generation;
    bool is_record;
    cudaStream_t recorded_on; /* what is waited for */
};

extern std::set<cudaStream_t> streams;
void drain(cudaStream_t stream, cudaEvent_t until, long generation);
void drain_all();
extern struct hrf_emulated_counts counts;
/* The device works without anybody waiting for it, as long as somebody wants that. */
void work_by_itself(bool on);

/* ---- capture.cc ---- */

void add_node(cudaStream_t stream, std::function<hrf_emulated_attempt()> begin);
bool is_over(const recording_part &recorded);
/* Begun by this thread. */
bool is_own(const recording_part &recorded);

/* ---- ipc.cc ---- */

void begin_file();
void set_foreign_access(int access);
void forget_shared(char *block); /* that is freed */
void share(cudaEvent_t event);
bool is_foreign(const void *memory, size_t n_bytes); /* in one block of another process */
/* Until the last foreign block is closed, the device works without being waited for: other processes
 * wait for flags that only this one's work can write. */
void serve_foreign();

/* ---- flags.cc ---- */

bool is_harsh();
unsigned chance(unsigned below); /* made up, the same in each run of one thread */

} // namespace emulated

struct emulated_event {
    std::atomic<long> own_issued{ 0 }, own_done{ 0 };
    std::atomic<long> *issued = &own_issued, *done = &own_done;
    cudaStream_t stream = nullptr; /* where it was recorded last */
    double done_at_ms = 0;         /* by the device's own clock */
    bool is_shared = false, is_foreign = false;
    int index = -1;                    /* among the shared ones */
    emulated::recording_part recorded; /* its last record is part of that */
    std::vector<int> after;            /* and comes behind these nodes of it */
};

struct emulated_stream {
    std::deque<emulated::operation> queue;
    emulated::recording_part capture;
    std::vector<int> tails; /* of the recording: what comes next comes behind them */
};

#endif
