/* Tissue by a network, in a tile job: the mask equals what plain arithmetic on the slide's pixels
 * gives, for maps and for whole images, and what cannot be used is refused in words. */
#include "engine/tile_worker/tile_worker.h"

#include "base/directory.h"
#include "base/hash.h"
#include "engine/onnx/onnx.h"
#include "schema/record/tile_plan.h"
#include "tests/unit/settings.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 64 };

static char slide_path[128], model_path[128], job_path[128], spec_path[128];
static char model_hash[HRF_HASH_HEX];
static int64_t min_patches;
static const double mean[3] = { 0.5, 0.25, 0.125 }, std[3] = { 0.5, 1, 0.25 };
/* Of the class that is tissue: its number is the sum of weights times normalised R, G, B, plus
 * the bias; that of every other class is 0. */
static const double weights[3] = { 1.5, -2.25, 0.75 };
static const double bias = -0.7;

struct form {
    int64_t n_classes, class; /* class: as in the spec */
    bool whole;               /* one number for an image instead of a map */
    int pool;                 /* the map has a pixel for so many px of the image, squared */
    bool raw;                 /* without a Sigmoid or Softmax at its end */
};

/* ---- a slide ---- */

static void slide_pixel(const void *context, int level, uint32_t x, uint32_t y,
                        unsigned char rgba[4])
{
    (void)context;
    for (int c = 0; c < 3; c++) /* patches of about 40 px, with grain */
        rgba[c] = (unsigned char)(pyramid_noise(7, x / 41, y / 37, c) / 2 +
                                  pyramid_noise(level, x, y, c) / 3 + 30);
}

static void write_slide(uint32_t width, uint32_t height)
{
    const struct pyramid pyramid = { .n_levels = 1,
                                     .level = { { width, height } },
                                     .pixel = slide_pixel,
                                     .x_resolution = 20000, /* per cm: 0.5 um */
                                     .y_resolution = 20000,
                                     .resolution_unit = 3 };
    pyramid_path(test_folder, "slide.tif", slide_path);
    pyramid_write(&pyramid, slide_path);
}

/* ---- a model ---- */

static int32_t add_value(struct hrf_graph *g, const char *name, const struct hrf_shape *shape,
                         const float *data)
{
    int32_t value;
    assert_int_equal(hrf_graph_add_value(g, name, HRF_F32, shape, data, &value, NULL), HRF_OK);
    return value;
}

static int32_t add_node(struct hrf_graph *g, enum hrf_op op, const int32_t *inputs, int n,
                        const struct hrf_attributes *attributes)
{
    static const struct hrf_shape open = { .rank = -1 };
    char name[32];
    snprintf(name, sizeof name, "v%d", (int)g->n_values);
    const int32_t out = add_value(g, name, &open, NULL);
    assert_int_equal(hrf_graph_add_node(g, op, name, inputs, n, &out, 1, attributes, NULL), HRF_OK);
    return out;
}

static void write_model(const struct form *form)
{
    const int64_t n = form->n_classes, class = form->class < 0 ? n - 1 : form->class;
    const struct hrf_shape image = { 4, { 1, 3, SIDE, SIDE } }, kernel = { 4, { n, 3, 1, 1 } },
                           vector = { 1, { n } };
    float w[3 * 4] = { 0 }, b[4] = { 0 };
    struct hrf_attributes plain = hrf_attributes_default(), pool = plain, flatten = plain;
    HRF_AUTO(hrf_graph) g = NULL;
    for (int c = 0; c < 3; c++)
        w[class * 3 + c] = (float)weights[c];
    b[class] = (float)bias;
    pool.window.kernel[0] = pool.window.kernel[1] = pool.window.stride[0] = pool.window.stride[1] =
        form->pool;
    flatten.axis = 1;
    assert_int_equal(hrf_graph_create("tissue", &g, NULL), HRF_OK);
    const int32_t x = add_value(g, "x", &image, NULL);
    int32_t y = x;
    if (form->whole)
        y = add_node(g, HRF_OP_GLOBAL_AVERAGE_POOL, &y, 1, &plain);
    else if (form->pool > 1)
        y = add_node(g, HRF_OP_AVERAGE_POOL, &y, 1, &pool);
    const int32_t of_conv[] = { y, add_value(g, "w", &kernel, w), add_value(g, "b", &vector, b) };
    y = add_node(g, HRF_OP_CONV, of_conv, 3, &plain);
    if (form->whole)
        y = add_node(g, HRF_OP_FLATTEN, &y, 1, &flatten);
    if (!form->raw)
        y = add_node(g, n > 1 ? HRF_OP_SOFTMAX : HRF_OP_SIGMOID, &y, 1, &flatten);
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
    assert_int_equal(hrf_onnx_write(g, model_path, NULL), HRF_OK);
    assert_int_equal(hrf_hash_file(model_path, model_hash, NULL), HRF_OK);
}

/* ---- a job ---- */

struct network {
    const char *model, *sha256;
    double mpp, threshold;
    int64_t size, class;
};

static struct network settings(int64_t class, double threshold)
{
    return (struct network){ .model = model_path,
                             .sha256 = model_hash,
                             .mpp = 0.5,
                             .threshold = threshold,
                             .class = class };
}

static void set_network(const struct network *network, struct hrf_workflow_tissue *out)
{
    out->method = HRF_TISSUE_ONNX;
    set_text(&out->model, network->model);
    out->mpp = network->mpp;
    out->threshold = network->threshold;
    out->size = network->size;
    out->class = network->class;
    memcpy(out->mean, mean, sizeof mean);
    memcpy(out->std, std, sizeof std);
}

static int run_job(const struct network *network, struct hrf_error *err)
{
    static char word[] = "j", id[] = "t1";
    struct hrf_job_task task = { .id = id, .slide_name = id, .slide_path = slide_path };
    HRF_AUTO(hrf_workflow) set = default_settings();
    HRF_AUTO_FREE char *sha256 = hrf_strdup(network->sha256);
    const struct hrf_job_spec spec = { .run_id = word,
                                       .job_id = word,
                                       .attempt = 1,
                                       .kind = HRF_JOB_TILE,
                                       .tissue_sha256 = sha256,
                                       .n_threads = 1,
                                       .tasks = &task,
                                       .n_tasks = 1 };
    set->tiler.patch.size = set->tiler.patch.stride = 32;
    set->tiler.tissue.min_patches = min_patches;
    set_network(network, &set->tiler.tissue);
    pyramid_path(test_folder, "job", job_path);
    pyramid_path(job_path, "spec.json", spec_path);
    assert_int_equal(hrf_path_remove_tree(job_path, NULL), HRF_OK);
    assert_int_equal(hrf_path_make_directories(job_path, NULL), HRF_OK);
    assert_int_equal(hrf_job_spec_write(&spec, set, spec_path, NULL), HRF_OK);
    return hrf_status_row(hrf_tile_worker_run(spec_path, err))->worker_exit_code;
}

/* What the job's task left: a plan, or the reason why there is none, in `reason`. */
static struct hrf_tile_plan *collect(char reason[512])
{
    struct hrf_task_status status = { .outcome = HRF_TASK_DONE };
    struct hrf_tile_plan *plan = NULL;
    char *record = NULL;
    size_t n_bytes = 0;
    assert_int_equal(hrf_task_collect(job_path, "t1", &status, &record, &n_bytes, NULL), HRF_OK);
    snprintf(reason, 512, "%.511s", status.failure.error.text);
    if (record != NULL)
        assert_int_equal(hrf_tile_plan_decode(record, n_bytes, NULL, "record", &plan, NULL),
                         HRF_OK);
    hrf_free(record);
    hrf_task_status_release(&status);
    return plan;
}

/* ---- the reference ---- */

/* The number that the network gives for the mean colour of the n x n px from (x0, y0) on; what lies
 * beyond the slide is white. */
static double number_of(int64_t x0, int64_t y0, int64_t n, int64_t width, int64_t height)
{
    double sum = bias;
    for (int c = 0; c < 3; c++) {
        double colour = 0;
        for (int64_t y = y0; y < y0 + n; y++)
            for (int64_t x = x0; x < x0 + n; x++) {
                unsigned char rgba[4] = { 255, 255, 255, 255 };
                if (x < width && y < height)
                    slide_pixel(NULL, 0, (uint32_t)x, (uint32_t)y, rgba);
                colour += rgba[c];
            }
        sum += weights[c] * (colour / (double)(n * n) / 255 - mean[c]) / std[c];
    }
    return sum;
}

/* probability[height][width]: pooled pixels, or those of a whole image, share their number. */
static void fill_reference(const struct form *form, int64_t width, int64_t height,
                           double *probability)
{
    const int64_t n = form->whole ? SIDE : form->pool;
    const double others = (double)(form->n_classes - 1); /* of number 0 each */
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            if (x % n != 0 || y % n != 0) {
                probability[y * width + x] = probability[y / n * n * width + x / n * n];
                continue;
            }
            const double v = number_of(x, y, n, width, height);
            probability[y * width + x] = form->n_classes == 1 ? 1 / (1 + exp(-v))
                                                              : exp(v) / (exp(v) + others);
        }
}

/* Compares the plan's mask, of k x k px each, with the reference, but for the few pixels on which
 * rounding to float could decide. */
static void check_mask(const struct hrf_tile_plan *plan, const struct form *form, double threshold,
                       int64_t width, int64_t height, int64_t k)
{
    png_image png = { .version = PNG_IMAGE_VERSION };
    const int64_t w = width / k, h = height / k;
    int64_t n_tissue = 0, n_close = 0;
    assert_true(
        png_image_begin_read_from_memory(&png, plan->mask_png.data, plan->mask_png.n_bytes));
    assert_true(png.width == w && png.height == h);
    HRF_AUTO_FREE unsigned char *mask = hrf_alloc((size_t)(w * h));
    HRF_AUTO_FREE double *reference = hrf_alloc_array((size_t)(width * height), sizeof *reference);
    assert_non_null(reference);
    fill_reference(form, width, height, reference);
    assert_true(mask != NULL && png_image_finish_read(&png, NULL, mask, 0, NULL));
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++) {
            double p = 0;
            for (int64_t i = 0; i < k * k; i++)
                p += reference[(y * k + i / k) * width + x * k + i % k] / (double)(k * k);
            n_tissue += p >= threshold;
            n_close += fabs(p - threshold) < 1e-5;
            if (fabs(p - threshold) >= 1e-5 && (p >= threshold) != (mask[y * w + x] != 0))
                fail_msg("pixel %d, %d has probability %.6f and is %d", (int)x, (int)y, p,
                         mask[y * w + x]);
        }
    assert_true(n_close < w * h / 1000);
    assert_true(n_tissue > w * h / 10 && n_tissue < w * h * 9 / 10); /* both are there */
    assert_true(fabs(plan->tissue_fraction - (double)n_tissue / (double)(w * h)) < 0.001);
}

static void check_job(const struct form *form, double threshold, int64_t width, int64_t height,
                      int64_t k)
{
    struct hrf_error err = { .status = HRF_OK };
    char reason[512];
    write_model(form);
    const struct network tissue = settings(form->class, threshold);
    if (run_job(&tissue, &err) != 0)
        fail_msg("%s", err.text);
    HRF_AUTO(hrf_tile_plan) plan = collect(reason);
    if (plan == NULL)
        fail_msg("%s", reason);
    assert_string_equal(plan->tissue_method, "onnx");
    assert_float_equal(plan->tissue_threshold, threshold, 0);
    assert_true(plan->n_patches > 0);
    check_mask(plan, form, threshold, width, height, k);
}

/* ---- tests ---- */

static void the_mask_is_what_plain_arithmetic_gives(void **state)
{
    (void)state;
    static const struct form forms[] = {
        { 1, -1, false, 1, false }, { 1, 0, false, 1, true },  { 2, -1, false, 1, true },
        { 3, 1, false, 1, false },  { 1, -1, false, 4, true }, { 1, -1, true, 1, false },
        { 2, 0, true, 1, true },
    };
    write_slide(300, 200); /* the images at the right and lower edge are in part white */
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        check_job(&forms[i], forms[i].n_classes == 3 ? 0.3 : 0.5, 300, 200, 1);
}

static void a_finer_network_is_averaged_over_the_overview(void **state)
{
    (void)state;
    static const struct form map = { 1, -1, false, 1, true };
    write_slide(2048, 100);
    check_job(&map, 0.5, 2048, 100, 2);
}

static void fewer_patches_than_asked_for_are_looked_for_with_half_the_threshold(void **state)
{
    (void)state;
    static const struct form map = { 1, -1, false, 1, true };
    char reason[512];
    write_slide(300, 200);
    write_model(&map);
    struct network tissue = settings(-1, 1);
    min_patches = 16;
    const int code = run_job(&tissue, NULL);
    min_patches = 0;
    assert_int_equal(code, 0);
    HRF_AUTO(hrf_tile_plan) plan = collect(reason);
    assert_float_equal(plan->tissue_threshold, 0.5, 0);
    assert_non_null(strstr(plan->warning, "faint: only 0 patches of tissue (minimum 16)"));
    check_mask(plan, &map, 0.5, 300, 200, 1);
}

static void expect_refusal(const struct network *tissue, const char *expected)
{
    struct hrf_error err = { .status = HRF_OK };
    const int code = run_job(tissue, &err);
    assert_int_equal(code, err.status == HRF_E_EXTERNAL ? 75 : 1);
    if (strstr(err.text, expected) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, expected);
}

static void what_cannot_be_used_is_refused_in_words(void **state)
{
    (void)state;
    static const struct form map = { 2, -1, false, 1, true };
    static const char missing[] = "/nowhere/tissue.onnx";
    char reason[512];
    write_slide(300, 200);
    write_model(&map);
    struct network tissue = settings(2, 0.5);
    expect_refusal(&tissue, "tiler.tissue.class is 2, and the model's output 'v3' is 4x2x64x64: it "
                            "has the classes 0 to 1");
    tissue = settings(-1, 0.5);
    tissue.sha256 = missing;
    expect_refusal(&tissue, "has changed since the run planned with it");
    tissue = settings(-1, 0.5);
    tissue.model = missing;
    expect_refusal(&tissue, "'/nowhere/tissue.onnx'");
    tissue = settings(-1, 0.5); /* the slide's, not the job's */
    tissue.mpp = 0.25;
    assert_int_equal(run_job(&tissue, NULL), 0);
    assert_null(collect(reason));
    assert_non_null(strstr(reason, "tiler.tissue.mpp 0.25 is finer than the slide's 0.5 um/px"));
    tissue = settings(-1, 0.5);
    int64_t side = 0;
    HRF_AUTO(hrf_workflow) set = default_settings();
    set_network(&tissue, &set->tiler.tissue);
    assert_int_equal(hrf_tile_worker_check_model(&set->tiler.tissue, &side, NULL), HRF_OK);
    assert_int_equal(side, SIDE);
}

static int set_up(void **state)
{
    const int code = make_test_folder(state);
    pyramid_path(test_folder, "tissue.onnx", model_path);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mask_is_what_plain_arithmetic_gives),
        cmocka_unit_test(a_finer_network_is_averaged_over_the_overview),
        cmocka_unit_test(fewer_patches_than_asked_for_are_looked_for_with_half_the_threshold),
        cmocka_unit_test(what_cannot_be_used_is_refused_in_words),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
