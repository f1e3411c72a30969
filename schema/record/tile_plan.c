/* tile_plan.c - encodes, decodes and hashes tile plans (tile_plan.h). */
#include "schema/record/tile_plan.h"

#include <math.h>
#include <string.h>

const char *hrf_drop_reason_name(enum hrf_drop_reason reason)
{
    static const char *const names[] = { "pen", "bubble", "fold", "blur" };
    return names[reason];
}

/* Column i begins within half a pixel of i * stride; of a grid whose last column is moved back,
 * that one begins between the column before it and its own place. */
static int64_t cell_of(int32_t at, double stride, bool is_shifted)
{
    return is_shifted ? (int64_t)ceil(((double)at - 0.5) / stride)
                      : (int64_t)llround((double)at / stride);
}

struct hrf_grid_cell hrf_tile_plan_cell(const struct hrf_tile_plan *plan,
                                        const struct hrf_patch *patch)
{
    const bool is_shifted = plan->edge != NULL && strcmp(plan->edge, "shift") == 0;
    return (struct hrf_grid_cell){ .column = cell_of(patch->x, plan->stride_x0, is_shifted),
                                   .row = cell_of(patch->y, plan->stride_y0, is_shifted) };
}

int hrf_compare_grid_cells(const void *a, const void *b)
{
    const struct hrf_grid_cell *x = a, *y = b;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

bool hrf_tile_plan_is_white(const struct hrf_tile_plan *plan, int64_t patch)
{
    int64_t low = 0, high = plan->n_white;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (plan->white[middle] < patch)
            low = middle + 1;
        else
            high = middle;
    }
    return low < plan->n_white && plan->white[low] == patch;
}

void hrf_tile_plan_drop_white(struct hrf_tile_plan *plan)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < plan->n_patches; i++)
        if (!hrf_tile_plan_is_white(plan, i))
            plan->patches[kept++] = plan->patches[i];
    plan->n_patches = kept;
    plan->n_white = 0;
}

enum hrf_status hrf_tile_plan_seal(struct hrf_tile_plan *plan, struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, "hires-flow tiling 1");
    hrf_hash_int(hash, plan->width);
    hrf_hash_int(hash, plan->height);
    hrf_hash_double(hash, plan->mpp_x);
    hrf_hash_double(hash, plan->mpp_y);
    hrf_hash_int(hash, plan->patch_size);
    hrf_hash_double(hash, plan->patch_mpp);
    hrf_hash_int(hash, plan->patch_stride);
    hrf_hash_int(hash, plan->read_level);
    hrf_hash_text(hash, plan->tissue_method);
    hrf_hash_int(hash, plan->n_patches);
    for (int64_t i = 0; i < plan->n_patches; i++) {
        hrf_hash_int(hash, plan->patches[i].x);
        hrf_hash_int(hash, plan->patches[i].y);
    }
    hrf_hash_int(hash, plan->n_white);
    for (int64_t i = 0; i < plan->n_white; i++)
        hrf_hash_int(hash, plan->white[i]);
    hrf_hash_hex(hash, plan->hash);
    return HRF_OK;
}

static const struct hrf_field fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_tile_plan, #name, name, HRF_FIELD_##type)
    FIELD(slide_path, TEXT),
    FIELD(vendor, TEXT),
    FIELD(width, INT),
    FIELD(height, INT),
    FIELD(n_levels, INT32),
    FIELD(mpp_x, REAL),
    FIELD(mpp_y, REAL),
    FIELD(mpp_source, TEXT),
    FIELD(patch_size, INT),
    FIELD(patch_mpp, REAL),
    FIELD(patch_stride, INT),
    FIELD(patch_width0, INT),
    FIELD(patch_height0, INT),
    FIELD(stride_x0, REAL),
    FIELD(stride_y0, REAL),
    FIELD(grid_columns, INT32),
    FIELD(grid_rows, INT32),
    FIELD(read_level, INT32),
    FIELD(read_downsample, REAL),
    FIELD(tissue_method, TEXT),
    FIELD(tissue_fraction, REAL),
    FIELD(tissue_threshold, REAL),
    FIELD(warning, TEXT),
    FIELD(n_patches, INT),
    FIELD(thumbnail_downsample, REAL),
    FIELD(seconds, REAL),
    FIELD(edge, TEXT),
    FIELD(n_dropped, INT),
    FIELD(n_white, INT),
    FIELD(hash, HASH),
#undef FIELD
};

void hrf_tile_plan_destroy(struct hrf_tile_plan *plan)
{
    if (plan == NULL)
        return;
    hrf_fields_release(HRF_FIELDS(fields), plan);
    hrf_free(plan->patches);
    hrf_free(plan->white);
    hrf_free(plan->dropped);
    hrf_bytes_release(&plan->thumbnail_png);
    hrf_bytes_release(&plan->mask_png);
    hrf_free(plan);
}

enum hrf_status hrf_tile_plan_encode(const struct hrf_tile_plan *plan, struct hrf_bytes *out,
                                     struct hrf_error *err)
{
    HRF_AUTO_JSON header = hrf_fields_json(HRF_FIELDS(fields), plan);
    const struct hrf_section sections[] = {
        { "patches", plan->patches, (size_t)plan->n_patches * sizeof plan->patches[0] },
        { "thumbnail.png", plan->thumbnail_png.data, plan->thumbnail_png.n_bytes },
        { "mask.png", plan->mask_png.data, plan->mask_png.n_bytes },
        { "white", plan->white, (size_t)plan->n_white * sizeof plan->white[0] },
        { "dropped", plan->dropped, (size_t)plan->n_dropped * sizeof plan->dropped[0] },
    };
    struct hrf_record_identity identity = plan->identity;
    memcpy(identity.plan, plan->hash, sizeof identity.plan);
    return hrf_container_encode(HRF_TILE_PLAN_KIND, &identity, header, sections, 5, out, err);
}

/* Checks what all readers rely on, so that none has to check it again. */
static enum hrf_status check_plan(const struct hrf_tile_plan *plan, const char *where,
                                  struct hrf_error *err)
{
    const bool is_whole = plan->slide_path != NULL && plan->vendor != NULL &&
                          plan->mpp_source != NULL && plan->tissue_method != NULL &&
                          plan->width > 0 && plan->height > 0 && plan->mpp_x > 0 &&
                          plan->mpp_y > 0 && plan->patch_mpp > 0 && plan->patch_size > 0 &&
                          plan->patch_size <= 1 << 20 && plan->patch_stride > 0 &&
                          plan->patch_width0 > 0 && plan->patch_height0 > 0 &&
                          plan->stride_x0 > 0 && plan->stride_y0 > 0;
    if (!is_whole)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: damaged tile plan: a size, resolution or name is missing", where);
    if (strlen(plan->hash) != HRF_HASH_HEX - 1)
        return hrf_error_set(err, HRF_E_USER, "%s: 'hash' is not a SHA-256", where);
    if (plan->n_patches < 0 || plan->n_patches > INT32_MAX)
        return hrf_error_set(err, HRF_E_USER, "%s: it claims %lld patches", where,
                             (long long)plan->n_patches);
    if (plan->n_white < 0 || plan->n_white > plan->n_patches)
        return hrf_error_set(err, HRF_E_USER, "%s: it claims %lld white patches of %lld", where,
                             (long long)plan->n_white, (long long)plan->n_patches);
    if (plan->n_dropped < 0 || plan->n_dropped > INT32_MAX)
        return hrf_error_set(err, HRF_E_USER, "%s: it claims %lld dropped patches", where,
                             (long long)plan->n_dropped);
    return HRF_OK;
}

static enum hrf_status check_lists(const struct hrf_tile_plan *plan, const char *where,
                                   struct hrf_error *err)
{
    for (int64_t i = 0; i < plan->n_white; i++)
        if (plan->white[i] < 0 || plan->white[i] >= plan->n_patches ||
            (i > 0 && plan->white[i] <= plan->white[i - 1]))
            return hrf_error_set(err, HRF_E_USER, "%s: its white patches are not in order", where);
    for (int64_t i = 0; i < plan->n_dropped; i++)
        if (plan->dropped[i].reason < 0 || plan->dropped[i].reason >= HRF_N_DROP_REASONS)
            return hrf_error_set(err, HRF_E_USER, "%s: a patch was dropped for reason %d", where,
                                 plan->dropped[i].reason);
    return HRF_OK;
}

enum hrf_status hrf_tile_plan_decode(const void *bytes, size_t n_bytes,
                                     const struct hrf_record_identity *expected, const char *where,
                                     struct hrf_tile_plan **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_container) container = { .header = NULL };
    HRF_AUTO(hrf_tile_plan) plan = hrf_calloc(1, sizeof *plan);
    HRF_TRY(
        hrf_container_decode(bytes, n_bytes, HRF_TILE_PLAN_KIND, expected, where, &container, err));
    plan->identity = container.identity;
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), container.header, where, plan, err));
    HRF_TRY(check_plan(plan, where, err));
    HRF_TRY(hrf_container_copy(&container, "patches",
                               (size_t)plan->n_patches * sizeof plan->patches[0], &plan->patches,
                               err));
    HRF_TRY(hrf_container_copy(&container, "white", (size_t)plan->n_white * sizeof plan->white[0],
                               &plan->white, err));
    HRF_TRY(hrf_container_copy(&container, "dropped",
                               (size_t)plan->n_dropped * sizeof plan->dropped[0], &plan->dropped,
                               err));
    HRF_TRY(check_lists(plan, where, err));
    HRF_TRY(hrf_container_bytes(&container, "thumbnail.png", &plan->thumbnail_png, err));
    HRF_TRY(hrf_container_bytes(&container, "mask.png", &plan->mask_png, err));
    HRF_MOVE(*out, plan);
    return HRF_OK;
}
