/* work_queue.c - hands out batches to ranks and collects their results (work_queue.h). */
#include "engine/run/work_queue.h"

#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_CALL = 1, TAG_DATA = 2, TAG_REPLY = 3 };
enum call_kind { CALL_NEXT, CALL_RESULT, CALL_FAIL, CALL_LEAVE };
/* STUCK_SHARE: a rank counts as stuck if it keeps a batch for more than this many times the longest
 * time that a batch has taken so far. GATHER_MS: time for ranks to deliver their last batch after a
 * stop. */
enum { STUCK_SHARE = 20, GATHER_MS = 6000, IDLE_US = 500, TEXT_BYTES = 512 };
enum { NO_MORE = -1 };

struct call {
    int64_t kind, task, batch, n;
    int64_t status; /* of CALL_FAIL */
    int64_t n_parts;
    struct hrf_work_queue_part parts[HRF_MOST_PARTS];
};

struct rank_state {        /* the state of a rank as rank 0 knows it */
    int64_t n_out;         /* batches that it has */
    int64_t last_heard_ns; /* when the rank got the first of its batches */
    int64_t asks_for;      /* the task for which a rank waits that has not begun here; -1: none */
    bool left;
};

/* The state of a batch: the rank that has it, or one of these. */
enum { FREE = -1, DONE = -2 };

struct hrf_work_queue {
    struct hrf_work_queue_config config;
    struct hrf_work_queue_task task;
    int64_t task_number; /* number of the task that was begun last, from 0; -1: none */
    pthread_mutex_t
        lock; /* On rank 0 the mutex guards all members below, on other ranks the comm. */
    atomic_bool is_stopped, is_broken; /* broken: the group was ended */
    bool task_failed;
    enum hrf_status failure;
    char text[TEXT_BYTES];
    /* rank 0 */
    int32_t *owners; /* [n_batches]: a rank, FREE or DONE */
    int64_t capacity, n_done, first_free;
    double longest_s;
    struct rank_state *ranks;
    pthread_t server;
    bool has_server;
    atomic_bool server_ends;
    void *buffer; /* payload of a result */
    size_t buffer_bytes;
};

static int32_t n_ranks(const struct hrf_work_queue *queue)
{
    return queue->config.comm != NULL ? queue->config.comm->n_ranks : 1;
}

bool hrf_work_queue_is_root(const struct hrf_work_queue *queue)
{
    return queue->config.comm == NULL || queue->config.comm->rank == 0;
}

/* Aborts the communication; returns where ranks are threads of one process. Call it without the
 * lock. */
static void give_up(struct hrf_work_queue *queue, const struct hrf_error *err)
{
    pthread_mutex_lock(&queue->lock);
    queue->task_failed = true;
    queue->failure = HRF_E_AGAIN;
    snprintf(queue->text, sizeof queue->text, "%.*s", (int)sizeof queue->text - 1, err->text);
    pthread_mutex_unlock(&queue->lock);
    atomic_store(&queue->is_broken, true);
    queue->config.comm->ops->abort(queue->config.comm, err->text);
}

static size_t payload_bytes(const struct hrf_work_queue_task *task, int64_t n)
{
    return (size_t)n * (sizeof(int64_t) + (size_t)task->n_values * sizeof(float));
}

/* ---- rank 0, with the lock ---- */

/* The next free batch, for `rank`; NO_MORE: all are taken or done. */
static int64_t hand_out(struct hrf_work_queue *queue, int32_t rank)
{
    if (queue->is_stopped || queue->task_failed)
        return NO_MORE;
    while (queue->first_free < queue->task.n_batches && queue->owners[queue->first_free] != FREE)
        queue->first_free++;
    if (queue->first_free == queue->task.n_batches)
        return NO_MORE;
    struct rank_state *state = &queue->ranks[rank];
    assert(state->n_out >= 0 && !state->left);
    if (state->n_out++ == 0)
        state->last_heard_ns = hrf_clock_ns();
    queue->owners[queue->first_free] = rank;
    return queue->first_free++;
}

static void take_result(struct hrf_work_queue *queue, int32_t rank,
                        const struct hrf_work_queue_result *result)
{
    struct rank_state *state = &queue->ranks[rank];
    const int64_t now = hrf_clock_ns();
    if (result->batch < 0 || result->batch >= queue->task.n_batches ||
        queue->owners[result->batch] != rank)
        return; /* its task has failed since */
    const double took = (double)(now - state->last_heard_ns) * 1e-9;
    queue->longest_s = took > queue->longest_s ? took : queue->longest_s;
    state->last_heard_ns = now;
    assert(state->n_out > 0 && queue->n_done < queue->task.n_batches);
    state->n_out--;
    queue->owners[result->batch] = DONE;
    queue->n_done++;
    queue->task.sink(queue->task.context, result);
}

static void note_failure(struct hrf_work_queue *queue, enum hrf_status status, const char *text)
{
    if (queue->task_failed)
        return;
    queue->task_failed = true;
    queue->failure = status;
    snprintf(queue->text, sizeof queue->text, "%s", text);
}

/* ---- the server ---- */

static enum hrf_status reply(struct hrf_work_queue *queue, int32_t rank, int64_t batch,
                             struct hrf_error *err)
{
    queue->ranks[rank].asks_for = -1;
    return queue->config.comm->ops->send(queue->config.comm, rank, TAG_REPLY, &batch, sizeof batch,
                                         err);
}

static enum hrf_status answer_next(struct hrf_work_queue *queue, int32_t rank, int64_t task,
                                   struct hrf_error *err)
{
    if (task > queue->task_number && !queue->is_stopped) {
        queue->ranks[rank].asks_for = task;
        return HRF_OK;
    }
    return reply(queue, rank, task == queue->task_number ? hand_out(queue, rank) : NO_MORE, err);
}

static enum hrf_status take_payload(struct hrf_work_queue *queue, int32_t rank,
                                    const struct call *call, struct hrf_error *err)
{
    if (call->kind == CALL_FAIL) {
        char text[TEXT_BYTES];
        HRF_TRY(queue->config.comm->ops->receive(queue->config.comm, rank, TAG_DATA, text,
                                                 sizeof text, err));
        text[sizeof text - 1] = '\0';
        if (call->task == queue->task_number)
            note_failure(queue, (enum hrf_status)call->status, text);
        return HRF_OK;
    }
    const size_t n_bytes = payload_bytes(&queue->task, call->n);
    if (call->task > queue->task_number || call->n < 0 || n_bytes > queue->buffer_bytes ||
        call->n_parts < 0 || call->n_parts > HRF_MOST_PARTS)
        return hrf_error_set(err, HRF_E_BUG, "rank %d sends %lld patches of task %lld", rank,
                             (long long)call->n, (long long)call->task);
    HRF_TRY(queue->config.comm->ops->receive(queue->config.comm, rank, TAG_DATA, queue->buffer,
                                             n_bytes, err));
    const int64_t *patches = queue->buffer;
    if (call->task != queue->task_number) /* the task has failed or was given up */
        return HRF_OK;
    take_result(queue, rank,
                &(struct hrf_work_queue_result){ .batch = call->batch,
                                                 .n = call->n,
                                                 .patches = patches,
                                                 .values = (const float *)(patches + call->n),
                                                 .parts = call->parts,
                                                 .n_parts = (int32_t)call->n_parts });
    return HRF_OK;
}

/* A batch that a rank took and then left without scoring is given to another rank. */
static void take_leave(struct hrf_work_queue *queue, int32_t rank)
{
    queue->ranks[rank].left = true;
    queue->ranks[rank].n_out = 0;
    for (int64_t i = 0; i < queue->task.n_batches; i++) {
        if (queue->owners[i] != rank)
            continue;
        queue->owners[i] = FREE;
        queue->first_free = i < queue->first_free ? i : queue->first_free;
    }
}

static enum hrf_status serve_one(struct hrf_work_queue *queue, int32_t rank, struct hrf_error *err)
{
    struct call call;
    HRF_TRY(queue->config.comm->ops->receive(queue->config.comm, rank, TAG_CALL, &call, sizeof call,
                                             err));
    switch ((enum call_kind)call.kind) {
    case CALL_NEXT:
        return answer_next(queue, rank, call.task, err);
    case CALL_RESULT:
    case CALL_FAIL:
        return take_payload(queue, rank, &call, err);
    case CALL_LEAVE:
        take_leave(queue, rank);
        return HRF_OK;
    }
    return hrf_error_set(err, HRF_E_BUG, "rank %d sends a call of kind %lld", rank,
                         (long long)call.kind);
}

static enum hrf_status answer_deferred(struct hrf_work_queue *queue, struct hrf_error *err)
{
    for (int32_t r = 1; r < n_ranks(queue); r++) {
        const int64_t task = queue->ranks[r].asks_for;
        if (task >= 0 && (task <= queue->task_number || queue->is_stopped))
            HRF_TRY(answer_next(queue, r, task, err));
    }
    return HRF_OK;
}

/* HRF_E_AGAIN names a rank that has had a batch for far too long. */
static enum hrf_status check_stuck(const struct hrf_work_queue *queue, struct hrf_error *err)
{
    const int64_t now = hrf_clock_ns();
    const double least = (double)queue->config.stuck_ms / 1000;
    const double limit = STUCK_SHARE * queue->longest_s > least ? STUCK_SHARE * queue->longest_s
                                                                : least;
    for (int32_t r = 0; r < n_ranks(queue); r++) {
        const double silent = (double)(now - queue->ranks[r].last_heard_ns) * 1e-9;
        if (queue->ranks[r].n_out > 0 && silent > limit)
            return hrf_error_set(err, HRF_E_AGAIN,
                                 "rank %d hangs or has died: it has had a batch for %.0f s, the "
                                 "longest so far took %.1f s",
                                 r, silent, queue->longest_s);
    }
    return HRF_OK;
}

static void *serve(void *context)
{
    struct hrf_work_queue *queue = context;
    struct hrf_error err = { .status = HRF_OK };
    const struct timespec idle = { .tv_nsec = IDLE_US * 1000 };
    while (!atomic_load(&queue->server_ends)) {
        pthread_mutex_lock(&queue->lock);
        const int32_t rank = queue->config.waiting(queue->config.comm, TAG_CALL);
        enum hrf_status status = rank >= 0 ? serve_one(queue, rank, &err) : HRF_OK;
        if (status == HRF_OK)
            status = answer_deferred(queue, &err);
        if (status == HRF_OK)
            status = check_stuck(queue, &err);
        pthread_mutex_unlock(&queue->lock);
        atomic_fetch_add(&queue->config.comm->steps, 1);
        if (status != HRF_OK) {
            give_up(queue, &err);
            return NULL;
        }
        if (rank < 0)
            nanosleep(&idle, NULL);
    }
    return NULL;
}

/* ---- the other ranks ---- */

static enum hrf_status call_root(struct hrf_work_queue *queue, const struct call *call,
                                 const void *data, size_t n_bytes, int64_t *answer,
                                 struct hrf_error *err)
{
    struct hrf_comm *comm = queue->config.comm;
    pthread_mutex_lock(&queue->lock);
    enum hrf_status status = comm->ops->send(comm, 0, TAG_CALL, call, sizeof *call, err);
    if (status == HRF_OK && data != NULL)
        status = comm->ops->send(comm, 0, TAG_DATA, data, n_bytes, err);
    if (status == HRF_OK && answer != NULL)
        status = comm->ops->receive(comm, 0, TAG_REPLY, answer, sizeof *answer, err);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

static enum hrf_status send_result(struct hrf_work_queue *queue,
                                   const struct hrf_work_queue_result *result,
                                   struct hrf_error *err)
{
    struct call call = { .kind = CALL_RESULT,
                         .task = queue->task_number,
                         .batch = result->batch,
                         .n = result->n,
                         .n_parts = result->n_parts };
    memcpy(call.parts, result->parts, (size_t)result->n_parts * sizeof call.parts[0]);
    const size_t n_patches = (size_t)result->n * sizeof(int64_t);
    const size_t n_bytes = payload_bytes(&queue->task, result->n);
    if (n_bytes > queue->buffer_bytes)
        return hrf_error_set(err, HRF_E_BUG, "a result of %zu bytes", n_bytes);
    memcpy(queue->buffer, result->patches, n_patches);
    memcpy((char *)queue->buffer + n_patches, result->values, n_bytes - n_patches);
    return call_root(queue, &call, queue->buffer, n_bytes, NULL, err);
}

/* ---- all ranks ---- */

static enum hrf_status grow_buffer(struct hrf_work_queue *queue, struct hrf_error *err)
{
    const size_t need = payload_bytes(&queue->task, queue->task.batch);
    if (need <= queue->buffer_bytes)
        return HRF_OK;
    void *buffer = hrf_try_realloc_array(queue->buffer, 1, need);
    HRF_CHECK_MEMORY(buffer != NULL, err, "no memory for a batch's results");
    queue->buffer = buffer;
    queue->buffer_bytes = need;
    return HRF_OK;
}

static void begin_root(struct hrf_work_queue *queue)
{
    const struct hrf_work_queue_task *task = &queue->task;
    if (task->n_batches > queue->capacity) {
        int32_t *owners = hrf_realloc_array(queue->owners, (size_t)task->n_batches, sizeof *owners);
        queue->owners = owners;
        queue->capacity = task->n_batches;
    }
    queue->n_done = queue->first_free = 0;
    for (int64_t i = 0; i < task->n_batches; i++) {
        const bool done = task->done != NULL && task->done[i];
        queue->owners[i] = done ? DONE : FREE;
        queue->n_done += done;
    }
    for (int32_t r = 0; r < n_ranks(queue); r++)
        queue->ranks[r].n_out = 0;
}

enum hrf_status hrf_work_queue_begin(struct hrf_work_queue *queue,
                                     const struct hrf_work_queue_task *task, struct hrf_error *err)
{
    pthread_mutex_lock(&queue->lock);
    queue->task = *task;
    queue->task_failed = false;
    enum hrf_status status = queue->is_broken ? hrf_error_set(err, HRF_E_AGAIN, "%s", queue->text)
                                              : grow_buffer(queue, err);
    if (status == HRF_OK && hrf_work_queue_is_root(queue))
        begin_root(queue);
    queue->task_number++;
    pthread_mutex_unlock(&queue->lock);
    return status;
}

int64_t hrf_work_queue_next(void *context)
{
    struct hrf_work_queue *queue = context;
    int64_t batch = NO_MORE;
    if (hrf_work_queue_is_root(queue)) {
        pthread_mutex_lock(&queue->lock);
        batch = hand_out(queue, 0);
        pthread_mutex_unlock(&queue->lock);
        return batch;
    }
    struct hrf_error err;
    const struct call call = { .kind = CALL_NEXT, .task = queue->task_number };
    if (queue->is_stopped)
        return NO_MORE;
    if (call_root(queue, &call, NULL, 0, &batch, &err) == HRF_OK)
        return batch;
    give_up(queue, &err);
    return NO_MORE;
}

enum hrf_status hrf_work_queue_give(struct hrf_work_queue *queue,
                                    const struct hrf_work_queue_result *result,
                                    struct hrf_error *err)
{
    if (!hrf_work_queue_is_root(queue))
        return send_result(queue, result, err);
    pthread_mutex_lock(&queue->lock);
    take_result(queue, 0, result);
    pthread_mutex_unlock(&queue->lock);
    return HRF_OK;
}

void hrf_work_queue_fail(struct hrf_work_queue *queue, enum hrf_status status, const char *why)
{
    struct hrf_error err;
    char text[TEXT_BYTES] = "";
    if (hrf_work_queue_is_root(queue)) {
        pthread_mutex_lock(&queue->lock);
        note_failure(queue, status, why);
        pthread_mutex_unlock(&queue->lock);
        return;
    }
    const struct call call = { .kind = CALL_FAIL, .task = queue->task_number, .status = status };
    snprintf(text, sizeof text, "%s", why);
    if (call_root(queue, &call, text, sizeof text, NULL, &err) != HRF_OK)
        give_up(queue, &err);
}

/* True if a rank gave a batch back after all other ranks had been told that there are no more: they
 * have left or wait for a later task. Call it on rank 0, whose own feed has ended, with the lock.
 */
static bool is_abandoned(const struct hrf_work_queue *queue)
{
    for (int32_t r = 1; r < n_ranks(queue); r++)
        if (!queue->ranks[r].left && queue->ranks[r].asks_for <= queue->task_number)
            return false;
    for (int64_t i = 0; i < queue->task.n_batches; i++)
        if (queue->owners[i] == FREE)
            return true;
    return false;
}

enum hrf_status hrf_work_queue_end(struct hrf_work_queue *queue, bool (*idle)(void),
                                   struct hrf_error *err)
{
    enum hrf_status status = HRF_OK;
    bool over = !hrf_work_queue_is_root(queue);
    while (!over && status == HRF_OK) {
        pthread_mutex_lock(&queue->lock);
        over = queue->n_done == queue->task.n_batches;
        if (queue->task_failed)
            status = hrf_error_set(err, queue->failure, "%s", queue->text);
        else if (!over && !queue->is_broken && is_abandoned(queue))
            status = hrf_error_set(err, HRF_E_AGAIN, "a rank left before its batch was scored");
        pthread_mutex_unlock(&queue->lock);
        if (over || status != HRF_OK)
            break;
        if (idle != NULL && idle())
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
        hrf_clock_sleep_ms(1);
    }
    return status;
}

void hrf_work_queue_stop(struct hrf_work_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->is_stopped = true;
    pthread_mutex_unlock(&queue->lock);
}

static bool all_left(struct hrf_work_queue *queue)
{
    bool all = true;
    pthread_mutex_lock(&queue->lock);
    for (int32_t r = 1; r < n_ranks(queue); r++)
        all &= queue->ranks[r].left;
    pthread_mutex_unlock(&queue->lock);
    return all;
}

void hrf_work_queue_gather(struct hrf_work_queue *queue)
{
    const int64_t deadline = hrf_clock_ns() + (int64_t)GATHER_MS * 1000000;
    while (queue->has_server && !queue->is_broken && !all_left(queue) && hrf_clock_ns() < deadline)
        hrf_clock_sleep_ms(2);
}

/* Other ranks may still request batches; the answer is that there are no more. */
static void end_server(struct hrf_work_queue *queue)
{
    if (!queue->has_server)
        return;
    if (queue->is_stopped)
        hrf_work_queue_gather(queue);
    pthread_mutex_lock(&queue->lock);
    queue->task_number = INT64_MAX - 1; /* the answer to every request is now "no more" */
    pthread_mutex_unlock(&queue->lock);
    const int64_t deadline = hrf_clock_ns() + queue->config.stuck_ms * 1000000;
    while (!queue->is_stopped && !queue->is_broken && !all_left(queue) && hrf_clock_ns() < deadline)
        hrf_clock_sleep_ms(2);
    atomic_store(&queue->server_ends, true);
    pthread_join(queue->server, NULL);
    struct hrf_error ignored; /* other ranks may leave, because all is done */
    for (int32_t r = 1; r < n_ranks(queue) && !queue->is_broken; r++)
        if (reply(queue, r, NO_MORE, &ignored) != HRF_OK)
            break;
    if (!queue->is_stopped && !queue->is_broken && !all_left(queue)) {
        const struct hrf_error err = { .text = "all is scored, and a rank does not end" };
        give_up(queue, &err);
    }
}

void hrf_work_queue_destroy(struct hrf_work_queue *queue)
{
    if (queue == NULL)
        return;
    struct hrf_error ignored;
    const struct call call = { .kind = CALL_LEAVE };
    int64_t answer; /* it comes when rank 0 has finished, too */
    end_server(queue);
    if (!hrf_work_queue_is_root(queue) && !queue->is_broken &&
        call_root(queue, &call, NULL, 0, &answer, &ignored) != HRF_OK)
        give_up(queue, &ignored);
    pthread_mutex_destroy(&queue->lock);
    hrf_free(queue->owners);
    hrf_free(queue->ranks);
    hrf_free(queue->buffer);
    hrf_free(queue);
}

enum hrf_status hrf_work_queue_create(const struct hrf_work_queue_config *config,
                                      struct hrf_work_queue **out, struct hrf_error *err)
{
    struct hrf_work_queue *created = hrf_calloc(1, sizeof *created);
    pthread_mutex_init(&created->lock, NULL);
    created->config = *config;
    created->task_number = -1;
    created->ranks = hrf_calloc((size_t)n_ranks(created), sizeof created->ranks[0]);
    int native = 0;
    for (int32_t r = 0; r < n_ranks(created); r++)
        created->ranks[r].asks_for = -1;
    if (n_ranks(created) > 1 && hrf_work_queue_is_root(created)) {
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
