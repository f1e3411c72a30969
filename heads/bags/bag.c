/* bag.c - the embeddings of a slide from the forms of the tools that write them. */
#include "heads/bags/bag.h"

#include "schema/hdf5/hdf5_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Above any slide and any encoder, low enough that a hostile header costs no memory. */
static const int64_t most_patches = 20000000, most_width = 65536;
enum { ALIGNMENT = 64 };

struct source {
    struct hrf_hdf5_reader *file;
    char name[256]; /* of the data set */
    int64_t n, width;
};

static void source_release(struct source *s)
{
    hrf_hdf5_reader_close(s->file);
}

/* The only member of the group "features", as AtlasPatch writes one for each encoder. */
static enum hrf_status find_encoder(struct source *s, const char *path, struct hrf_error *err)
{
    char member[200];
    const int64_t n = hrf_hdf5_members(s->file, "features", member, sizeof member);
    if (n == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s': its group 'features' is empty", path);
    if (n > 1)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has the embeddings of %lld encoders: choose one with "
                             "features.set, e.g. features/NAME",
                             path, (long long)n);
    if (member[0] == '\0')
        return hrf_error_set(err, HRF_E_USER, "'%s': the name of its encoder is too long", path);
    snprintf(s->name, sizeof s->name, "features/%s", member);
    return HRF_OK;
}

static enum hrf_status find_set(struct source *s, const char *path, const char *set,
                                struct hrf_error *err)
{
    const char kind = hrf_hdf5_kind(s->file, "features");
    snprintf(s->name, sizeof s->name, "%s", set != NULL ? set : kind == 'd' ? "features" : "feats");
    if (set == NULL && kind == 'g')
        HRF_TRY(find_encoder(s, path, err));
    if (hrf_hdf5_kind(s->file, s->name) != 'd')
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has no data set '%s': name its embeddings with features.set",
                             path, set != NULL ? set : "features' or 'feats");
    return HRF_OK;
}

static enum hrf_status open_source(struct source *s, const char *path, const char *set,
                                   struct hrf_error *err)
{
    HRF_TRY(hrf_hdf5_reader_open(path, &s->file, err));
    HRF_TRY(find_set(s, path, set, err));
    HRF_TRY(hrf_hdf5_table_size(s->file, s->name, &s->n, &s->width, err));
    if (s->n > most_patches || s->width < 1 || s->width > most_width)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': %lld embeddings of %lld numbers; a slide has up to %lld of up "
                             "to %lld",
                             path, (long long)s->n, (long long)s->width, (long long)most_patches,
                             (long long)most_width);
    return HRF_OK;
}

/* ---- what made them ---- */

/* An attribute as text; false: there is none, or it is neither text nor a number. */
static bool get_attribute(const struct source *s, const char *object, const char *key, char *out,
                          size_t size)
{
    double value = 0;
    if (hrf_hdf5_text(s->file, object, key, out, size))
        return true;
    if (hrf_hdf5_numbers(s->file, object, key, &value, 1) != 1)
        return false;
    snprintf(out, size, "%.9g", value);
    return true;
}

/* The attributes of all forms that name the encoder and the tiling. */
enum { SHOWN_HASH = 12 };

static void describe(const struct source *s, char out[HRF_BAG_ORIGIN])
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
        const char *object = rows[i].object != NULL ? rows[i].object : s->name;
        if (!get_attribute(s, object, rows[i].key, value, sizeof value))
            continue;
        if (rows[i].is_hash)
            value[SHOWN_HASH] = '\0';
        const int n = snprintf(out + at, HRF_BAG_ORIGIN - at, "%s%s=%s", at > 0 ? " " : "",
                               rows[i].shown, value);
        at += n > 0 ? (size_t)n : 0;
        if (at >= HRF_BAG_ORIGIN)
            return; /* cut */
    }
    if (at == 0 && strncmp(s->name, "features/", 9) == 0)
        snprintf(out, HRF_BAG_ORIGIN, "encoder=%.200s", s->name + 9);
}

/* The text without its word that tells the precision. */
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

static enum hrf_status look(struct source *s, const char *path, const char *set, const char *slide,
                            struct hrf_bag_facts *out, struct hrf_error *err)
{
    char name[256];
    HRF_TRY(open_source(s, path, set, err));
    if (slide != NULL && get_attribute(s, s->name, "name", name, sizeof name) &&
        strcmp(name, slide) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' holds the embeddings of slide '%s', not of '%s'", path, name,
                             slide);
    out->n = s->n;
    out->width = s->width;
    describe(s, out->origin);
    return HRF_OK;
}

enum hrf_status hrf_bag_look(const char *path, const char *set, const char *slide,
                             struct hrf_bag_facts *out, struct hrf_error *err)
{
    struct source s = { .file = NULL };
    struct hrf_bag_facts facts = { .n = 0 };
    const enum hrf_status status = look(&s, path, set, slide, &facts, err);
    source_release(&s);
    if (status == HRF_OK)
        *out = facts;
    return status;
}

/* ---- the numbers ---- */

void hrf_bag_destroy(struct hrf_bag *bag)
{
    if (bag == NULL)
        return;
    hrf_free(bag->values);
    hrf_free(bag->places);
    hrf_free(bag);
}

/* "coords" has a row for each patch and x, y first; else there are none. */
static void read_places(const struct source *s, struct hrf_bag *bag)
{
    int64_t n = 0, n_columns = 0;
    if (hrf_hdf5_table_size(s->file, "coords", &n, &n_columns, NULL) != HRF_OK || n != bag->n ||
        n_columns < 2 || n_columns > 16)
        return;
    HRF_AUTO_FREE double *rows = hrf_alloc_array((size_t)n, (size_t)n_columns * sizeof *rows);
    if (rows == NULL || hrf_hdf5_read_doubles(s->file, "coords", rows, NULL) != HRF_OK)
        return;
    for (int64_t i = 0; i < n; i++)
        memmove(&rows[2 * i], &rows[i * n_columns], 2 * sizeof *rows);
    HRF_MOVE(bag->places, rows);
}

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

static enum hrf_status check_numbers(const struct hrf_bag *bag, const char *path,
                                     struct hrf_error *err)
{
    if (are_finite(bag->values, bag->n * bag->width))
        return HRF_OK;
    for (int64_t i = 0; i < bag->n * bag->width; i++)
        if (!isfinite(bag->values[i]))
            return hrf_error_set(
                err, HRF_E_USER, "'%s': number %lld of the embedding of patch %lld is %f", path,
                (long long)(i % bag->width), (long long)(i / bag->width), (double)bag->values[i]);
    return HRF_OK;
}

static enum hrf_status make_room(const struct source *s, const char *path, struct hrf_bag **bag,
                                 struct hrf_error *err)
{
    const size_t n = (size_t)(s->n * s->width);
    if (*bag == NULL)
        *bag = hrf_calloc(1, sizeof **bag);
    struct hrf_bag *b = *bag;
    HRF_CHECK_MEMORY(b != NULL, err, "no memory for the embeddings of '%s'", path);
    hrf_free(b->places);
    b->places = NULL;
    b->n = s->n;
    b->width = s->width;
    if (b->capacity < n) {
        hrf_free(b->values);
        b->values = hrf_alloc_aligned(n * sizeof *b->values, ALIGNMENT);
        b->capacity = b->values != NULL ? n : 0;
    }
    HRF_CHECK_MEMORY(b->values != NULL, err, "no memory for the %lld embeddings of '%s'",
                     (long long)s->n, path);
    return HRF_OK;
}

static enum hrf_status read_source(struct source *s, const char *path, const char *set,
                                   int64_t width, bool is_checked, struct hrf_bag **out,
                                   struct hrf_error *err)
{
    HRF_TRY(open_source(s, path, set, err));
    if (width > 0 && s->width != width)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has embeddings of %lld numbers, and %lld are expected", path,
                             (long long)s->width, (long long)width);
    if (s->n == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no patch", path);
    HRF_AUTO(hrf_bag) bag = NULL;
    HRF_MOVE(bag, *out);
    HRF_TRY(make_room(s, path, &bag, err));
    HRF_TRY(hrf_hdf5_read_floats(s->file, s->name, bag->values, err));
    if (!is_checked)
        HRF_TRY(check_numbers(bag, path, err));
    read_places(s, bag);
    HRF_MOVE(*out, bag);
    return HRF_OK;
}

static enum hrf_status read_file(const char *path, const char *set, int64_t width, bool is_checked,
                                 struct hrf_bag **out, struct hrf_error *err)
{
    struct source s = { .file = NULL };
    const enum hrf_status status = read_source(&s, path, set, width, is_checked, out, err);
    source_release(&s);
    if (status != HRF_OK) {
        hrf_bag_destroy(*out);
        *out = NULL;
    }
    return status;
}

enum hrf_status hrf_bag_read(const char *path, const char *set, int64_t width, struct hrf_bag **out,
                             struct hrf_error *err)
{
    return read_file(path, set, width, false, out, err);
}

enum hrf_status hrf_bag_read_again(const char *path, const char *set, int64_t width,
                                   struct hrf_bag **out, struct hrf_error *err)
{
    return read_file(path, set, width, true, out, err);
}
