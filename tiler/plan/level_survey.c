/* level_survey.c - compares the levels of a slide with each other, on the overview and at sample
 * places. */
#include "tiler/plan/level_survey.h"

#include "image/downsample.h"

#include <math.h>
#include <string.h>

enum {
    MIN_SIDE = 8, /* px of a level worth comparing */
    MAX_PIXELS =
        1 << 25,   /* of a finer level that is read only for this check: it takes about a second */
    SQUARE = 8,    /* px of the overview, a side, that are compared at once */
    PLACE_UM = 64, /* side of a sample place */
    N_TISSUE = 16,
    N_GLASS = 16,
    N_BLANK = 32
};

/* Copies an image and repeats its edge all around: [height + 2][width + 2][3]. */
static void add_border(const struct hrf_overview *in, unsigned char **out)
{
    const int64_t w = in->width, h = in->height;
    *out = hrf_alloc_array((size_t)((w + 2) * (h + 2)), 3);
    for (int64_t y = 0; y < h + 2; y++) {
        const int64_t from = y < 1 ? 0 : y > h ? h - 1 : y - 1;
        const unsigned char *row = in->rgb + from * w * 3;
        unsigned char *to = *out + y * (w + 2) * 3;
        memcpy(to, row, 3);
        memcpy(to + 3, row, (size_t)w * 3);
        memcpy(to + (w + 1) * 3, row + (w - 1) * 3, 3);
    }
}

/* Two levels of a slide to compare; the finer one is reduced to the size of the other. */
struct pair {
    int32_t fine_level, coarse_level;
    struct hrf_overview fine, coarse;
};

static void pair_release(struct pair *pair)
{
    hrf_overview_release(&pair->fine);
    hrf_overview_release(&pair->coarse);
}

static enum hrf_status level_survey_compare(const struct hrf_slide *slide, const struct pair *pair,
                                            struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    const int64_t w = pair->coarse.width, h = pair->coarse.height;
    HRF_AUTO_FREE unsigned char *around = NULL;
    struct hrf_level_difference d;
    add_border(&pair->coarse, &around);
    if (!hrf_level_difference_find(pair->fine.rgb, around, w, h, SQUARE, &d))
        return HRF_OK;
    const double x = (double)info->width / (double)w, y = (double)info->height / (double)h;
    const int64_t place[4] = { llround((double)d.column * x), llround((double)d.row * y),
                               llround((double)d.width * x), llround((double)d.height * y) };
    return hrf_level_check_refuse(slide, pair->fine_level, pair->coarse_level, place, &d, err);
}

/* The nearest coarser or finer level than `level`; -1: there is none. */
static int32_t next_level(const struct hrf_slide_info *info, int32_t level, bool is_coarser)
{
    int32_t best = -1;
    for (int32_t i = 0; i < info->n_levels; i++) {
        const double d = info->level[i].downsample;
        const bool is_beyond = is_coarser ? d > info->level[level].downsample
                                          : d < info->level[level].downsample;
        if (is_beyond && (best < 0 || (d < info->level[best].downsample) == is_coarser))
            best = i;
    }
    return best;
}

static enum hrf_status copy_overview(const struct hrf_overview *in, int64_t width, int64_t height,
                                     struct hrf_overview *out, struct hrf_error *err)
{
    *out = (struct hrf_overview){ .width = width, .height = height };
    out->rgb = hrf_try_alloc_array((size_t)(width * height), 3);
    HRF_CHECK_MEMORY(out->rgb != NULL, err, "no memory to compare two levels of a slide");
    return hrf_downsample(in->rgb, in->width, in->height, 3, width, height, out->rgb, err);
}

/* Compares the whole overview with another level. */
static enum hrf_status check_overview(struct hrf_slide *slide, const struct hrf_overview *overview,
                                      struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    const int64_t width = overview->width, height = overview->height;
    const int32_t own = hrf_overview_level(info, width, height);
    const int32_t coarser = next_level(info, own, true), finer = next_level(info, own, false);
    HRF_AUTO_RELEASE(pair) pair = { .fine_level = own, .coarse_level = own };
    if (coarser >= 0 && info->level[coarser].width >= MIN_SIDE &&
        info->level[coarser].height >= MIN_SIDE) {
        const int64_t w = info->level[coarser].width, h = info->level[coarser].height;
        const int64_t common_w = w < width ? w : width, common_h = h < height ? h : height;
        pair.coarse_level = coarser;
        HRF_TRY(hrf_overview_read_level(slide, coarser, common_w, common_h, &pair.coarse, err));
        if (pair.coarse.met_white)
            return HRF_OK;
        HRF_TRY(copy_overview(overview, common_w, common_h, &pair.fine, err));
        return level_survey_compare(slide, &pair, err);
    }
    if (finer < 0 || info->level[finer].width * info->level[finer].height > MAX_PIXELS ||
        width < MIN_SIDE || height < MIN_SIDE)
        return HRF_OK;
    pair.fine_level = finer;
    HRF_TRY(hrf_overview_read_level(slide, finer, width, height, &pair.fine, err));
    if (pair.fine.met_white)
        return HRF_OK;
    HRF_TRY(copy_overview(overview, width, height, &pair.coarse, err));
    return level_survey_compare(slide, &pair, err);
}

/* ---- sample places of the level that patches are read from ---- */

enum kind { TISSUE, GLASS, BLANK, MIXED };

/* The overview divided into places. Incomplete places at the right and lower edge are left out. */
struct places {
    const struct hrf_overview *overview;
    const unsigned char *mask;
    int64_t side_x, side_y; /* px of the overview */
    int64_t columns, rows;
};

static enum kind kind_of(const struct places *p, int64_t place)
{
    const int64_t width = p->overview->width;
    const int64_t first = place / p->columns * p->side_y * width + place % p->columns * p->side_x;
    int64_t n_tissue = 0;
    bool is_blank = true;
    for (int64_t y = 0; y < p->side_y; y++)
        for (int64_t x = 0; x < p->side_x; x++) {
            const int64_t at = first + y * width + x;
            n_tissue += p->mask[at] != 0;
            is_blank &= memcmp(p->overview->rgb + 3 * at, p->overview->rgb + 3 * first, 3) == 0;
        }
    if (n_tissue > 0)
        return 2 * n_tissue >= p->side_x * p->side_y ? TISSUE : MIXED;
    return is_blank ? BLANK : GLASS;
}

/* What the places are read and compared with. */
struct looking {
    struct hrf_slide *slide;
    const struct hrf_tile_plan *plan;
    struct hrf_patch_reader *reader;
    struct hrf_level_check *check; /* NULL: no coarser level */
    int64_t size;                  /* px of a place as it is read */
    unsigned char *rgb;
};

static void looking_release(struct looking *l)
{
    if (l->reader != NULL)
        hrf_patch_reader_expect_none(l->reader);
    hrf_patch_reader_destroy(l->reader);
    hrf_level_check_destroy(l->check);
    hrf_free(l->rgb);
}

static enum hrf_status look_at(struct looking *l, const struct places *p, int64_t place,
                               struct hrf_error *err)
{
    const double scale_x = (double)l->plan->width / (double)p->overview->width;
    const double scale_y = (double)l->plan->height / (double)p->overview->height;
    int64_t x = llround((double)(place % p->columns * p->side_x) * scale_x);
    int64_t y = llround((double)(place / p->columns * p->side_y) * scale_y);
    hrf_patch_reader_move_into_tile(l->reader, &x, &y);
    HRF_TRY(hrf_patch_reader_expect(l->reader, x, y, 0, l->size, err));
    HRF_TRY(hrf_patch_reader_read(l->reader, x, y, l->rgb, NULL, NULL, err));
    hrf_patch_reader_done(l->reader, x, y, 0, l->size); /* its tile's memory is the next one's */
    if (hrf_patch_reader_met_white(l->reader))
        return HRF_OK;
    return hrf_level_check_rows(l->check, x, y, 0, l->size, l->rgb, err);
}

/* Compares at most `max` places of a kind, spread evenly over the slide. */
static enum hrf_status look_at_kind(struct looking *l, const struct places *p,
                                    const unsigned char *kinds, enum kind kind, int64_t max,
                                    struct hrf_error *err)
{
    int64_t n = 0, k = 0;
    for (int64_t i = 0; i < p->columns * p->rows; i++)
        n += kinds[i] == kind;
    for (int64_t i = 0; i < p->columns * p->rows; i++) {
        if (kinds[i] != kind)
            continue;
        if (n <= max || (k + 1) * max / n > k * max / n)
            HRF_TRY(look_at(l, p, i, err));
        k++;
    }
    return HRF_OK;
}

static enum hrf_status look_at_places(struct looking *l, const struct places *p,
                                      struct hrf_error *err)
{
    const int64_t n = p->columns * p->rows;
    HRF_AUTO_FREE unsigned char *kinds = hrf_try_alloc((size_t)n + 1);
    HRF_CHECK_MEMORY(kinds != NULL, err, "no memory to compare levels in %lld places",
                     (long long)n);
    for (int64_t i = 0; i < n; i++)
        kinds[i] = (unsigned char)kind_of(p, i);
    HRF_TRY(look_at_kind(l, p, kinds, TISSUE, N_TISSUE, err));
    HRF_TRY(look_at_kind(l, p, kinds, GLASS, N_GLASS, err));
    return look_at_kind(l, p, kinds, BLANK, N_BLANK, err);
}

static enum hrf_status check_places(struct hrf_slide *slide, const struct hrf_tile_plan *plan,
                                    const struct hrf_overview *overview, const unsigned char *mask,
                                    struct hrf_error *err)
{
    const double um = plan->mpp_x * (double)plan->width; /* the slide's width */
    const double side = fmax(1, PLACE_UM * (double)overview->width / um);
    const struct places places = { .overview = overview,
                                   .mask = mask,
                                   .side_x = (int64_t)side,
                                   .side_y = (int64_t)side,
                                   .columns = overview->width / (int64_t)side,
                                   .rows = overview->height / (int64_t)side };
    HRF_AUTO_RELEASE(looking) l = { .slide = slide, .plan = plan };
    l.size = (int64_t)fmax(MIN_SIDE, PLACE_UM / plan->patch_mpp);
    HRF_TRY(hrf_level_check_create(slide, plan->mpp_x, plan->mpp_y, l.size, plan->patch_mpp,
                                   &l.check, err));
    if (l.check == NULL)
        return HRF_OK;
    HRF_TRY(hrf_patch_reader_create(slide, plan->mpp_x, plan->mpp_y, l.size, plan->patch_mpp,
                                    &l.reader, err));
    l.rgb = hrf_alloc_array((size_t)(l.size * l.size), 3);
    return look_at_places(&l, &places, err);
}

enum hrf_status hrf_slide_check_levels(struct hrf_slide *slide, const struct hrf_tile_plan *plan,
                                       const struct hrf_overview *overview,
                                       const unsigned char *mask, struct hrf_error *err)
{
    HRF_TRY(check_overview(slide, overview, err));
    return check_places(slide, plan, overview, mask, err);
}
