/* slide_images.c - see slide_images.h. */
#include "training/cutting/slide_images.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "engine/input/plan_readers.h"
#include "image/png_write.h"
#include "tiler/plan/tile.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- one slide ---- */

struct image {
    const struct hrf_train_recipe *recipe;
    const struct hrf_workflow_tiler *tiler;
    const char *version;
    const char *name, *slide; /* the slide's name and path, borrowed */
    char *path;               /* of its picture */
    char key[HRF_HASH_HEX];
    char *warning; /* of the tiler */
    struct hrf_error error;
    bool is_left_out; /* for the reason in `error` */
};

static void image_release(struct image *image)
{
    hrf_free(image->path);
    hrf_free(image->warning);
}

/* What the picture's pixels depend on. */
static enum hrf_status make_key(struct image *image, struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) settings = HRF_STRBUF_INIT;
    char of_slide[HRF_HASH_HEX];
    HRF_TRY(hrf_slide_content(image->slide, HRF_CONTENT_SPREAD, of_slide, err));
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_train_recipe_describe(image->recipe, HRF_FOR_IMAGES, &settings);
    hrf_hash_text(hash, of_slide);
    hrf_hash_text(hash, settings.text);
    hrf_hash_text(hash, image->version);
    hrf_hash_hex(hash, image->key);
    return HRF_OK;
}

/* True if the picture is there and was made of the same. */
static bool is_there(const struct image *image, const char *key_path)
{
    HRF_AUTO_FREE char *key = NULL;
    size_t n = 0;
    return hrf_file_read(key_path, 2 * HRF_HASH_HEX, &key, &n, NULL) == HRF_OK &&
           n == HRF_HASH_HEX - 1 && memcmp(key, image->key, n) == 0 && hrf_path_exists(image->path);
}

/* The slide's pixels: rgb[size][size][3]. */
static enum hrf_status read_frame(struct image *image, unsigned char *rgb, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO(hrf_level_check) check = NULL;
    HRF_TRY(
        hrf_tile_slide(image->slide, image->tiler, 0, image->recipe->slide_mpp, NULL, &plan, err));
    if (plan->n_patches == 0)
        return hrf_error_set(err, HRF_E_USER, "no tissue was found on it");
    if (plan->warning != NULL)
        image->warning = hrf_strdup(plan->warning);
    HRF_TRY(hrf_slide_open(image->slide, &slide, err));
    HRF_TRY(hrf_plan_readers_create(slide, plan, &reader, &check, err));
    const struct hrf_patch *at = &plan->patches[0];
    HRF_TRY(hrf_patch_reader_read(reader, at->x, at->y, rgb, NULL, NULL, err));
    return hrf_level_check_rows(check, at->x, at->y, 0, plan->patch_size, rgb, err);
}

static enum hrf_status make_image(struct image *image, struct hrf_error *err)
{
    const int64_t side = image->recipe->image_size;
    HRF_AUTO_FREE char *key_path = hrf_format("%s.key", image->path);
    HRF_AUTO_FREE unsigned char *rgb = NULL, *png = NULL;
    size_t n_bytes = 0;
    enum hrf_status status = make_key(image, err);
    if (status == HRF_OK && is_there(image, key_path))
        return HRF_OK;
    rgb = hrf_try_alloc_array((size_t)side, (size_t)side * 3);
    HRF_CHECK_MEMORY(rgb != NULL, err, "no memory for an image of %lld px", (long long)side);
    if (status == HRF_OK)
        status = read_frame(image, rgb, err);
    /* Others, such as a disk that does not answer, are no property of the slide. */
    image->is_left_out = status == HRF_E_USER || status == HRF_E_UNSUPPORTED;
    HRF_TRY(status);
    (void)unlink(key_path); /* a picture that is half done has none */
    HRF_TRY(hrf_png_write(rgb, side, side, 3, HRF_PNG_PHOTO, &png, &n_bytes, err));
    HRF_TRY(hrf_file_write_atomic(image->path, png, n_bytes, err));
    return hrf_file_write_atomic(key_path, image->key, HRF_HASH_HEX - 1, err);
}

/* ---- all slides ---- */

static enum hrf_status make_frames(const struct hrf_train_recipe *r, struct hrf_workflow **out,
                                   struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO_FREE char *size = hrf_format("tiler.slide.size=%lld", (long long)r->image_size);
    HRF_AUTO_FREE char *mpp = hrf_format("tiler.slide.mpp=%.17g", r->image_mpp);
    const char *const overrides[] = { "tiler.mode=slide", size, mpp };
    return hrf_workflow_parse_tiler(overrides, 3, out, findings, err);
}

/* So many at a time that their pixels and their pictures take at most 2 GiB, or one. */
static int most_at_a_time(int64_t side)
{
    const int64_t most = INT64_C(2) << 30, n = most / (2 * 3 * side * side);
    const int n_threads = omp_get_max_threads();
    return n < 1 ? 1 : n < n_threads ? (int)n : n_threads;
}

/* Takes over what has come of the images; the first that is no property of a slide ends all. */
static enum hrf_status take_all(struct image *images, struct hrf_sample_list *list,
                                struct hrf_left_outs *left_out, struct hrf_error *err)
{
    const size_t n = list->set.n_items;
    HRF_AUTO_FREE bool *is_kept = hrf_calloc(n + 1, sizeof *is_kept);
    for (size_t i = 0; i < n; i++) {
        struct image *image = &images[i];
        struct hrf_sample *sample = &list->items[i];
        if (image->error.status != HRF_OK && !image->is_left_out)
            return hrf_error_pass(err, &image->error);
        if (image->warning != NULL)
            fprintf(stderr, "%s: %s\n", sample->name, image->warning);
        is_kept[i] = !image->is_left_out;
        if (image->is_left_out) {
            hrf_left_outs_add(left_out, sample->name, image->error.text);
            continue;
        }
        hrf_free(sample->path);
        HRF_MOVE(sample->path, image->path);
        memcpy(sample->sha256, image->key, sizeof sample->sha256);
    }
    hrf_sample_list_keep(list, is_kept);
    return list->set.n_items > 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER, "none of %zu slides of '%s' can be used",
                               left_out->n_items, list->set.labels);
}

enum hrf_status hrf_slide_images_make(const struct hrf_train_recipe *recipe, const char *version,
                                      struct hrf_sample_list *list, struct hrf_left_outs *left_out,
                                      struct hrf_findings *findings, struct hrf_error *err)
{
    const size_t n = list->set.n_items;
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_FREE char *folder = hrf_path_join(recipe->out, "images");
    HRF_TRY(make_frames(recipe, &workflow, findings, err));
    HRF_TRY(hrf_path_make_directories(folder, err));
    HRF_AUTO_FREE struct image *images = hrf_calloc(n + 1, sizeof *images);
    for (size_t i = 0; i < n; i++) {
        HRF_AUTO_FREE char *file = hrf_format("%s.png", hrf_path_name(list->items[i].path));
        images[i] = (struct image){ .recipe = recipe,
                                    .tiler = &workflow->tiler,
                                    .version = version,
                                    .name = list->items[i].name,
                                    .slide = list->items[i].path,
                                    .path = hrf_path_join(folder, file) };
    }
#pragma omp parallel for schedule(dynamic) num_threads(most_at_a_time(recipe->image_size))
    for (size_t i = 0; i < n; i++)
        images[i].error.status = make_image(&images[i], &images[i].error);
    const enum hrf_status status = take_all(images, list, left_out, err);
    for (size_t i = 0; i < n; i++)
        image_release(&images[i]);
    return status;
}
