/* segmentation_task.c - see segmentation_task.h. */
#include "aggregate/study/segmentation_task.h"

#include "aggregate/segmentation/mask.h"
#include "tiler/outline/outline_areas.h"

#include <math.h>
#include <strings.h>

#define MAX_PIXELS ((int64_t)1 << 26)

/* A level of a slide's mask, and the annotated label of each of its pixels. */
struct judging {
    const struct hrf_cohort *cohort;
    const struct hrf_mask *mask;
    int32_t level;
    struct hrf_mask_size size;
    unsigned char *truth; /* [height][width] */
    bool *is_judged;      /* [n_classes] */
};

/* ---- truth ---- */

/* The value of the class that an outline shows, its index plus 1; -1: none, or it is cut out. */
static int32_t outline_value(const void *context, const struct hrf_outline *outline)
{
    const struct hrf_cohort *cohort = context;
    for (size_t i = 0; i < cohort->n_classes; i++)
        if (strcasecmp(outline->group, cohort->classes[i]) == 0)
            return (int32_t)i + 1;
    return outline->role == HRF_OUTLINE_LESION ? (int32_t)cohort->positive + 1 : -1;
}

/* Pixel i of a level stands for pixel i * 2^level + 2^(level - 1) of the mask. */
static struct hrf_raster_axis axis_of(int32_t level, double down)
{
    const double step = (double)((int64_t)1 << level);
    return (struct hrf_raster_axis){ step * down, level == 0 ? 0.5 : 0.5 + 0.5 / step };
}

static enum hrf_status draw_outlines(struct judging *j, const struct hrf_outlines *outlines,
                                     struct hrf_error *err)
{
    const struct hrf_raster_grid grid = { .x = axis_of(j->level, j->mask->down_x),
                                          .y = axis_of(j->level, j->mask->down_y),
                                          .width = j->size.width,
                                          .height = j->size.height };
    HRF_AUTO_RELEASE(hrf_outline_areas) areas = { .items = NULL };
    j->is_judged[j->cohort->positive] = true;
    for (size_t i = 0; i < outlines->n_items; i++) {
        const int32_t value = outline_value(j->cohort, &outlines->items[i]);
        if (value > 0)
            j->is_judged[value - 1] = true;
    }
    hrf_outlines_add_areas(outlines, outline_value, j->cohort, &areas);
    return hrf_outline_areas_paint(&areas, &grid, j->truth, NULL, err);
}

/* Each pixel from the pixel of the annotation at its centre. */
static enum hrf_status take_mask(struct judging *j, const char *path, bool are_classes,
                                 struct hrf_error *err)
{
    const struct hrf_raster_axis x = axis_of(j->level, j->mask->down_x),
                                 y = axis_of(j->level, j->mask->down_y);
    const double finer = x.step < y.step ? x.step : y.step;
    struct hrf_truth_mask read = { .step = 1 };
    while (2 * read.step <= finer && read.step < 1 << 16)
        read.step *= 2;
    HRF_TRY(j->cohort->read_mask(path, &read, err));
    HRF_AUTO_FREE unsigned char *pixels = read.pixels;
    for (size_t c = 0; c < j->cohort->n_classes; c++)
        j->is_judged[c] = are_classes || c == j->cohort->positive;
    for (int64_t row = 0; row < j->size.height; row++)
        for (int64_t column = 0; column < j->size.width; column++) {
            const int64_t u = (int64_t)(((double)column + x.phase) * x.step / read.step);
            const int64_t v = (int64_t)(((double)row + y.phase) * y.step / read.step);
            unsigned char value = u < read.width && v < read.height ? pixels[v * read.width + u]
                                                                    : 0;
            if (!are_classes && value != 0)
                value = (unsigned char)(j->cohort->positive + 1);
            j->truth[row * j->size.width + column] = value;
        }
    return HRF_OK;
}

static enum hrf_status make_truth(struct judging *j, const struct hrf_cohort_slide *slide,
                                  const struct hrf_lesion_truth *truth, struct hrf_error *err)
{
    if (truth->outlines != NULL)
        return draw_outlines(j, truth->outlines, err);
    if (slide->annotation != NULL && hrf_annotation_is_mask(slide->annotation))
        return take_mask(j, slide->annotation, truth->are_classes, err);
    j->is_judged[j->cohort->positive] = true; /* a negative slide */
    return HRF_OK;
}

/* ---- overlap ---- */

static enum hrf_status count_overlaps(const struct judging *j, struct hrf_overlap *overlaps,
                                      struct hrf_error *err)
{
    const int64_t width = j->size.width;
    HRF_AUTO_FREE unsigned char *rows = hrf_try_alloc_array((size_t)width, HRF_MASK_TILE);
    HRF_CHECK_MEMORY(rows != NULL, err, "no memory for %d rows of a mask", HRF_MASK_TILE);
    int64_t both[256] = { 0 }, called[256] = { 0 }, wanted[256] = { 0 };
    for (int64_t row = 0; row < j->size.height; row += HRF_MASK_TILE) {
        const int64_t left = j->size.height - row, n = left < HRF_MASK_TILE ? left : HRF_MASK_TILE;
        HRF_TRY(hrf_mask_rows(j->mask, j->level, row, n, rows, err));
        for (int64_t i = 0; i < n * width; i++) {
            const unsigned char truth = j->truth[row * width + i];
            called[rows[i]]++;
            wanted[truth]++;
            both[truth] += rows[i] == truth;
        }
    }
    for (size_t c = 0; c < j->cohort->n_classes; c++)
        if (j->is_judged[c])
            overlaps[c] = (struct hrf_overlap){ 1, both[c + 1], called[c + 1], wanted[c + 1] };
    return HRF_OK;
}

static void pool(const struct hrf_cohort *cohort, const struct hrf_overlap *overlaps,
                 struct hrf_cohort_precision *p)
{
    for (size_t c = 0; c < cohort->n_classes; c++) {
        struct hrf_pooled_overlap *pooled = &p->overlaps[c];
        pooled->all.n_slides += overlaps[c].n_slides;
        pooled->all.both += overlaps[c].both;
        pooled->all.called += overlaps[c].called;
        pooled->all.wanted += overlaps[c].wanted;
        if (overlaps[c].wanted == 0)
            continue;
        pooled->n_present++;
        pooled->dice_sum += hrf_overlap_dice(&overlaps[c]);
    }
}

static enum hrf_status judge(struct hrf_cohort *cohort, size_t precision,
                             struct hrf_cohort_slide *slide, const struct hrf_mask *mask,
                             const struct hrf_lesion_truth *truth, struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[precision];
    struct hrf_cohort_score *score = &slide->scores[precision];
    struct judging j = { .cohort = cohort, .mask = mask };
    j.size = hrf_mask_level_size(mask, 0);
    while (j.size.width * j.size.height > MAX_PIXELS)
        j.size = hrf_mask_level_size(mask, ++j.level);
    HRF_AUTO_FREE unsigned char *labels = hrf_try_calloc((size_t)(j.size.width * j.size.height), 1);
    HRF_AUTO_FREE bool *is_judged = hrf_calloc(cohort->n_classes, sizeof *is_judged);
    if (p->overlaps == NULL)
        p->overlaps = hrf_calloc(cohort->n_classes, sizeof *p->overlaps);
    hrf_free(score->overlaps);
    score->overlaps = hrf_calloc(cohort->n_classes, sizeof *score->overlaps);
    HRF_CHECK_MEMORY(labels != NULL, err, "no memory for the truth of a mask of %lld x %lld px",
                     (long long)j.size.width, (long long)j.size.height);
    j.truth = labels;
    j.is_judged = is_judged;
    HRF_TRY(make_truth(&j, slide, truth, err));
    HRF_TRY(count_overlaps(&j, score->overlaps, err));
    pool(cohort, score->overlaps, p);
    return HRF_OK;
}

enum hrf_status hrf_segmentation_task_add(struct hrf_cohort *cohort, size_t precision,
                                          struct hrf_cohort_slide *slide,
                                          const struct hrf_tile_plan *plan,
                                          const struct hrf_scores *scores,
                                          const struct hrf_lesion_truth *truth,
                                          struct hrf_error *err)
{
    struct hrf_cohort_score *score = &slide->scores[precision];
    HRF_AUTO(hrf_mask) mask = NULL;
    if ((size_t)scores->n_classes != cohort->n_classes)
        return HRF_OK; /* the slide's score has its own, louder error */
    HRF_TRY(hrf_mask_create(plan, &scores->labels, scores->n_classes, &mask, err));
    hrf_free(score->label_pixels);
    score->label_pixels = hrf_calloc(cohort->n_classes + 1, sizeof *score->label_pixels);
    score->pixel_mm2 = mask->mpp * mask->mpp * 1e-6;
    HRF_TRY(hrf_mask_count(mask, score->label_pixels, err));
    return truth->is_judged ? judge(cohort, precision, slide, mask, truth, err) : HRF_OK;
}

double hrf_overlap_dice(const struct hrf_overlap *o)
{
    const int64_t all = o->called + o->wanted;
    return o->n_slides > 0 && all > 0 ? 2.0 * (double)o->both / (double)all : (double)NAN;
}

double hrf_overlap_iou(const struct hrf_overlap *o)
{
    const int64_t all = o->called + o->wanted - o->both;
    return o->n_slides > 0 && all > 0 ? (double)o->both / (double)all : (double)NAN;
}
