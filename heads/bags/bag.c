/* bag.c - reading embeddings with the HDF5 library. */
#include "heads/bags/bag.h"

#include "base/file.h"
#include "base/min_max.h"
#include "base/text.h"

#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Above any slide and any encoder, low enough that a hostile header costs no memory. */
static const int64_t most_patches = 20000000, most_width = 65536;

/* Open objects of a file; closed together. */
struct source {
    hid_t file, set, space;
    char name[256]; /* of the data set */
    int64_t n, width;
};

static void source_release(struct source *s)
{
    if (s->space >= 0)
        H5Sclose(s->space);
    if (s->set >= 0)
        H5Dclose(s->set);
    if (s->file >= 0)
        H5Fclose(s->file);
}
#define SOURCE_INIT                                                                                \
    {                                                                                              \
        .file = H5I_INVALID_HID, .set = H5I_INVALID_HID, .space = H5I_INVALID_HID                  \
    }

/* 'd': a data set, 'g': a group, 0: neither. */
static char kind_of(hid_t file, const char *name)
{
    const hid_t object = H5Lexists(file, name, H5P_DEFAULT) > 0 ? H5Oopen(file, name, H5P_DEFAULT)
                                                                : H5I_INVALID_HID;
    if (object < 0)
        return 0;
    const H5I_type_t type = H5Iget_type(object);
    H5Oclose(object);
    return type == H5I_DATASET ? 'd' : type == H5I_GROUP ? 'g' : 0;
}

/* The only member of the group "features", as AtlasPatch writes one for each encoder. */
static enum hrf_status find_encoder(struct source *s, const char *path, struct hrf_error *err)
{
    H5G_info_t info;
    char member[200];
    if (H5Gget_info_by_name(s->file, "features", &info, H5P_DEFAULT) < 0 || info.nlinks == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s': its group 'features' is empty", path);
    if (info.nlinks > 1)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has the embeddings of %lld encoders: choose one with "
                             "features.set, e.g. features/NAME",
                             path, (long long)info.nlinks);
    const ssize_t n = H5Lget_name_by_idx(s->file, "features", H5_INDEX_NAME, H5_ITER_INC, 0, member,
                                         sizeof member, H5P_DEFAULT);
    if (n < 0 || (size_t)n >= sizeof member)
        return hrf_error_set(err, HRF_E_USER, "'%s': the name of its encoder is too long", path);
    snprintf(s->name, sizeof s->name, "features/%s", member);
    return HRF_OK;
}

static enum hrf_status find_set(struct source *s, const char *path, const char *set,
                                struct hrf_error *err)
{
    const char *name = set != NULL                           ? set
                       : kind_of(s->file, "features") == 'd' ? "features"
                                                             : "feats";
    snprintf(s->name, sizeof s->name, "%s", name);
    if (set == NULL && kind_of(s->file, "features") == 'g')
        HRF_TRY(find_encoder(s, path, err));
    if (kind_of(s->file, s->name) != 'd')
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has no data set '%s': name its embeddings with features.set",
                             path, set != NULL ? set : "features' or 'feats");
    return HRF_OK;
}

static enum hrf_status open_source(struct source *s, const char *path, const char *set,
                                   struct hrf_error *err)
{
    hsize_t size[2] = { 0, 0 };
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* errors are returned, not printed */
    HRF_TRY(hrf_file_check(path, err));
    s->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (s->file < 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' is no HDF5 file, or it is cut short", path);
    HRF_TRY(find_set(s, path, set, err));
    s->set = H5Dopen2(s->file, s->name, H5P_DEFAULT);
    s->space = s->set >= 0 ? H5Dget_space(s->set) : H5I_INVALID_HID;
    if (s->space < 0 || H5Sget_simple_extent_ndims(s->space) != 2 ||
        H5Sget_simple_extent_dims(s->space, size, NULL) != 2)
        return hrf_error_set(err, HRF_E_USER, "'%s': '%s' is no table of embeddings", path,
                             s->name);
    if (size[0] > (hsize_t)most_patches || size[1] < 1 || size[1] > (hsize_t)most_width)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': %llu embeddings of %llu numbers; a slide has up to %lld of up "
                             "to %lld",
                             path, (unsigned long long)size[0], (unsigned long long)size[1],
                             (long long)most_patches, (long long)most_width);
    s->n = (int64_t)size[0];
    s->width = (int64_t)size[1];
    return HRF_OK;
}

/* ---- what made them ---- */

/* An attribute as text; false: there is none, or it is neither text nor a number. */
static bool get_text(hid_t type, hid_t attribute, char *out, size_t size)
{
    char *text = NULL;
    char fixed[256] = "";
    if (H5Tis_variable_str(type) > 0) {
        const hid_t memory = H5Tget_native_type(type, H5T_DIR_DEFAULT);
        const bool is_read = memory >= 0 && H5Aread(attribute, memory, &text) >= 0;
        if (memory >= 0)
            H5Tclose(memory);
        if (!is_read || text == NULL)
            return false;
        hrf_text_show(text, out, size);
        H5free_memory(text);
        return true;
    }
    if (H5Tget_size(type) >= sizeof fixed || H5Aread(attribute, type, fixed) < 0)
        return false;
    hrf_text_show(fixed, out, size);
    return true;
}

static bool get_attribute(hid_t file, const char *object, const char *key, char *out, size_t size)
{
    bool is_read = false;
    if (kind_of(file, object) == 0 && strcmp(object, "/") != 0)
        return false;
    if (H5Aexists_by_name(file, object, key, H5P_DEFAULT) <= 0)
        return false;
    const hid_t attribute = H5Aopen_by_name(file, object, key, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t type = attribute >= 0 ? H5Aget_type(attribute) : H5I_INVALID_HID;
    const hid_t space = attribute >= 0 ? H5Aget_space(attribute) : H5I_INVALID_HID;
    if (type >= 0 && space >= 0 && H5Sget_simple_extent_npoints(space) == 1) {
        double value = 0;
        const H5T_class_t class = H5Tget_class(type);
        if (class == H5T_STRING) {
            is_read = get_text(type, attribute, out, size);
        } else if (class == H5T_INTEGER || class == H5T_FLOAT) {
            is_read = H5Aread(attribute, H5T_NATIVE_DOUBLE, &value) >= 0;
            snprintf(out, size, "%.9g", value);
        }
    }
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    if (attribute >= 0)
        H5Aclose(attribute);
    return is_read;
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
        if (!get_attribute(s->file, object, rows[i].key, value, sizeof value))
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
    if (slide != NULL && get_attribute(s->file, s->name, "name", name, sizeof name) &&
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
    struct source s = SOURCE_INIT;
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
    hsize_t size[2] = { 0, 0 };
    const hid_t set = kind_of(s->file, "coords") == 'd' ? H5Dopen2(s->file, "coords", H5P_DEFAULT)
                                                        : H5I_INVALID_HID;
    const hid_t space = set >= 0 ? H5Dget_space(set) : H5I_INVALID_HID;
    double *rows = NULL;
    if (space >= 0 && H5Sget_simple_extent_ndims(space) == 2 &&
        H5Sget_simple_extent_dims(space, size, NULL) == 2 && size[0] == (hsize_t)bag->n &&
        size[1] >= 2 && size[1] <= 16)
        rows = hrf_alloc_array((size_t)bag->n, (size_t)size[1] * sizeof *rows);
    if (rows != NULL && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows) >= 0) {
        for (int64_t i = 0; i < bag->n; i++)
            memmove(&rows[2 * i], &rows[i * (int64_t)size[1]], 2 * sizeof *rows);
        bag->places = rows;
        rows = NULL;
    }
    hrf_free(rows);
    if (space >= 0)
        H5Sclose(space);
    if (set >= 0)
        H5Dclose(set);
}

static enum hrf_status check_numbers(const struct hrf_bag *bag, const char *path,
                                     struct hrf_error *err)
{
    for (int64_t i = 0; i < bag->n * bag->width; i++)
        if (!isfinite(bag->values[i]))
            return hrf_error_set(
                err, HRF_E_USER, "'%s': number %lld of the embedding of patch %lld is %f", path,
                (long long)(i % bag->width), (long long)(i / bag->width), (double)bag->values[i]);
    return HRF_OK;
}

static enum hrf_status read_source(struct source *s, const char *path, const char *set,
                                   int64_t width, struct hrf_bag **out, struct hrf_error *err)
{
    HRF_TRY(open_source(s, path, set, err));
    if (width > 0 && s->width != width)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has embeddings of %lld numbers, and %lld are expected", path,
                             (long long)s->width, (long long)width);
    if (s->n == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no patch", path);
    HRF_AUTO(hrf_bag) bag = hrf_calloc(1, sizeof *bag);
    HRF_CHECK_MEMORY(bag != NULL, err, "no memory for the embeddings of '%s'", path);
    bag->n = s->n;
    bag->width = s->width;
    bag->values = hrf_alloc_array((size_t)s->n, (size_t)s->width * sizeof *bag->values);
    HRF_CHECK_MEMORY(bag->values != NULL, err, "no memory for the %lld embeddings of '%s'",
                     (long long)s->n, path);
    if (H5Dread(s->set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, bag->values) < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': the embeddings cannot be read; the file is damaged or holds no "
                             "numbers",
                             path);
    HRF_TRY(check_numbers(bag, path, err));
    read_places(s, bag);
    HRF_MOVE(*out, bag);
    return HRF_OK;
}

enum hrf_status hrf_bag_read(const char *path, const char *set, int64_t width, struct hrf_bag **out,
                             struct hrf_error *err)
{
    struct source s = SOURCE_INIT;
    const enum hrf_status status = read_source(&s, path, set, width, out, err);
    source_release(&s);
    return status;
}
