/* sample_feed.c - see sample_feed.h. The mutex guards the counters; a thread owns the image whose
 * position it has claimed, and the consumer a batch whose images are all there. */
#include "training/samples/sample_feed.h"

#include "base/clock.h"
#include "engine/input/image_resize.h"
#include "engine/input/pixel_writer.h"
#include "training/samples/augment.h"
#include "training/samples/draw.h"

#include <pthread.h>
#include <string.h>

enum { BATCHES_AHEAD = 3, MOST_THREADS = 64 };

struct hrf_sample_feed {
    struct hrf_sample_feed_config config;
    struct hrf_pixel_writer writer;
    int64_t image_bytes;
    unsigned char *ring;  /* [BATCHES_AHEAD][batch][side][side][3] */
    unsigned char *masks; /* [BATCHES_AHEAD][batch][side][side]; NULL: there are none */
    pthread_mutex_t lock;
    pthread_cond_t is_done, has_room;
    int64_t claimed;               /* the next position from `first` on */
    int64_t taken;                 /* batches that the consumer has */
    int64_t n_done[BATCHES_AHEAD]; /* images of the batch in that slot */
    int64_t failed;                /* the lowest position that failed; INT64_MAX: none */
    struct hrf_error failure;
    bool stops;
    double waited;
    int n_threads;
    pthread_t threads[MOST_THREADS];
};

/* ---- a picture into an image ---- */

struct reader {
    struct hrf_sample_feed *feed;
    unsigned char *read, *changed; /* [list side][list side][3]; NULL: not needed */
    unsigned char *of_mask, *mask; /* its pixels, and their classes; NULL: there are none */
    struct hrf_image_resizer *resizer;
    unsigned char *image; /* that is being filled */
};

static void put_rows(void *context, int64_t first, int64_t n, const unsigned char *rgb,
                     int64_t stride)
{
    const struct reader *r = context;
    const int64_t row = r->feed->config.form->side * 3;
    for (int64_t i = 0; i < n; i++)
        memcpy(r->image + (first + i) * row, rgb + i * stride, (size_t)row);
}

static bool is_changed(const struct hrf_sample_feed_config *c)
{
    return c->augmentation != NULL;
}

static bool is_resized(const struct hrf_sample_feed_config *c)
{
    return c->form->preparation.size > 0;
}

/* The last of reading, changing and resizing writes to the image itself, the others to memory of
 * the thread's own. */
static bool has_read(const struct hrf_sample_feed_config *c)
{
    return is_changed(c) || is_resized(c);
}

static bool has_changed(const struct hrf_sample_feed_config *c)
{
    return is_changed(c) && is_resized(c);
}

static int64_t picture_bytes(const struct hrf_sample_feed_config *c)
{
    return c->list->side * c->list->side * 3;
}

static void reader_destroy(struct reader *r)
{
    hrf_image_resizer_destroy(r->resizer);
    hrf_free(r->read);
    hrf_free(r->changed);
    hrf_free(r->of_mask);
    hrf_free(r->mask);
    hrf_free(r);
}

static struct hrf_random chance_of(const struct hrf_sample_feed_config *c, int64_t position)
{
    const int64_t place = c->places != NULL ? c->places[position] : position;
    return hrf_draw(c->seed, HRF_DRAW_PICTURE, c->epoch, place);
}

/* Images with masks have their pictures' size. */
static enum hrf_status fill_mask(struct reader *r, int64_t position, unsigned char *mask,
                                 struct hrf_error *err)
{
    const struct hrf_sample_feed_config *c = &r->feed->config;
    const int64_t side = c->list->side;
    unsigned char *read = is_changed(c) ? r->mask : mask;
    HRF_TRY(hrf_sample_list_mask(c->list, c->order[position], r->of_mask, read, err));
    if (is_changed(c))
        hrf_augment_mask(c->augmentation, chance_of(c, position), side, read, mask);
    return HRF_OK;
}

static enum hrf_status fill_image(struct reader *r, int64_t position, unsigned char *image,
                                  struct hrf_error *err)
{
    const struct hrf_sample_feed_config *c = &r->feed->config;
    const int64_t side = c->list->side, stride = side * 3;
    unsigned char *read = r->read != NULL ? r->read : image;
    unsigned char *changed = r->changed != NULL ? r->changed : image;
    int64_t first = 0, n = 0;
    HRF_TRY(hrf_sample_list_pixels(c->list, c->order[position], read, err));
    if (is_changed(c))
        hrf_augment(c->augmentation, chance_of(c, position), side, read, changed);
    if (r->resizer == NULL)
        return HRF_OK;
    const unsigned char *rgb = is_changed(c) ? changed : read;
    r->image = image;
    hrf_image_resizer_needs(r->resizer, 0, c->form->side, &first, &n);
    hrf_image_resizer_begin(r->resizer, 0, c->form->side, put_rows, r);
    for (int64_t row = first; row < first + n; row++)
        hrf_image_resizer_put(r->resizer, rgb + row * stride);
    return HRF_OK;
}

/* ---- threads ---- */

static int64_t images_of(const struct hrf_sample_feed *feed, int64_t batch)
{
    const struct hrf_sample_feed_config *c = &feed->config;
    const int64_t left = c->n - c->first - batch * c->batch;
    return left < c->batch ? left : c->batch;
}

static unsigned char *image_of(const struct hrf_sample_feed *feed, int64_t index)
{
    const int64_t batch = feed->config.batch;
    return feed->ring + (index / batch % BATCHES_AHEAD * batch + index % batch) * feed->image_bytes;
}

static unsigned char *mask_of(const struct hrf_sample_feed *feed, int64_t index)
{
    const int64_t batch = feed->config.batch;
    return feed->masks +
           (index / batch % BATCHES_AHEAD * batch + index % batch) * (feed->image_bytes / 3);
}

/* Called with the lock. False: there is no more to do. */
static bool claim(struct hrf_sample_feed *feed, int64_t *index)
{
    const struct hrf_sample_feed_config *c = &feed->config;
    while (!feed->stops && c->first + feed->claimed < c->n &&
           feed->claimed / c->batch >= feed->taken + BATCHES_AHEAD)
        pthread_cond_wait(&feed->has_room, &feed->lock);
    if (feed->stops || c->first + feed->claimed >= c->n)
        return false;
    *index = feed->claimed++;
    return true;
}

static bool is_own(const struct hrf_sample_feed_config *c, int64_t image)
{
    return c->own_end == 0 || (image >= c->own_first && image < c->own_end);
}

static void *read_images(void *argument)
{
    struct reader *r = argument;
    struct hrf_sample_feed *feed = r->feed;
    int64_t index = 0;
    pthread_mutex_lock(&feed->lock);
    while (claim(feed, &index)) {
        struct hrf_error why = { .status = HRF_OK };
        const int64_t position = feed->config.first + index;
        pthread_mutex_unlock(&feed->lock);
        enum hrf_status status = HRF_OK;
        if (is_own(&feed->config, index % feed->config.batch))
            status = fill_image(r, position, image_of(feed, index), &why);
        if (status == HRF_OK && feed->masks != NULL)
            status = fill_mask(r, position, mask_of(feed, index), &why);
        pthread_mutex_lock(&feed->lock);
        if (status != HRF_OK && position < feed->failed) {
            feed->failed = position;
            feed->failure = why;
        }
        const int64_t batch = index / feed->config.batch;
        if (++feed->n_done[batch % BATCHES_AHEAD] == images_of(feed, batch))
            pthread_cond_signal(&feed->is_done);
    }
    pthread_mutex_unlock(&feed->lock);
    reader_destroy(r);
    return NULL;
}

static enum hrf_status start_thread(struct hrf_sample_feed *feed, struct hrf_error *err)
{
    const struct hrf_sample_feed_config *c = &feed->config;
    const size_t n_bytes = (size_t)picture_bytes(c);
    struct reader *r = hrf_calloc(1, sizeof *r);
    bool is_short = false;
    r->feed = feed;
    if (has_read(c))
        is_short = (r->read = hrf_try_alloc(n_bytes)) == NULL;
    if (has_changed(c) && !is_short)
        is_short = (r->changed = hrf_try_alloc(n_bytes)) == NULL;
    if (feed->masks != NULL && !is_short)
        is_short = (r->of_mask = hrf_try_alloc(n_bytes)) == NULL ||
                   (r->mask = hrf_try_alloc(n_bytes / 3)) == NULL;
    if (is_short) {
        reader_destroy(r);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a picture of %lld px",
                             (long long)c->list->side);
    }
    if (is_resized(c))
        hrf_image_resizer_create(c->list->side, &c->form->preparation, &r->resizer);
    const int failure = pthread_create(&feed->threads[feed->n_threads], NULL, read_images, r);
    if (failure == 0) {
        feed->n_threads++;
        return HRF_OK;
    }
    reader_destroy(r);
    return hrf_error_set_errno(err, failure, "cannot start a thread that reads pictures");
}

/* No more than there are images that may be filled at a time. */
static int count_threads(const struct hrf_sample_feed_config *c)
{
    const int64_t most = BATCHES_AHEAD * c->batch < MOST_THREADS ? BATCHES_AHEAD * c->batch
                                                                 : MOST_THREADS;
    return c->n_threads < 1 ? 1 : c->n_threads < most ? c->n_threads : (int)most;
}

int64_t hrf_sample_feed_memory(const struct hrf_sample_feed_config *c)
{
    const int64_t n_own = has_read(c) + has_changed(c);
    const int64_t of_masks = c->list->has_masks ? 1 : 0; /* a byte beside the three of a pixel */
    return BATCHES_AHEAD * c->batch * c->form->side * c->form->side * (3 + of_masks) +
           count_threads(c) * (n_own * picture_bytes(c) + of_masks * picture_bytes(c) / 3 * 4);
}

enum hrf_status hrf_sample_feed_create(const struct hrf_sample_feed_config *config,
                                       struct hrf_sample_feed **out, struct hrf_error *err)
{
    const struct hrf_feed_form floats = { .type = HRF_F32 };
    HRF_AUTO(hrf_sample_feed) feed = hrf_calloc(1, sizeof *feed);
    feed->config = *config;
    feed->failed = INT64_MAX;
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->is_done, NULL);
    pthread_cond_init(&feed->has_room, NULL);
    hrf_pixel_writer_init(&feed->writer, &floats, config->form->mean, config->form->std);
    feed->image_bytes = config->form->side * config->form->side * 3;
    feed->ring = hrf_try_calloc((size_t)(BATCHES_AHEAD * config->batch), (size_t)feed->image_bytes);
    HRF_CHECK_MEMORY(feed->ring != NULL, err, "no memory for %d batches of %lld images of %lld px",
                     (int)BATCHES_AHEAD, (long long)config->batch, (long long)config->form->side);
    if (config->list->has_masks) {
        feed->masks = hrf_try_alloc_array((size_t)(BATCHES_AHEAD * config->batch),
                                          (size_t)(feed->image_bytes / 3));
        HRF_CHECK_MEMORY(feed->masks != NULL, err, "no memory for the masks of %d batches",
                         (int)BATCHES_AHEAD);
    }
    while (feed->n_threads < count_threads(config))
        HRF_TRY(start_thread(feed, err));
    HRF_MOVE(*out, feed);
    return HRF_OK;
}

void hrf_sample_feed_destroy(struct hrf_sample_feed *feed)
{
    if (feed == NULL)
        return;
    pthread_mutex_lock(&feed->lock);
    feed->stops = true;
    pthread_cond_broadcast(&feed->has_room);
    pthread_mutex_unlock(&feed->lock);
    for (int i = 0; i < feed->n_threads; i++)
        pthread_join(feed->threads[i], NULL);
    pthread_cond_destroy(&feed->has_room);
    pthread_cond_destroy(&feed->is_done);
    pthread_mutex_destroy(&feed->lock);
    hrf_free(feed->ring);
    hrf_free(feed->masks);
    hrf_free(feed);
}

enum hrf_status hrf_sample_feed_hold(struct hrf_sample_feed *feed, struct hrf_error *err)
{
    const int64_t batch = feed->taken, n = images_of(feed, batch);
    const int64_t next = feed->config.first + batch * feed->config.batch + n;
    const double begin = hrf_clock_seconds();
    pthread_mutex_lock(&feed->lock);
    while (feed->n_done[batch % BATCHES_AHEAD] < n)
        pthread_cond_wait(&feed->is_done, &feed->lock);
    const bool has_failed = feed->failed < next;
    pthread_mutex_unlock(&feed->lock);
    feed->waited += hrf_clock_seconds() - begin;
    return has_failed ? hrf_error_pass(err, &feed->failure) : HRF_OK;
}

void hrf_sample_feed_put(const struct hrf_sample_feed *feed, int64_t image,
                         const struct hrf_box *box, float *out)
{
    const struct hrf_sample_feed_config *c = &feed->config;
    const int64_t stride = c->form->side * 3, n_rows = box->hi[0] - box->lo[0];
    const int64_t n = (box->hi[1] - box->lo[1]) * 3;
    if (image >= images_of(feed, feed->taken)) {
        memset(out, 0, (size_t)(n_rows * n) * sizeof *out);
        return;
    }
    const unsigned char *rgb = image_of(feed, feed->taken * c->batch + image);
    hrf_pixel_writer_put(&feed->writer, rgb + box->lo[0] * stride + box->lo[1] * 3, stride, n_rows,
                         n, out);
    hrf_pixel_writer_end(&feed->writer);
}

const unsigned char *hrf_sample_feed_mask(const struct hrf_sample_feed *feed, int64_t image)
{
    return feed->masks == NULL ? NULL : mask_of(feed, feed->taken * feed->config.batch + image);
}

void hrf_sample_feed_give_back(struct hrf_sample_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->n_done[feed->taken % BATCHES_AHEAD] = 0;
    feed->taken++;
    pthread_cond_broadcast(&feed->has_room);
    pthread_mutex_unlock(&feed->lock);
}

enum hrf_status hrf_sample_feed_next(struct hrf_sample_feed *feed, float *images,
                                     unsigned char *masks, struct hrf_error *err)
{
    const int64_t side = feed->config.form->side;
    const struct hrf_box all = { { 0, 0 }, { side, side } };
    HRF_TRY(hrf_sample_feed_hold(feed, err));
    for (int64_t i = 0; i < feed->config.batch; i++)
        hrf_sample_feed_put(feed, i, &all, images + i * feed->image_bytes);
    for (int64_t i = 0; masks != NULL && i < feed->config.batch; i++) {
        const size_t n_pixels = (size_t)(side * side);
        unsigned char *mask = masks + (size_t)i * n_pixels;
        if (feed->masks != NULL && i < images_of(feed, feed->taken))
            memcpy(mask, hrf_sample_feed_mask(feed, i), n_pixels);
        else
            memset(mask, HRF_NO_CLASS, n_pixels);
    }
    hrf_sample_feed_give_back(feed);
    return HRF_OK;
}

double hrf_sample_feed_waited(const struct hrf_sample_feed *feed)
{
    return feed->waited;
}
