/* work_queue.c - hands out batches to ranks and collects their results (work_queue.h). */
#include "engine/run/work_queue.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_CALL = 1, TAG_DATA = 2, TAG_REPLY = 3 };
enum call_kind { CALL_NEXT, CALL_RESULT, CALL_FAIL, CALL_LEAVE };
/* STUCK_SHARE: a rank counts as stuck if it has had a batch for so many times the longest time of a
 * batch so far. GATHER_MS: time for stopped ranks to deliver their last batch. */
enum { STUCK_SHARE = 20, GATHER_MS = 6000, IDLE_US = 500, TEXT_BYTES = 512 };
enum { NO_MORE = -1 };

struct call {
    int64_t kind, task, batch, n;
    int64_t status; /* of CALL_FAIL */
    double seconds;
    struct hrf_resource_use spent;
    struct hrf_comm_count counts[HRF_N_COMM_USES];
};

struct rank_state {        /* as rank 0 knows it */
    int64_t n_out;         /* batches that it has */
    int64_t last_heard_ns; /* or when it got the first of them */
    int64_t asks_for;      /* a task that has not begun here; -1 = it does not wait */
    bool left;
};

/* Where a batch is: with a rank (its number), or: */
enum { FREE = -1, DONE = -2 };

struct hrf_work_queue {
    struct hrf_work_queue_config config;
    struct hrf_work_queue_task task;
    int64_t task_number;               /* of the task that was begun last, from 0; -1 = none */
    pthread_mutex_t lock;              /* rank 0: everything below; others: the comm */
    atomic_bool is_stopped, is_broken; /* broken: the group was ended */
    bool task_failed;
    enum hrf_status failure;
    char text[TEXT_BYTES];
    /* rank 0 */
    int32_t *places; /* [n_batches]: a rank, FREE or DONE */
    int64_t capacity, n_done, first_free;
    double longest_s;
    struct rank_state *ranks;
    pthread_t server;
    bool has_server;
    atomic_bool server_ends;
    void *buffer; /* payload of a result */
    size_t buffer_bytes;
};

static int32_t n_ranks(const struct hrf_work_queue *share)
{
    return share->config.comm != NULL ? share->config.comm->n_ranks : 1;
}

bool hrf_work_queue_is_root(const struct hrf_work_queue *share)
{
    return share->config.comm == NULL || share->config.comm->rank == 0;
}

/* Ends the group; returns where the ranks are threads of one process. Without the lock. */
static void give_up(struct hrf_work_queue *share, const struct hrf_error *err)
{
    pthread_mutex_lock(&share->lock);
    share->task_failed = true;
    share->failure = HRF_E_AGAIN;
    snprintf(share->text, sizeof share->text, "%.*s", (int)sizeof share->text - 1, err->text);
    pthread_mutex_unlock(&share->lock);
    atomic_store(&share->is_broken, true);
    share->config.comm->ops->abort(share->config.comm, err->text);
}

static size_t payload_bytes(const struct hrf_work_queue_task *task, int64_t n)
{
    return (size_t)n * (sizeof(int64_t) + (size_t)task->n_values * sizeof(float));
}

/* ---- rank 0, with the lock ---- */

/* The next batch that nobody has, for `rank`; NO_MORE when there is none. */
static int64_t hand_out(struct hrf_work_queue *share, int32_t rank)
{
    if (share->is_stopped || share->task_failed)
        return NO_MORE;
    while (share->first_free < share->task.n_batches && share->places[share->first_free] != FREE)
        share->first_free++;
    if (share->first_free == share->task.n_batches)
        return NO_MORE;
    struct rank_state *state = &share->ranks[rank];
    if (state->n_out++ == 0)
        state->last_heard_ns = hrf_clock_ns();
    share->places[share->first_free] = rank;
    return share->first_free++;
}

static void take_result(struct hrf_work_queue *share, int32_t rank,
                        const struct hrf_work_queue_result *result)
{
    struct rank_state *state = &share->ranks[rank];
    const int64_t now = hrf_clock_ns();
    if (result->batch < 0 || result->batch >= share->task.n_batches ||
        share->places[result->batch] != rank)
        return; /* of a task that has failed meanwhile */
    const double took = (double)(now - state->last_heard_ns) * 1e-9;
    share->longest_s = took > share->longest_s ? took : share->longest_s;
    state->last_heard_ns = now;
    state->n_out--;
    share->places[result->batch] = DONE;
    share->n_done++;
    share->task.sink(share->task.context, result);
}

static void note_failure(struct hrf_work_queue *share, enum hrf_status status, const char *text)
{
    if (share->task_failed)
        return;
    share->task_failed = true;
    share->failure = status;
    snprintf(share->text, sizeof share->text, "%s", text);
}

/* ---- the server ---- */

static enum hrf_status reply(struct hrf_work_queue *share, int32_t rank, int64_t batch,
                             struct hrf_error *err)
{
    share->ranks[rank].asks_for = -1;
    return share->config.comm->ops->send(share->config.comm, rank, TAG_REPLY, &batch, sizeof batch,
                                         err);
}

static enum hrf_status answer_next(struct hrf_work_queue *share, int32_t rank, int64_t task,
                                   struct hrf_error *err)
{
    if (task > share->task_number && !share->is_stopped) {
        share->ranks[rank].asks_for = task;
        return HRF_OK;
    }
    return reply(share, rank, task == share->task_number ? hand_out(share, rank) : NO_MORE, err);
}

static enum hrf_status take_payload(struct hrf_work_queue *share, int32_t rank,
                                    const struct call *call, struct hrf_error *err)
{
    if (call->kind == CALL_FAIL) {
        char text[TEXT_BYTES];
        HRF_TRY(share->config.comm->ops->receive(share->config.comm, rank, TAG_DATA, text,
                                                 sizeof text, err));
        text[sizeof text - 1] = '\0';
        if (call->task == share->task_number)
            note_failure(share, (enum hrf_status)call->status, text);
        return HRF_OK;
    }
    const size_t n_bytes = payload_bytes(&share->task, call->n);
    if (call->task > share->task_number || call->n < 0 || n_bytes > share->buffer_bytes)
        return hrf_error_set(err, HRF_E_BUG, "rank %d sends %lld patches of task %lld", rank,
                             (long long)call->n, (long long)call->task);
    HRF_TRY(share->config.comm->ops->receive(share->config.comm, rank, TAG_DATA, share->buffer,
                                             n_bytes, err));
    const int64_t *patches = share->buffer;
    if (call->task != share->task_number) /* one that failed, or was given up */
        return HRF_OK;
    take_result(share, rank,
                &(struct hrf_work_queue_result){ .batch = call->batch,
                                                 .n = call->n,
                                                 .patches = patches,
                                                 .values = (const float *)(patches + call->n),
                                                 .seconds = call->seconds,
                                                 .spent = call->spent,
                                                 .counts = call->counts });
    return HRF_OK;
}

/* A batch that a rank took and left with goes to another. */
static void take_leave(struct hrf_work_queue *share, int32_t rank)
{
    share->ranks[rank].left = true;
    share->ranks[rank].n_out = 0;
    for (int64_t i = 0; i < share->task.n_batches; i++) {
        if (share->places[i] != rank)
            continue;
        share->places[i] = FREE;
        share->first_free = i < share->first_free ? i : share->first_free;
    }
}

static enum hrf_status serve_one(struct hrf_work_queue *share, int32_t rank, struct hrf_error *err)
{
    struct call call;
    HRF_TRY(share->config.comm->ops->receive(share->config.comm, rank, TAG_CALL, &call, sizeof call,
                                             err));
    switch ((enum call_kind)call.kind) {
    case CALL_NEXT:
        return answer_next(share, rank, call.task, err);
    case CALL_RESULT:
    case CALL_FAIL:
        return take_payload(share, rank, &call, err);
    case CALL_LEAVE:
        take_leave(share, rank);
        return HRF_OK;
    }
    return hrf_error_set(err, HRF_E_BUG, "rank %d sends a call of kind %lld", rank,
                         (long long)call.kind);
}

static enum hrf_status answer_deferred(struct hrf_work_queue *share, struct hrf_error *err)
{
    for (int32_t r = 1; r < n_ranks(share); r++) {
        const int64_t task = share->ranks[r].asks_for;
        if (task >= 0 && (task <= share->task_number || share->is_stopped))
            HRF_TRY(answer_next(share, r, task, err));
    }
    return HRF_OK;
}

/* HRF_E_AGAIN names a rank that has had a batch for far too long. */
static enum hrf_status check_stuck(const struct hrf_work_queue *share, struct hrf_error *err)
{
    const int64_t now = hrf_clock_ns();
    const double least = (double)share->config.stuck_ms / 1000;
    const double limit = STUCK_SHARE * share->longest_s > least ? STUCK_SHARE * share->longest_s
                                                                : least;
    for (int32_t r = 0; r < n_ranks(share); r++) {
        const double silent = (double)(now - share->ranks[r].last_heard_ns) * 1e-9;
        if (share->ranks[r].n_out > 0 && silent > limit)
            return hrf_error_set(err, HRF_E_AGAIN,
                                 "rank %d hangs or has died: it has had a batch for %.0f s, the "
                                 "longest so far took %.1f s",
                                 r, silent, share->longest_s);
    }
    return HRF_OK;
}

static void *serve(void *context)
{
    struct hrf_work_queue *share = context;
    struct hrf_error err = { .status = HRF_OK };
    const struct timespec idle = { .tv_nsec = IDLE_US * 1000 };
    while (!atomic_load(&share->server_ends)) {
        pthread_mutex_lock(&share->lock);
        const int32_t rank = share->config.waiting(share->config.comm, TAG_CALL);
        enum hrf_status status = rank >= 0 ? serve_one(share, rank, &err) : HRF_OK;
        if (status == HRF_OK)
            status = answer_deferred(share, &err);
        if (status == HRF_OK)
            status = check_stuck(share, &err);
        pthread_mutex_unlock(&share->lock);
        atomic_fetch_add(&share->config.comm->steps, 1);
        if (status != HRF_OK) {
            give_up(share, &err);
            return NULL;
        }
        if (rank < 0)
            nanosleep(&idle, NULL);
    }
    return NULL;
}

/* ---- the other ranks ---- */

static enum hrf_status call_root(struct hrf_work_queue *share, const struct call *call,
                                 const void *data, size_t n_bytes, int64_t *answer,
                                 struct hrf_error *err)
{
    struct hrf_comm *comm = share->config.comm;
    pthread_mutex_lock(&share->lock);
    enum hrf_status status = comm->ops->send(comm, 0, TAG_CALL, call, sizeof *call, err);
    if (status == HRF_OK && data != NULL)
        status = comm->ops->send(comm, 0, TAG_DATA, data, n_bytes, err);
    if (status == HRF_OK && answer != NULL)
        status = comm->ops->receive(comm, 0, TAG_REPLY, answer, sizeof *answer, err);
    pthread_mutex_unlock(&share->lock);
    return status;
}

static enum hrf_status send_result(struct hrf_work_queue *share,
                                   const struct hrf_work_queue_result *result,
                                   struct hrf_error *err)
{
    struct call call = { .kind = CALL_RESULT,
                         .task = share->task_number,
                         .batch = result->batch,
                         .n = result->n,
                         .seconds = result->seconds,
                         .spent = result->spent };
    if (result->counts != NULL)
        memcpy(call.counts, result->counts, sizeof call.counts);
    const size_t n_patches = (size_t)result->n * sizeof(int64_t);
    const size_t n_bytes = payload_bytes(&share->task, result->n);
    if (n_bytes > share->buffer_bytes)
        return hrf_error_set(err, HRF_E_BUG, "a result of %zu bytes", n_bytes);
    memcpy(share->buffer, result->patches, n_patches);
    memcpy((char *)share->buffer + n_patches, result->values, n_bytes - n_patches);
    return call_root(share, &call, share->buffer, n_bytes, NULL, err);
}

/* ---- all ranks ---- */

static enum hrf_status grow_buffer(struct hrf_work_queue *share, struct hrf_error *err)
{
    const size_t need = payload_bytes(&share->task, share->task.batch);
    if (need <= share->buffer_bytes)
        return HRF_OK;
    void *buffer = hrf_realloc_array(share->buffer, 1, need);
    HRF_CHECK_MEMORY(buffer != NULL, err, "no memory for a batch's results");
    share->buffer = buffer;
    share->buffer_bytes = need;
    return HRF_OK;
}

static enum hrf_status begin_root(struct hrf_work_queue *share, struct hrf_error *err)
{
    const struct hrf_work_queue_task *task = &share->task;
    if (task->n_batches > share->capacity) {
        int32_t *places = hrf_realloc_array(share->places, (size_t)task->n_batches, sizeof *places);
        HRF_CHECK_MEMORY(places != NULL, err, "no memory for %lld batches",
                         (long long)task->n_batches);
        share->places = places;
        share->capacity = task->n_batches;
    }
    share->n_done = share->first_free = 0;
    for (int64_t i = 0; i < task->n_batches; i++) {
        const bool done = task->done != NULL && task->done[i];
        share->places[i] = done ? DONE : FREE;
        share->n_done += done;
    }
    for (int32_t r = 0; r < n_ranks(share); r++)
        share->ranks[r].n_out = 0;
    return HRF_OK;
}

enum hrf_status hrf_work_queue_begin(struct hrf_work_queue *share,
                                     const struct hrf_work_queue_task *task, struct hrf_error *err)
{
    pthread_mutex_lock(&share->lock);
    share->task = *task;
    share->task_failed = false;
    enum hrf_status status = share->is_broken ? hrf_error_set(err, HRF_E_AGAIN, "%s", share->text)
                                              : grow_buffer(share, err);
    if (status == HRF_OK && hrf_work_queue_is_root(share))
        status = begin_root(share, err);
    share->task_number++;
    pthread_mutex_unlock(&share->lock);
    return status;
}

int64_t hrf_work_queue_next(void *context)
{
    struct hrf_work_queue *share = context;
    int64_t batch = NO_MORE;
    if (hrf_work_queue_is_root(share)) {
        pthread_mutex_lock(&share->lock);
        batch = hand_out(share, 0);
        pthread_mutex_unlock(&share->lock);
        return batch;
    }
    struct hrf_error err;
    const struct call call = { .kind = CALL_NEXT, .task = share->task_number };
    if (share->is_stopped)
        return NO_MORE;
    if (call_root(share, &call, NULL, 0, &batch, &err) == HRF_OK)
        return batch;
    give_up(share, &err);
    return NO_MORE;
}

enum hrf_status hrf_work_queue_give(struct hrf_work_queue *share,
                                    const struct hrf_work_queue_result *result,
                                    struct hrf_error *err)
{
    if (!hrf_work_queue_is_root(share))
        return send_result(share, result, err);
    pthread_mutex_lock(&share->lock);
    take_result(share, 0, result);
    pthread_mutex_unlock(&share->lock);
    return HRF_OK;
}

void hrf_work_queue_fail(struct hrf_work_queue *share, enum hrf_status status, const char *why)
{
    struct hrf_error err;
    char text[TEXT_BYTES] = "";
    if (hrf_work_queue_is_root(share)) {
        pthread_mutex_lock(&share->lock);
        note_failure(share, status, why);
        pthread_mutex_unlock(&share->lock);
        return;
    }
    const struct call call = { .kind = CALL_FAIL, .task = share->task_number, .status = status };
    snprintf(text, sizeof text, "%s", why);
    if (call_root(share, &call, text, sizeof text, NULL, &err) != HRF_OK)
        give_up(share, &err);
}

/* True if a batch was given back, by a rank that left, after all others had been told that there
 * are no more: they have left, too, or ask for a later task. On rank 0, whose own feed is over,
 * with the lock. */
static bool is_abandoned(const struct hrf_work_queue *share)
{
    for (int32_t r = 1; r < n_ranks(share); r++)
        if (!share->ranks[r].left && share->ranks[r].asks_for <= share->task_number)
            return false;
    for (int64_t i = 0; i < share->task.n_batches; i++)
        if (share->places[i] == FREE)
            return true;
    return false;
}

enum hrf_status hrf_work_queue_end(struct hrf_work_queue *share, bool (*idle)(void),
                                   struct hrf_error *err)
{
    enum hrf_status status = HRF_OK;
    bool over = !hrf_work_queue_is_root(share);
    while (!over && status == HRF_OK) {
        pthread_mutex_lock(&share->lock);
        over = share->n_done == share->task.n_batches;
        if (share->task_failed)
            status = hrf_error_set(err, share->failure, "%s", share->text);
        else if (!over && !share->is_broken && is_abandoned(share))
            status = hrf_error_set(err, HRF_E_AGAIN, "a rank left before its batch was scored");
        pthread_mutex_unlock(&share->lock);
        if (over || status != HRF_OK)
            break;
        if (idle != NULL && idle())
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
        hrf_clock_sleep_ms(1);
    }
    return status;
}

void hrf_work_queue_stop(struct hrf_work_queue *share)
{
    pthread_mutex_lock(&share->lock);
    share->is_stopped = true;
    pthread_mutex_unlock(&share->lock);
}

static bool all_left(struct hrf_work_queue *share)
{
    bool all = true;
    pthread_mutex_lock(&share->lock);
    for (int32_t r = 1; r < n_ranks(share); r++)
        all &= share->ranks[r].left;
    pthread_mutex_unlock(&share->lock);
    return all;
}

void hrf_work_queue_gather(struct hrf_work_queue *share)
{
    const int64_t deadline = hrf_clock_ns() + (int64_t)GATHER_MS * 1000000;
    while (share->has_server && !share->is_broken && !all_left(share) && hrf_clock_ns() < deadline)
        hrf_clock_sleep_ms(2);
}

/* Other ranks may still ask; they are told that there is no more. */
static void end_server(struct hrf_work_queue *share)
{
    if (!share->has_server)
        return;
    if (share->is_stopped)
        hrf_work_queue_gather(share);
    pthread_mutex_lock(&share->lock);
    share->task_number = INT64_MAX - 1; /* whatever is asked for is over */
    pthread_mutex_unlock(&share->lock);
    const int64_t deadline = hrf_clock_ns() + share->config.stuck_ms * 1000000;
    while (!share->is_stopped && !share->is_broken && !all_left(share) && hrf_clock_ns() < deadline)
        hrf_clock_sleep_ms(2);
    atomic_store(&share->server_ends, true);
    pthread_join(share->server, NULL);
    struct hrf_error ignored; /* they may go: all is done */
    for (int32_t r = 1; r < n_ranks(share) && !share->is_broken; r++)
        if (reply(share, r, NO_MORE, &ignored) != HRF_OK)
            break;
    if (!share->is_stopped && !share->is_broken && !all_left(share)) {
        const struct hrf_error err = { .text = "all is scored, and a rank does not end" };
        give_up(share, &err);
    }
}

void hrf_work_queue_destroy(struct hrf_work_queue *share)
{
    if (share == NULL)
        return;
    struct hrf_error ignored;
    const struct call call = { .kind = CALL_LEAVE };
    int64_t answer; /* comes when rank 0 is done too, which shows its progress meanwhile */
    end_server(share);
    if (!hrf_work_queue_is_root(share) && !share->is_broken &&
        call_root(share, &call, NULL, 0, &answer, &ignored) != HRF_OK)
        give_up(share, &ignored);
    pthread_mutex_destroy(&share->lock);
    hrf_free(share->places);
    hrf_free(share->ranks);
    hrf_free(share->buffer);
    hrf_free(share);
}

enum hrf_status hrf_work_queue_create(const struct hrf_work_queue_config *config,
                                      struct hrf_work_queue **out, struct hrf_error *err)
{
    struct hrf_work_queue *created = hrf_calloc(1, sizeof *created);
    HRF_CHECK_MEMORY(created != NULL, err, "no memory to share batches out");
    pthread_mutex_init(&created->lock, NULL);
    created->config = *config;
    created->task_number = -1;
    created->ranks = hrf_calloc((size_t)n_ranks(created), sizeof created->ranks[0]);
    int native = 0;
    if (created->ranks == NULL)
        native = ENOMEM;
    for (int32_t r = 0; native == 0 && r < n_ranks(created); r++)
        created->ranks[r].asks_for = -1;
    if (native == 0 && n_ranks(created) > 1 && hrf_work_queue_is_root(created)) {
        native = pthread_create(&created->server, NULL, serve, created);
        created->has_server = native == 0;
    }
    if (native != 0) {
        pthread_mutex_destroy(&created->lock);
        hrf_free(created->ranks);
        hrf_free(created);
        return hrf_error_set_errno(err, native, "cannot share batches out");
    }
    *out = created;
    return HRF_OK;
}
