/* parallel.c - the ranks of a layout as threads that wait for batches (parallel.h). */
#include "engine/run/parallel.h"

#include "base/own_process.h"
#include "engine/comm/loop.h"

#include <pthread.h>
#include <string.h>

struct worker {
    struct hrf_parallel *parallel;
    int32_t index;
    pthread_t thread;
    bool is_started;
    struct hrf_rank *rank;
    enum hrf_status status;
    struct hrf_error err;
};

/* The workers create their ranks first (job 0); then each higher number of `job` is one batch. */
struct hrf_parallel {
    struct hrf_work *work;
    struct hrf_loop *loop;
    struct hrf_session_config config;
    struct worker *workers;
    int32_t n_workers;
    float **outputs;       /* [graph outputs] */
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    int64_t job;
    int32_t n_done;
    bool is_ending, has_failed, has_locks;
    bool is_refreshed; /* the present job begins with hrf_rank_refresh() */
    hrf_source *source;
    void *context;
};

/* ---- the workers ---- */

static enum hrf_status work_once(struct worker *w, int64_t job)
{
    struct hrf_parallel *p = w->parallel;
    struct hrf_comm *comm = hrf_loop_comm(p->loop, w->index);
    if (job == 0) {
        const enum hrf_status status = hrf_rank_create(p->work, &p->config, comm, &w->rank,
                                                       &w->err);
        if (status != HRF_OK) /* the other ranks wait for this one */
            comm->ops->abort(comm, w->err.text);
        return status;
    }
    if (p->is_refreshed && hrf_rank_refresh(w->rank, &w->err) != HRF_OK) {
        comm->ops->abort(comm, w->err.text);
        return w->err.status;
    }
    return hrf_rank_run(w->rank, p->source, p->context, p->outputs, &w->err);
}

/* Waits until the job is given; false: the workers are to end. */
static bool wait_for_job(struct hrf_parallel *p, int64_t job)
{
    pthread_mutex_lock(&p->mutex);
    while (p->job < job && !p->is_ending)
        pthread_cond_wait(&p->changed, &p->mutex);
    const bool go = p->job >= job;
    pthread_mutex_unlock(&p->mutex);
    return go;
}

static void *work(void *context)
{
    struct worker *w = context;
    struct hrf_parallel *p = w->parallel;
    for (int64_t job = 0; wait_for_job(p, job); job++) {
        const enum hrf_status status = work_once(w, job);
        pthread_mutex_lock(&p->mutex);
        w->status = status;
        p->n_done++;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
    }
    hrf_rank_destroy(w->rank); /* here: the OpenMP threads of its kernels belong to this thread */
    return NULL;
}

/* ---- from outside ---- */

/* Reports the error that came first, not that other ranks were stopped because of it. */
static enum hrf_status first_failure(const struct hrf_parallel *p, struct hrf_error *err)
{
    const struct worker *worst = NULL;
    for (int32_t i = 0; i < p->n_workers; i++) {
        const struct worker *w = &p->workers[i];
        const bool was_stopped = strncmp(w->err.text, "the ranks were stopped", 22) == 0;
        if (w->status != HRF_OK && (worst == NULL || !was_stopped))
            worst = w;
    }
    if (worst == NULL)
        return HRF_OK;
    if (err != NULL)
        *err = worst->err;
    return hrf_error_wrap(err, worst->status, "rank %d of %d", worst->index, p->n_workers);
}

static enum hrf_status wait_for_all(struct hrf_parallel *p, struct hrf_error *err)
{
    pthread_mutex_lock(&p->mutex);
    while (p->n_done < p->n_workers)
        pthread_cond_wait(&p->changed, &p->mutex);
    p->n_done = 0;
    pthread_mutex_unlock(&p->mutex);
    const enum hrf_status status = first_failure(p, err);
    p->has_failed = status != HRF_OK;
    return status;
}

enum hrf_status hrf_parallel_run(struct hrf_parallel *p, hrf_source *source, void *context,
                                 struct hrf_error *err)
{
    if (p->has_failed)
        return hrf_error_set(err, HRF_E_AGAIN, "the ranks were stopped by an earlier failure");
    pthread_mutex_lock(&p->mutex);
    p->source = source;
    p->context = context;
    p->job++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    const enum hrf_status status = wait_for_all(p, err);
    p->is_refreshed = false;
    return status;
}

void hrf_parallel_refresh(struct hrf_parallel *p)
{
    p->is_refreshed = true; /* no job is done: the workers see it with the next one's number */
}

void hrf_parallel_destroy(struct hrf_parallel *p)
{
    if (p == NULL)
        return;
    if (p->has_locks) {
        pthread_mutex_lock(&p->mutex);
        p->is_ending = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
        for (int32_t i = 0; i < p->n_workers; i++)
            if (p->workers[i].is_started)
                pthread_join(p->workers[i].thread, NULL);
        pthread_mutex_destroy(&p->mutex);
        pthread_cond_destroy(&p->changed);
    }
    hrf_work_destroy_outputs(p->work, p->outputs);
    hrf_free(p->workers);
    hrf_loop_destroy(p->loop);
    hrf_work_destroy(p->work);
    hrf_free(p);
}

static enum hrf_status allocate(struct hrf_parallel *p, struct hrf_error *err)
{
    p->workers = hrf_calloc((size_t)p->n_workers, sizeof *p->workers);
    p->outputs = hrf_work_create_outputs(p->work);
    HRF_CHECK_MEMORY(p->outputs != NULL, err, "no memory for the outputs of %d ranks",
                     p->n_workers);
    return HRF_OK;
}

static enum hrf_status start(struct hrf_parallel *p, struct hrf_error *err)
{
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->has_locks = true;
    for (int32_t i = 0; i < p->n_workers; i++) {
        struct worker *w = &p->workers[i];
        w->parallel = p;
        w->index = i;
        const int failed = pthread_create(&w->thread, NULL, work, w);
        if (failed != 0)
            return hrf_error_set_errno(err, failed, "cannot start rank %d of %d", i, p->n_workers);
        w->is_started = true;
    }
    HRF_TRY(wait_for_all(p, err));
    if (p->config.n_variables == 0)               /* else kernels are made with them again */
        hrf_graph_drop_constants(p->work->graph); /* the ranks' kernels have theirs */
    return HRF_OK;
}

enum hrf_status hrf_parallel_create(const struct hrf_graph *graph,
                                    const struct hrf_session_config *config,
                                    const struct hrf_layout_plan *layout, int64_t deadline_ms,
                                    struct hrf_parallel **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_parallel) p = hrf_calloc(1, sizeof *p);
    p->config = *config;
    p->n_workers = hrf_layout_ranks(layout);
    const int32_t threads = config->n_threads > 0 ? config->n_threads : hrf_process_cpu_count();
    p->config.n_threads = threads > p->n_workers ? threads / p->n_workers : 1;
    HRF_TRY(hrf_work_create(graph, config, layout, &p->work, err));
    hrf_loop_create(p->n_workers, deadline_ms, &p->loop);
    HRF_TRY(allocate(p, err));
    HRF_TRY(start(p, err));
    HRF_MOVE(*out, p);
    return HRF_OK;
}

const float *hrf_parallel_output(const struct hrf_parallel *p, int32_t i)
{
    return p->outputs[i];
}

const char *hrf_parallel_transports(const struct hrf_parallel *p)
{
    return hrf_rank_transports(p->workers[0].rank);
}

const struct hrf_work *hrf_parallel_work(const struct hrf_parallel *p)
{
    return p->work;
}

struct hrf_device_use hrf_parallel_device_use(const struct hrf_parallel *p, int32_t rank)
{
    return hrf_rank_device_use(p->workers[rank].rank);
}

struct hrf_rank_facts hrf_parallel_facts(const struct hrf_parallel *p, int32_t rank)
{
    return hrf_rank_facts(p->workers[rank].rank);
}

enum hrf_status hrf_read_array(void *context, int32_t input, int64_t first, int64_t n,
                               const struct hrf_box *box, float *out, struct hrf_error *err)
{
    (void)input;
    (void)err;
    const struct hrf_array_source *array = context;
    const struct hrf_shape *s = &array->shape;
    const int64_t per_image = hrf_shape_count(s) / (s->rank > 0 ? s->dims[0] : 1);
    if (s->rank == 3) {
        const size_t part = (size_t)((box->hi[0] - box->lo[0]) * s->dims[2]);
        for (int64_t i = first; i < first + n; i++, out += part)
            memcpy(out, array->data + i * per_image + box->lo[0] * s->dims[2], part * sizeof *out);
        return HRF_OK;
    }
    if (s->rank != 4) {
        memcpy(out, array->data + first * per_image, (size_t)(n * per_image) * sizeof *out);
        return HRF_OK;
    }
    const int64_t line = s->dims[3] * s->dims[1], part = (box->hi[1] - box->lo[1]) * s->dims[1];
    for (int64_t i = first; i < first + n; i++)
        for (int64_t row = box->lo[0]; row < box->hi[0]; row++, out += part)
            memcpy(out, array->data + i * per_image + row * line + box->lo[1] * s->dims[1],
                   (size_t)part * sizeof *out);
    return HRF_OK;
}
