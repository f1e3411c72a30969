/* rows.c - see rows.h. The lock guards the next strip to read, the first failure and the times. */
#include "engine/input/rows.h"

#include "base/clock.h"
#include "engine/input/normalise.h"
#include "engine/input/plan_readers.h"

#include <assert.h>
#include <pthread.h>

/* Rows that a thread takes at once. The slide is read in strips of about a million pixels, so few
 * rows are read beyond those taken. */
enum { TAKE_ROWS = 512 };

struct work {
    const struct hrf_rows_config *config;
    float *out;
    int64_t n_columns;
    struct hrf_normaliser normaliser;
    pthread_mutex_t lock;
    int64_t next; /* the next row to read */
    int64_t decode_ns, prepare_ns;
    enum hrf_status status;
    struct hrf_error error;
};

static bool rows_take(struct work *work, int64_t *first, int64_t *n)
{
    const struct hrf_rows_config *config = work->config;
    pthread_mutex_lock(&work->lock);
    int64_t end = config->first_row + config->n_rows;
    bool is_more = work->status == HRF_OK && work->next < end;
    *first = work->next;
    *n = end - work->next < TAKE_ROWS ? end - work->next : TAKE_ROWS;
    work->next += is_more ? *n : 0;
    pthread_mutex_unlock(&work->lock);
    return is_more;
}

/* Rows on their way into the input. */
struct strip {
    const struct work *work;
    struct hrf_level_check *check;
    float *out;
};

/* Normalises the requested columns of rows. */
static void take_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                      int64_t stride)
{
    const struct strip *strip = context;
    const int64_t first = strip->work->config->first_column, columns = strip->work->n_columns;
    for (int64_t k = 0; k < n; k++)
        hrf_normalise_part(&strip->work->normaliser, rgb + k * stride + 3 * first, 3 * columns,
                           strip->out + (row + k) * columns * 3);
    hrf_level_check_take(strip->check, row, n, rgb, stride);
}

static enum hrf_status read_strips(struct work *work, struct hrf_error *err)
{
    const struct hrf_rows_config *config = work->config;
    const struct hrf_tile_plan *plan = config->plan;
    const struct hrf_patch *patch = &plan->patches[config->patch];
    int64_t first, n, decode_ns = 0;
    const int64_t start = hrf_clock_ns();
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO(hrf_level_check) check = NULL;
    HRF_TRY(hrf_plan_readers_create(config->slide, plan, &reader, &check, err));
    while (rows_take(work, &first, &n)) {
        struct strip strip = { work, check,
                               work->out + (first - config->first_row) * work->n_columns * 3 };
        hrf_level_check_begin(check, first);
        HRF_TRY(hrf_patch_reader_visit(reader, patch->x, patch->y, first, n, take_rows, &strip,
                                       &decode_ns, err));
        HRF_TRY(hrf_plan_check_white(config->slide, plan, config->patch, reader, err));
        if (!hrf_patch_reader_met_white(reader))
            HRF_TRY(hrf_level_check_end(check, patch->x, patch->y, err));
    }
    hrf_normalise_end(&work->normaliser);
    pthread_mutex_lock(&work->lock);
    work->decode_ns += decode_ns;
    work->prepare_ns += hrf_clock_ns() - start - decode_ns;
    pthread_mutex_unlock(&work->lock);
    return HRF_OK;
}

static void *reader_main(void *context)
{
    struct work *work = context;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = read_strips(work, &err);
    if (status != HRF_OK) {
        pthread_mutex_lock(&work->lock);
        if (work->status == HRF_OK) {
            work->status = status;
            work->error = err;
        }
        pthread_mutex_unlock(&work->lock);
    }
    return NULL;
}

static enum hrf_status run_readers(struct work *work, struct hrf_error *err)
{
    int32_t n = work->config->n_readers, started = 0;
    HRF_AUTO_FREE pthread_t *threads = hrf_alloc_array((size_t)n, sizeof *threads);
    int native = 0;
    while (started < n && native == 0) {
        native = pthread_create(&threads[started], NULL, reader_main, work);
        started += native == 0;
    }
    for (int32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (started == 0)
        return hrf_error_set_errno(err, native, "cannot start a reader thread");
    if (work->status != HRF_OK && err != NULL)
        *err = work->error;
    return work->status;
}

enum hrf_status hrf_rows_read(const struct hrf_rows_config *config, float *out,
                              struct hrf_feed_times *times, struct hrf_error *err)
{
    assert(config->n_readers >= 1 && config->patch >= 0 && config->patch < config->plan->n_patches);
    assert(config->first_row >= 0 && config->n_rows >= 1 &&
           config->first_row + config->n_rows <= config->plan->patch_size);
    struct work work = { .config = config, .out = out, .next = config->first_row };
    work.n_columns = config->n_columns > 0 ? config->n_columns : config->plan->patch_size;
    assert(config->first_column >= 0 &&
           config->first_column + work.n_columns <= config->plan->patch_size);
    int64_t start = hrf_clock_ns();
    hrf_normaliser_init(&work.normaliser, config->mean, config->std);
    pthread_mutex_init(&work.lock, NULL);
    enum hrf_status status = run_readers(&work, err);
    pthread_mutex_destroy(&work.lock);
    times->decode += (double)work.decode_ns * 1e-9;
    times->prepare += (double)work.prepare_ns * 1e-9;
    times->wait += (double)(hrf_clock_ns() - start) * 1e-9;
    return status;
}
