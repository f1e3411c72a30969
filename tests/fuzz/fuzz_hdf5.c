/* fuzz_hdf5.c - HDF5 files of any contents as patches and as embeddings: numbers that hold
 * together, or a sentence.
 *
 * The bytes say what the HDF5 library writes: data sets of any type, rank and size, some without
 * any rows in the file, attributes, groups and links, by the names that the readers look for. Bytes
 * as a file would find the faults of libhdf5 alone, which ends some damaged files by SIGSEGV
 * (tests/golden/hdf5); the programs live with that, for a worker reads them. */
#include "heads/bags/bag.h"
#include "tiler/coords/coords.h"

#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_RANK = 4, MOST_STORED = 1 << 12, SIDE = 4096 };

static void require(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_hdf5: %s\n", what);
    abort(); /* ci-allow: how a fuzz entry reports */
}

static char folder[] = "/tmp/hrf-fuzz-hdf5-XXXXXX", path[sizeof folder + 16];

static void remove_file(void)
{
    unlink(path);
    rmdir(folder);
}

/* What is left of the input; beyond its end there are zeros. */
struct input {
    const uint8_t *at, *end;
};

static unsigned next(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static const char *next_name(struct input *in)
{
    static const char *const names[] = { "coords", "features", "feats", "features/demo",
                                         "demo",   "a/b",      "/" };
    return names[next(in) % (sizeof names / sizeof names[0])];
}

static const char *next_key(struct input *in)
{
    static const char *const keys[] = {
        "patch_size", "patch_level",  "patch_size_level0", "patch_spacing_um_px", "level_dim",
        "unit",       "tile_size_um", "level0_width",      "level0_height",       "encoder",
        "name",       "precision",
    };
    return keys[next(in) % (sizeof keys / sizeof keys[0])];
}

static hid_t next_type(struct input *in)
{
    const hid_t types[] = { H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_STD_I64LE,
                            H5T_STD_I32BE,  H5T_STD_U8LE,   H5T_C_S1 };
    return types[next(in) % (sizeof types / sizeof types[0])];
}

/* Values of any type that fit where a member has at most 8 bytes: small places, all bytes, or
 * zeros. */
static void fill(struct input *in, hid_t type, size_t n, unsigned char *bytes)
{
    const unsigned how = next(in);
    const size_t width = H5Tget_size(type);
    memset(bytes, how % 3 == 0 ? 0 : 0xff, n * width);
    for (size_t i = 0; i < n && how % 3 == 1; i++) {
        double room = (double)((i + 1) * how % SIDE);
        if (H5Tconvert(H5T_NATIVE_DOUBLE, type, 1, &room, NULL, H5P_DEFAULT) >= 0)
            memcpy(bytes + i * width, &room, width);
    }
}

static hid_t make_space(struct input *in, hid_t layout, hsize_t *n)
{
    hsize_t dims[MOST_RANK], chunk[MOST_RANK];
    const int rank = (int)(next(in) % (MOST_RANK + 1));
    *n = 1;
    for (int i = 0; i < rank; i++) {
        const unsigned byte = next(in);
        dims[i] = byte < 240 ? byte % 9 : (hsize_t)1 << (byte - 240) * 4;
        chunk[i] = dims[i] > 8 ? 8 : dims[i] + (dims[i] == 0);
        *n = dims[i] > MOST_STORED || *n * dims[i] > MOST_STORED ? MOST_STORED + 1 : *n * dims[i];
    }
    if (rank > 0 && *n > MOST_STORED)
        H5Pset_chunk(layout, rank, chunk); /* none of which is written */
    return rank > 0 ? H5Screate_simple(rank, dims, NULL)
                    : H5Screate(next(in) % 2 == 0 ? H5S_SCALAR : H5S_NULL);
}

static void add_data_set(struct input *in, hid_t file)
{
    static unsigned char bytes[MOST_STORED * 8];
    const char *name = next_name(in);
    const hid_t type = next_type(in), layout = H5Pcreate(H5P_DATASET_CREATE),
                links = H5Pcreate(H5P_LINK_CREATE);
    hsize_t n;
    const hid_t space = make_space(in, layout, &n);
    H5Pset_create_intermediate_group(links, 1);
    const hid_t set = H5Dcreate2(file, name, type, space, links, layout, H5P_DEFAULT);
    if (set >= 0 && n <= MOST_STORED) {
        fill(in, type, (size_t)n, bytes);
        H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes);
    }
    if (set >= 0)
        H5Dclose(set);
    H5Sclose(space);
    H5Pclose(links);
    H5Pclose(layout);
}

static void add_attribute(struct input *in, hid_t file)
{
    const hid_t object = H5Oopen(file, next_name(in), H5P_DEFAULT);
    const char *key = next_key(in);
    if (object < 0)
        return;
    static unsigned char bytes[8 * 8];
    hsize_t n = 1 + next(in) % 8;
    const bool is_text = next(in) % 3 == 0;
    const hid_t type = H5Tcopy(is_text ? H5T_C_S1 : next_type(in));
    if (is_text) {
        H5Tset_size(type, (size_t)n);
        for (size_t i = 0; i < n && i < sizeof bytes; i++)
            bytes[i] = (unsigned char)next(in);
        n = 1;
    } else {
        fill(in, type, (size_t)n, bytes);
    }
    const hid_t space = H5Screate_simple(1, &n, NULL);
    const hid_t attribute = H5Acreate2(object, key, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute >= 0) {
        H5Awrite(attribute, type, bytes);
        H5Aclose(attribute);
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Oclose(object);
}

static void make_file(struct input in)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    require(file >= 0, "a temporary file");
    for (int i = 0; i < 32 && in.at < in.end; i++) {
        const unsigned what = next(&in) % 8;
        if (what < 3) {
            add_data_set(&in, file);
        } else if (what < 6) {
            add_attribute(&in, file);
        } else if (what == 6) {
            const hid_t group = H5Gcreate2(file, next_name(&in), H5P_DEFAULT, H5P_DEFAULT,
                                           H5P_DEFAULT);
            if (group >= 0)
                H5Gclose(group);
        } else {
            const char *to = next_name(&in);
            H5Lcreate_soft(to, file, next_name(&in), H5P_DEFAULT, H5P_DEFAULT);
        }
    }
    require(H5Fclose(file) >= 0, "writing it");
}

static void read_as_patches(void)
{
    const struct hrf_slide_info slide = { .width = SIDE,
                                          .height = SIDE,
                                          .n_levels = 2,
                                          .level = { { SIDE, SIDE, 1 },
                                                     { SIDE / 4, SIDE / 4, 4 } } };
    struct hrf_error err = { .text = "" };
    HRF_AUTO(hrf_coords) coords = NULL;
    if (hrf_coords_read(path, &slide, 0.25, 0.25, &coords, &err) != HRF_OK) {
        require(coords == NULL && err.text[0] != '\0', "patches, or a text");
        return;
    }
    require(coords->form != NULL && coords->side0 >= 0 && coords->n_patches >= 0,
            "a form and a side");
    for (int64_t i = 0; i < coords->n_patches; i++)
        require(coords->patches[i].x >= 0 && coords->patches[i].x < SIDE &&
                    coords->patches[i].y >= 0 && coords->patches[i].y < SIDE,
                "patches begin on the slide");
}

static void read_as_bag(void)
{
    struct hrf_error err = { .text = "" };
    struct hrf_bag_facts facts;
    HRF_AUTO(hrf_bag) bag = NULL;
    const bool has_facts = hrf_bag_look(path, NULL, NULL, &facts, &err) == HRF_OK;
    require(has_facts || err.text[0] != '\0', "facts, or a text");
    err.text[0] = '\0';
    if (hrf_bag_read(path, NULL, 0, &bag, &err) != HRF_OK) {
        require(bag == NULL && err.text[0] != '\0', "embeddings, or a text");
        return;
    }
    require(has_facts && bag->n == facts.n && bag->width == facts.width && bag->n > 0,
            "the numbers that were looked at");
    for (int64_t i = 0; i < bag->n * bag->width; i++)
        require(isfinite(bag->values[i]), "finite numbers");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (path[0] == '\0') {
        require(mkdtemp(folder) != NULL && atexit(remove_file) == 0, "a temporary folder");
        snprintf(path, sizeof path, "%s/x.h5", folder);
    }
    make_file((struct input){ data, data + size });
    read_as_patches();
    read_as_bag();
    return 0;
}
