/* stream.cc - see cuda_runtime_api.h: streams and events. Work is done no earlier than someone
 * waits for it, or, with an NCCL between processes (nccl.cc), by a thread of the device's own. */
#include "runtime_private.hh"

#include <thread>
#include <unistd.h>

namespace emulated
{

std::set<cudaStream_t> streams;
struct hrf_emulated_counts counts;

namespace
{

double device_ms = 0; /* the device's clock: stands still but where work says that it takes time */

/* Does the stream's first operation; false: there is none, or it waits for another. */
bool step(cudaStream_t stream)
{
    if (stream->queue.empty())
        return false;
    const operation &next = stream->queue.front();
    if (next.attempt ? !next.attempt() : !next.is_record && *next.event->done < next.generation)
        return false;
    if (!next.attempt && next.is_record) {
        *next.event->done = next.generation;
        next.event->done_at_ms = device_ms;
    }
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

/* A step of each, in any order where things are harsh. */
bool step_others()
{
    bool any = false;
    std::vector<cudaStream_t> order(streams.begin(), streams.end());
    for (size_t i = order.size(); is_harsh() && i > 1; i--)
        std::swap(order[i - 1], order[chance(unsigned(i))]);
    for (cudaStream_t stream : order)
        any |= step(stream);
    return any;
}

/* Does what is needed and no more; all streams, where that stands still. With the lock held once:
 * others may queue meanwhile. */
void work_until(const std::function<bool()> &reached, cudaStream_t stream)
{
    if (reached()) /* opening and closing the memory takes longer than most work */
        return;
    open_memory open;
    for (int idle = 0; !reached();) {
        bool any = is_harsh() && chance(2) == 0 ? false : advance(stream);
        if (!any)
            any = step_others();
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

} // namespace

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

} // namespace emulated

using namespace emulated;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    ALONE;
    *stream = new emulated_stream;
    streams.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(stream, flags);
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
    if (is_over(event->recorded))
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
    if (is_shared)
        share(*event);
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
    if (*event->done >= *event->issued)
        return cudaSuccess;
    open_memory open;
    for (int i = 0; i < 64 && *event->done < *event->issued; i++)
        if (!event->is_foreign && !advance(event->stream))
            for (cudaStream_t other : streams)
                step(other);
    return *event->done < *event->issued ? cudaErrorNotReady : cudaSuccess;
}

/* Both recorded and done: a real device says "not ready" or "invalid handle" else. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    ALONE;
    if (*begin->issued == 0 || *end->issued == 0 || *begin->done < *begin->issued ||
        *end->done < *end->issued)
        return cudaErrorInvalidValue;
    *ms = float(1 + end->done_at_ms - begin->done_at_ms);
    return cudaSuccess;
}

} // extern "C"

void hrf_emulated_take_time(double ms)
{
    ALONE;
    device_ms += ms;
}

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

namespace emulated
{

namespace
{

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

} // namespace

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

} // namespace emulated

struct hrf_emulated_counts hrf_emulated_counted_here(void);
struct hrf_emulated_counts hrf_emulated_counted_here(void)
{
    ALONE;
    return counts;
}

extern const struct hrf_emulated_gpu hrf_emulated_gpu_here;
const struct hrf_emulated_gpu hrf_emulated_gpu_here = { hrf_emulated_queue_attempt, current_device,
                                                        is_a_part, work_by_itself };
