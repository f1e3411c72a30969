/* bag.c - the embeddings of a slide from the forms of the tools that write them. */
#include "heads/bags/bag.h"

#include "base/host.h"
#include "base/min_max.h"
#include "schema/hdf5/hdf5_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Above any slide and any encoder, low enough that a hostile header costs no memory. */
static const int64_t max_patches = 20000000, max_width = 65536;
static const double max_position = 1e9; /* px or um of a position */
enum { ALIGNMENT = 64, MEGABYTE = 1000000 };

void hrf_bag_file_close(struct hrf_bag_file *file)
{
    if (file == NULL)
        return;
    hrf_hdf5_reader_close(file->reader);
    hrf_free(file->path);
    hrf_free(file);
}

/* The only member of the group "features", as AtlasPatch writes one for each encoder. */
static enum hrf_status find_encoder(struct hrf_bag_file *f, const char *path, struct hrf_error *err)
{
    char member[200];
    const int64_t n = hrf_hdf5_members(f->reader, "features", member, sizeof member);
    if (n == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s': its group 'features' is empty", path);
    if (n > 1)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has the embeddings of %lld encoders: choose one with "
                             "features.set, e.g. features/NAME",
                             path, (long long)n);
    if (member[0] == '\0')
        return hrf_error_set(err, HRF_E_USER, "'%s': the name of its encoder is too long", path);
    snprintf(f->name, sizeof f->name, "features/%s", member);
    return HRF_OK;
}

static enum hrf_status find_set(struct hrf_bag_file *f, const char *path, const char *set,
                                struct hrf_error *err)
{
    HRF_TRY(hrf_hdf5_check_inside(f->reader, "features", err));
    const char kind = hrf_hdf5_kind(f->reader, "features");
    snprintf(f->name, sizeof f->name, "%s", set != NULL ? set : kind == 'd' ? "features" : "feats");
    if (set == NULL && kind == 'g')
        HRF_TRY(find_encoder(f, path, err));
    HRF_TRY(hrf_hdf5_check_inside(f->reader, f->name, err));
    if (hrf_hdf5_kind(f->reader, f->name) != 'd')
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has no data set '%s': name its embeddings with features.set",
                             path, set != NULL ? set : "features' or 'feats");
    return HRF_OK;
}

/* A data set "coords" has a row for each patch, and x, y first. */
static enum hrf_status look_at_positions(struct hrf_bag_file *f, struct hrf_error *err)
{
    enum { MAX_COLUMNS = 16 };
    int64_t n = 0;
    HRF_TRY(hrf_hdf5_check_inside(f->reader, "coords", err));
    if (hrf_hdf5_kind(f->reader, "coords") != 'd')
        return HRF_OK;
    HRF_TRY(hrf_hdf5_table_size(f->reader, "coords", &n, &f->n_position_columns, err));
    if (n == f->n && f->n_position_columns >= 2 && f->n_position_columns <= MAX_COLUMNS)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "'%s': 'coords' is %lld x %lld for %lld embeddings; it must have a row "
                         "for each, of x and y",
                         f->path, (long long)n, (long long)f->n_position_columns, (long long)f->n);
}

static enum hrf_status open_sets(struct hrf_bag_file *f, const char *path, const char *set,
                                 struct hrf_error *err)
{
    HRF_TRY(find_set(f, path, set, err));
    HRF_TRY(hrf_hdf5_table_size(f->reader, f->name, &f->n, &f->width, err));
    if (f->n > max_patches || f->width < 1 || f->width > max_width)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': %lld embeddings of %lld numbers; a slide has up to %lld of up "
                             "to %lld",
                             path, (long long)f->n, (long long)f->width, (long long)max_patches,
                             (long long)max_width);
    return look_at_positions(f, err);
}

static enum hrf_status open_file(const char *path, const char *set, struct hrf_bag_file **out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_bag_file) f = hrf_calloc(1, sizeof *f);
    f->path = hrf_strdup(path);
    HRF_TRY(hrf_hdf5_reader_open(path, &f->reader, err));
    HRF_TRY(open_sets(f, path, set, err));
    HRF_MOVE(*out, f);
    return HRF_OK;
}

static enum hrf_status open_width(const char *path, const char *set, int64_t width,
                                  struct hrf_bag_file **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_bag_file) f = NULL;
    HRF_TRY(open_file(path, set, &f, err));
    if (width > 0 && f->width != width)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has embeddings of %lld numbers, and %lld are expected", path,
                             (long long)f->width, (long long)width);
    if (f->n == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no patch", path);
    HRF_MOVE(*out, f);
    return HRF_OK;
}

/* ---- what made them ---- */

/* An attribute as text; false: there is none, or it is neither text nor a number. */
static bool get_attribute(const struct hrf_bag_file *f, const char *object, const char *key,
                          char *out, size_t size)
{
    double value = 0;
    if (hrf_hdf5_text(f->reader, object, key, out, size))
        return true;
    if (hrf_hdf5_numbers(f->reader, object, key, &value, 1) != 1)
        return false;
    snprintf(out, size, "%.9g", value);
    return true;
}

/* The attributes of all forms that name the encoder and the tiling. */
enum { SHOWN_HASH = 12 };

static void describe(const struct hrf_bag_file *f, char out[HRF_BAG_ORIGIN])
{
    static const struct {
        const char *object, *key, *shown; /* object NULL: the embeddings */
        bool is_hash;                     /* its first digits will do */
    } rows[] = { { NULL, "encoder", "encoder", false },
                 { NULL, "model_sha256", "model_sha256", true },
                 { NULL, "precision", "precision", false },
                 { NULL, "mpp", "mpp", false },
                 { NULL, "tiling", "tiling", true },
                 { NULL, "preparation", "preparation", false },
                 { "/", "precision", "precision", false },
                 { "/", "extractor", "encoder", false },
                 { "/", "tile_size_um", "tile_size_um", false },
                 { "/", "tile_size_px", "tile_size_px", false },
                 { "/", "patch_size", "patch_size", false },
                 { "coords", "patch_size", "patch_size", false },
                 { "coords", "target_magnification", "target_magnification", false },
                 { "coords", "overlap", "overlap", false } };
    char value[128];
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *object = rows[i].object != NULL ? rows[i].object : f->name;
        if (!get_attribute(f, object, rows[i].key, value, sizeof value))
            continue;
        if (rows[i].is_hash)
            value[SHOWN_HASH] = '\0';
        const int n = snprintf(out + at, HRF_BAG_ORIGIN - at, "%s%s=%s", at > 0 ? " " : "",
                               rows[i].shown, value);
        at += n > 0 ? (size_t)n : 0;
        if (at >= HRF_BAG_ORIGIN)
            return; /* cut */
    }
    if (at == 0 && strncmp(f->name, "features/", 9) == 0)
        snprintf(out, HRF_BAG_ORIGIN, "encoder=%.200s", f->name + 9);
}

/* The text without its word for the precision. */
static void drop_precision(const char *origin, char out[HRF_BAG_ORIGIN])
{
    static const char key[] = "precision=";
    const char *at = strstr(origin, key);
    snprintf(out, HRF_BAG_ORIGIN, "%s", origin);
    if (at == NULL || (at > origin && at[-1] != ' '))
        return;
    const char *rest = at + strcspn(at, " ");
    rest += *rest == ' ';
    snprintf(out + (at - origin), (size_t)(HRF_BAG_ORIGIN - (at - origin)), "%s", rest);
    const size_t n = strlen(out);
    if (n > 0 && out[n - 1] == ' ')
        out[n - 1] = '\0';
}

bool hrf_bag_same_origin(const char *a, const char *b, bool any_precision)
{
    char x[HRF_BAG_ORIGIN], y[HRF_BAG_ORIGIN];
    if (!any_precision)
        return strcmp(a, b) == 0;
    drop_precision(a, x);
    drop_precision(b, y);
    return strcmp(x, y) == 0;
}

enum hrf_status hrf_bag_look(const char *path, const char *set, const char *slide,
                             struct hrf_bag_facts *out, struct hrf_error *err)
{
    char name[256];
    HRF_AUTO(hrf_bag_file) f = NULL;
    HRF_TRY(open_file(path, set, &f, err));
    if (slide != NULL && get_attribute(f, f->name, "name", name, sizeof name) &&
        strcmp(name, slide) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' holds the embeddings of slide '%s', not of '%s'", path, name,
                             slide);
    out->n = f->n;
    out->width = f->width;
    describe(f, out->origin);
    return HRF_OK;
}

/* ---- the numbers ---- */

/* A loop without a branch, which the compiler turns into vector instructions. */
static bool are_finite(const float *values, int64_t n)
{
    static const uint32_t exponent = 0x7f800000; /* all ones: infinite, or no number */
    uint32_t n_bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        n_bad |= (bits & exponent) == exponent;
    }
    return n_bad == 0;
}

enum hrf_status hrf_bag_file_read(struct hrf_bag_file *file, int64_t first, int64_t n, float *out,
                                  struct hrf_error *err)
{
    HRF_TRY(hrf_hdf5_read_floats(file->reader, file->name, first, n, file->width, out, err));
    if (are_finite(out, n * file->width))
        return HRF_OK;
    int64_t i = 0;
    while (isfinite(out[i]))
        i++;
    return hrf_error_set(err, HRF_E_USER, "'%s': number %lld of the embedding of patch %lld is %f",
                         file->path, (long long)(i % file->width),
                         (long long)(first + i / file->width), (double)out[i]);
}

enum hrf_status hrf_bag_file_read_positions(struct hrf_bag_file *file, int64_t first, int64_t n,
                                            double *out, struct hrf_error *err)
{
    const int64_t columns = file->n_position_columns;
    HRF_AUTO_FREE double *rows = hrf_try_alloc_array((size_t)n, (size_t)columns * sizeof *rows);
    HRF_CHECK_MEMORY(rows != NULL, err, "no memory for %lld positions of '%s'", (long long)n,
                     file->path);
    HRF_TRY(hrf_hdf5_read_doubles(file->reader, "coords", first, n, columns, rows, err));
    for (int64_t i = 0; i < n; i++) {
        const double x = rows[i * columns], y = rows[i * columns + 1];
        if (!(fabs(x) <= max_position && fabs(y) <= max_position))
            return hrf_error_set(err, HRF_E_USER, "'%s': patch %lld is at %g, %g", file->path,
                                 (long long)(first + i), x, y);
        out[2 * i] = x;
        out[2 * i + 1] = y;
    }
    return HRF_OK;
}

static enum hrf_status check_positions(struct hrf_bag_file *f, struct hrf_error *err)
{
    enum { PART = 1 << 14 };
    HRF_AUTO_FREE double *part = hrf_alloc_array(PART, 2 * sizeof *part);
    for (int64_t first = 0; f->n_position_columns > 0 && first < f->n; first += PART)
        HRF_TRY(hrf_bag_file_read_positions(f, first, hrf_min(PART, f->n - first), part, err));
    return HRF_OK;
}

enum hrf_status hrf_bag_file_open(const char *path, const char *set, int64_t width,
                                  struct hrf_bag_file **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_bag_file) f = NULL;
    HRF_TRY(open_width(path, set, width, &f, err));
    HRF_TRY(check_positions(f, err));
    HRF_MOVE(*out, f);
    return HRF_OK;
}

/* ---- whole bags ---- */

void hrf_bag_destroy(struct hrf_bag *bag)
{
    if (bag == NULL)
        return;
    hrf_free(bag->values);
    hrf_free(bag);
}

static enum hrf_status make_room(const struct hrf_bag_file *f, const char *path,
                                 struct hrf_bag *bag, struct hrf_error *err)
{
    const size_t n = (size_t)(f->n * f->width);
    bag->n = f->n;
    bag->width = f->width;
    if (bag->capacity >= n)
        return HRF_OK;
    const int64_t left = hrf_process_memory_left();
    if (n > (uint64_t)left / sizeof *bag->values)
        return hrf_error_set(err, HRF_E_NOMEM,
                             "'%s': %lld embeddings of %lld numbers need %lld MB, and %lld MB of "
                             "memory are left",
                             path, (long long)f->n, (long long)f->width,
                             (long long)(n * sizeof *bag->values / MEGABYTE),
                             (long long)(left / MEGABYTE));
    hrf_free(bag->values);
    bag->capacity = 0;
    bag->values = hrf_alloc_aligned(n * sizeof *bag->values, ALIGNMENT);
    HRF_CHECK_MEMORY(bag->values != NULL, err, "no memory for the %lld embeddings of '%s'",
                     (long long)f->n, path);
    bag->capacity = n;
    return HRF_OK;
}

static enum hrf_status read_whole(const char *path, const char *set, int64_t width, bool is_again,
                                  struct hrf_bag *bag, struct hrf_error *err)
{
    HRF_AUTO(hrf_bag_file) f = NULL;
    HRF_TRY(open_width(path, set, width, &f, err));
    HRF_TRY(make_room(f, path, bag, err));
    if (is_again)
        return hrf_hdf5_read_floats(f->reader, f->name, 0, f->n, f->width, bag->values, err);
    HRF_TRY(hrf_bag_file_read(f, 0, f->n, bag->values, err));
    return check_positions(f, err);
}

static enum hrf_status read_bag(const char *path, const char *set, int64_t width, bool is_again,
                                struct hrf_bag **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_bag) bag = *out != NULL ? *out : hrf_calloc(1, sizeof *bag);
    *out = NULL;
    HRF_TRY(read_whole(path, set, width, is_again, bag, err));
    HRF_MOVE(*out, bag);
    return HRF_OK;
}

enum hrf_status hrf_bag_read(const char *path, const char *set, int64_t width, struct hrf_bag **out,
                             struct hrf_error *err)
{
    return read_bag(path, set, width, false, out, err);
}

enum hrf_status hrf_bag_read_again(const char *path, const char *set, int64_t width,
                                   struct hrf_bag **out, struct hrf_error *err)
{
    return read_bag(path, set, width, true, out, err);
}

const char *hrf_bag_origin_shown(const char *origin)
{
    return origin[0] != '\0' ? origin : "its file does not say by what";
}
