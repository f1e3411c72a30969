/* network_tissue.c - see network_tissue.h. The slide is read from the top down; as soon as a band
 * of rows as high as the network's images is complete, it is cut into images and judged. */
#include "tiler/plan/network_tissue.h"

#include <math.h>
#include <string.h>

enum { MIN_SIDE = 1024 }; /* of the overview: the report shows the thumbnail at that size */

struct finding {
    const struct hrf_tissue_network *network;
    struct hrf_overview *overview;
    float *probability;    /* [overview->height][overview->width] */
    int64_t width, height; /* of the slide in px of the network: k times the overview's */
    int64_t k;             /* px of the network per px of the overview, in each direction */
    int64_t band_width;    /* px: whole images side by side */
    unsigned char *band;   /* [side][band_width][3]; white beyond the slide */
    int64_t n_rows, top;   /* rows of the band that are there; the row of the slide it begins at */
    unsigned char *images; /* [batch][side][side][3] */
    float *answers;        /* [batch][side][side] */
    uint32_t *colours;     /* [overview->width][3]: sums over the k rows of an overview row */
};

static void finding_release(struct finding *f)
{
    hrf_free(f->band);
    hrf_free(f->images);
    hrf_free(f->answers);
    hrf_free(f->colours);
    hrf_free(f->probability);
}

static int64_t choose_k(const struct hrf_slide_info *info, double reduction, double coarsest)
{
    const double wide = (double)info->width / reduction, high = (double)info->height / reduction;
    const double longest = fmax(wide, high), shortest = fmin(wide, high);
    const double wanted = fmin(coarsest / reduction, longest / MIN_SIDE);
    const double needed = ceil(longest / HRF_OVERVIEW_MAX);
    const double k = fmin(fmax(floor(wanted), needed), floor(shortest));
    return k > 1 ? (int64_t)k : 1;
}

/* Returns the overview's px along a side of `pixels` level-0 px, chosen so that k times as many px
 * of the network lie on the slide. */
static int64_t side_of(int64_t pixels, double reduction, int64_t k)
{
    int64_t n = llround((double)pixels / (reduction * (double)k));
    n = n * k > pixels ? pixels / k : n;
    return n > 1 ? n : 1;
}

static enum hrf_status finding_init(struct finding *f, const struct hrf_slide_info *info,
                                    double reduction, double coarsest, struct hrf_error *err)
{
    const size_t side = (size_t)f->network->side, batch = (size_t)f->network->batch;
    struct hrf_overview *overview = f->overview;
    f->k = choose_k(info, reduction, coarsest);
    overview->width = side_of(info->width, reduction, f->k);
    overview->height = side_of(info->height, reduction, f->k);
    f->width = overview->width * f->k;
    f->height = overview->height * f->k;
    f->band_width = (f->width + f->network->side - 1) / f->network->side * f->network->side;
    const size_t n_pixels = (size_t)(overview->width * overview->height);
    overview->rgb = hrf_try_alloc_array(n_pixels, 3);
    f->probability = hrf_try_calloc(n_pixels, sizeof *f->probability);
    f->band = hrf_try_alloc_array((size_t)f->band_width * side, 3);
    f->images = hrf_alloc_array(batch * side * side, 3);
    f->answers = hrf_alloc_array(batch * side * side, sizeof *f->answers);
    f->colours = hrf_try_calloc((size_t)overview->width * 3, sizeof *f->colours);
    HRF_CHECK_MEMORY(overview->rgb != NULL && f->probability != NULL && f->band != NULL &&
                         f->colours != NULL,
                     err, "no memory to find tissue on %lld x %lld px", (long long)f->width,
                     (long long)f->height);
    memset(f->band, 255, (size_t)f->band_width * side * 3);
    return HRF_OK;
}

/* Adds what the network says of the image whose left edge is column `left`. */
static void add_answer(struct finding *f, int64_t left, const float *answer)
{
    const int64_t side = f->network->side, k = f->k;
    const int64_t n = f->width - left < side ? f->width - left : side;
    const float share = 1 / (float)(k * k);
    for (int64_t y = 0; y < f->n_rows; y++) {
        float *row = f->probability + (f->top + y) / k * f->overview->width;
        for (int64_t x = 0; x < n; x++)
            row[(left + x) / k] += answer[y * side + x] * share;
    }
}

static enum hrf_status judge_band(struct finding *f, struct hrf_error *err)
{
    const int64_t side = f->network->side, n_images = f->band_width / side;
    const size_t n_bytes = (size_t)side * 3;
    memset(f->band + f->n_rows * f->band_width * 3, 255,
           (size_t)((side - f->n_rows) * f->band_width * 3));
    for (int64_t first = 0; first < n_images; first += f->network->batch) {
        const int64_t left = n_images - first;
        const int64_t n = left < f->network->batch ? left : f->network->batch;
        for (int64_t i = 0; i < n; i++)
            for (int64_t y = 0; y < side; y++)
                memcpy(f->images + (i * side + y) * side * 3,
                       f->band + (y * f->band_width + (first + i) * side) * 3, n_bytes);
        HRF_TRY(f->network->find(f->network->context, f->images, n, f->answers, err));
        for (int64_t i = 0; i < n; i++)
            add_answer(f, (first + i) * side, f->answers + i * side * side);
    }
    f->top += f->n_rows;
    f->n_rows = 0;
    return HRF_OK;
}

/* Adds a row to the overview. */
static void add_colours(struct finding *f, int64_t y, const unsigned char *rgb)
{
    const uint32_t k = (uint32_t)f->k, area = k * k;
    const int64_t n = f->overview->width * 3;
    for (int64_t x = 0; x < f->width; x++)
        for (int64_t c = 0; c < 3; c++)
            f->colours[x / f->k * 3 + c] += rgb[x * 3 + c];
    if ((y + 1) % f->k != 0)
        return;
    for (int64_t i = 0; i < n; i++)
        f->overview->rgb[y / f->k * n + i] = (unsigned char)((f->colours[i] + area / 2) / area);
    memset(f->colours, 0, (size_t)n * sizeof *f->colours);
}

static enum hrf_status take_row(void *context, int64_t y, const unsigned char *rgb,
                                struct hrf_error *err)
{
    struct finding *f = context;
    add_colours(f, y, rgb);
    memcpy(f->band + f->n_rows * f->band_width * 3, rgb, (size_t)f->width * 3);
    f->n_rows++;
    if (f->n_rows < f->network->side && y + 1 < f->height)
        return HRF_OK;
    return judge_band(f, err);
}

enum hrf_status hrf_network_tissue_find(struct hrf_slide *slide, double reduction, double coarsest,
                                        const struct hrf_tissue_network *network,
                                        struct hrf_overview *overview, float **probability,
                                        struct hrf_error *err)
{
    struct hrf_overview whole = { .rgb = NULL };
    HRF_AUTO_RELEASE(finding) f = { .network = network, .overview = &whole };
    enum hrf_status status = finding_init(&f, hrf_slide_info(slide), reduction, coarsest, err);
    if (status == HRF_OK)
        status = hrf_overview_each_row(slide, f.width, f.height, take_row, &f, &whole.met_white,
                                       err);
    if (status == HRF_OK) {
        *overview = whole;
        *probability = f.probability;
        f.probability = NULL;
    } else {
        hrf_overview_release(&whole);
    }
    return status;
}
