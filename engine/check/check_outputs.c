#include "engine/check/check_outputs.h"

#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "engine/run/calibrator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FORMAT = 1, MAX_EACH = 4, CALIBRATED_IMAGES = 4, FEW_IMAGES = 8 };

const struct hrf_pixel_form hrf_check_pixel_form = { { 0.017f, 0.017f, 0.017f }, { -2, -2, -2 } };

/* ---- images ---- */

static uint32_t mix(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    uint32_t h = a * 0x9e3779b1u ^ b * 0x85ebca6bu ^ c * 0xc2b2ae35u ^ d * 0x27d4eb2fu;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    return h ^ h >> 12;
}

/* A colour of the image, squares of its own width, and a little noise. */
void hrf_check_pixels(int64_t batch, int64_t size, uint8_t *out)
{
    for (uint32_t n = 0; n < (uint32_t)batch; n++) {
        const uint32_t width = 4u << n % 5;
        for (uint32_t y = 0; y < (uint32_t)size; y++)
            for (uint32_t x = 0; x < (uint32_t)size; x++)
                for (uint32_t c = 0; c < 3; c++) {
                    const uint32_t colour = mix(n, c, 1, 0) % 128;
                    const uint32_t square = mix(n, y / width, x / width, c + 2) % 112;
                    *out++ = (uint8_t)(colour + square + mix(n, y, x, c + 5) % 16);
                }
    }
}

/* ---- the CPU ---- */

static enum hrf_status copy_images(const struct hrf_graph *graph, int64_t n_images,
                                   struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph_of_n = NULL;
    HRF_TRY(hrf_graph_copy(graph, &graph_of_n, err));
    struct hrf_shape shape = graph_of_n->values[graph_of_n->inputs[0]].shape;
    shape.dims[0] = n_images;
    HRF_TRY(hrf_graph_set_input_shape(graph_of_n, 0, &shape, err));
    HRF_TRY(hrf_graph_infer_shapes(graph_of_n, err));
    HRF_MOVE(*out, graph_of_n);
    return HRF_OK;
}

static enum hrf_status run_cpu(struct hrf_session *session, int64_t batch, int64_t size,
                               struct hrf_error *err)
{
    const int64_t n = batch * size * size * 3;
    HRF_AUTO_FREE uint8_t *pixels = hrf_try_alloc_array((size_t)n, 1);
    HRF_CHECK_MEMORY(pixels != NULL, err, "no memory for the images");
    hrf_check_pixels(batch, size, pixels);
    for (int64_t i = 0; i < n; i++)
        hrf_session_input(session, 0)[i] = (float)pixels[i] * hrf_check_pixel_form.scale[i % 3] +
                                           hrf_check_pixel_form.shift[i % 3];
    return hrf_session_run(session, err);
}

static enum hrf_status check_outputs_observe(const struct hrf_graph *graph, int64_t batch,
                                             int64_t size, struct hrf_observations *seen,
                                             struct hrf_error *err)
{
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = HRF_FP32,
                                               .every_tensor = true };
    struct hrf_calibrator calibrator = { .observations = seen };
    HRF_AUTO(hrf_graph) few = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    HRF_TRY(copy_images(graph, batch, &few, err));
    HRF_TRY(hrf_session_create(few, &config, &session, err));
    hrf_calibrator_watch(session, &calibrator);
    return run_cpu(session, batch, size, err);
}

static void take_ranges(const struct hrf_calibrated *calibrated, struct hrf_made_ranges *made)
{
    for (int32_t i = 0; i < made->n_ranges; i++)
        for (int32_t k = 0; k < calibrated->n_ranges; k++)
            if (strcmp(made->ranges[i].value, calibrated->ranges[k].value) == 0) {
                made->ranges[i].low = calibrated->ranges[k].low;
                made->ranges[i].high = calibrated->ranges[k].high;
            }
}

static enum hrf_status make_ranges(const struct hrf_graph *graph,
                                   const struct hrf_check_network *network,
                                   struct hrf_made_ranges *made, struct hrf_error *err)
{
    const int64_t n = network->batch < CALIBRATED_IMAGES ? network->batch : CALIBRATED_IMAGES;
    HRF_AUTO_RELEASE(hrf_observations) seen = { .items = NULL };
    HRF_AUTO_RELEASE(hrf_calibrated) calibrated = { .ranges = NULL };
    HRF_AUTO(hrf_calibration) calibration = NULL;
    enum hrf_status status = check_outputs_observe(graph, n, network->size, &seen, err);
    if (status == HRF_OK)
        status = hrf_fit_all(&seen, HRF_FIT_MINMAX, &calibration, err);
    if (status == HRF_OK) {
        hrf_calibrated_init(calibration, &calibrated);
        take_ranges(&calibrated, made);
    }
    return status;
}

static void check_outputs_allocate(struct hrf_expected *e, int64_t n_images, int64_t n_all)
{
    e->n_images = n_images;
    e->n_each = n_all < MAX_EACH ? n_all : MAX_EACH;
    e->outputs = hrf_calloc((size_t)(e->n_images * e->n_each) + 1, sizeof *e->outputs);
}

static enum hrf_status check_outputs_compute(const struct hrf_graph *graph,
                                             const struct hrf_check_network *network,
                                             struct hrf_expected *e, struct hrf_error *err)
{
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    HRF_AUTO(hrf_session) session = NULL;
    HRF_TRY(make_ranges(graph, network, &e->made, err));
    HRF_TRY(hrf_session_create(graph, &config, &session, err));
    HRF_TRY(run_cpu(session, network->batch, network->size, err));
    const int64_t n_all = hrf_shape_count(hrf_session_output_shape(session, 0)) / network->batch;
    check_outputs_allocate(e, network->batch, n_all);
    for (int64_t i = 0; i < e->n_images * e->n_each; i++)
        e->outputs[i] = hrf_session_output(session, 0)[i / e->n_each * n_all + i % e->n_each];
    return HRF_OK;
}

/* ---- the file ---- */

static const enum hrf_precision emulated[HRF_EMULATED_PRECISIONS] = { HRF_INT8, HRF_BF16 };

static char *path_of(const char *folder, const struct hrf_check_network *network)
{
    return hrf_format("%s/%s-%lldx%lld.json", folder, network->model, (long long)network->size,
                      (long long)network->batch);
}

static enum hrf_status read_numbers(const json_t *file, const char *key, const char *path, size_t n,
                                    const json_t **out, struct hrf_error *err)
{
    json_t *list;
    HRF_TRY(hrf_json_get_array(file, key, path, &list, err));
    if (json_array_size(list) != n)
        return hrf_error_set(err, HRF_E_USER, "%s: '%s' has %zu numbers, not %zu", path, key,
                             json_array_size(list), n);
    *out = list;
    return HRF_OK;
}

static enum hrf_status read_file(const char *path, const struct hrf_check_network *network,
                                 struct hrf_expected *e, struct hrf_error *err)
{
    HRF_AUTO_JSON file = NULL;
    const json_t *ranges = NULL, *outputs = NULL;
    int64_t format, n_each;
    HRF_TRY(hrf_json_read_file(path, &file, err));
    HRF_TRY(hrf_json_get_int(file, "version", path, &format, err));
    HRF_TRY(hrf_json_get_int(file, "outputs_of_each", path, &n_each, err));
    if (format != FORMAT || n_each < 1 || n_each > MAX_EACH)
        return hrf_error_set(err, HRF_E_USER, "%s: of another version of this program", path);
    HRF_TRY(read_numbers(file, "ranges", path, 2 * (size_t)e->made.n_ranges, &ranges, err));
    HRF_TRY(read_numbers(file, "outputs", path, (size_t)(network->batch * n_each), &outputs, err));
    for (int32_t i = 0; i < e->made.n_ranges; i++) {
        e->made.ranges[i].low = (float)json_number_value(json_array_get(ranges, 2 * (size_t)i));
        e->made.ranges[i].high = (float)json_number_value(
            json_array_get(ranges, 2 * (size_t)i + 1));
    }
    check_outputs_allocate(e, network->batch, n_each);
    for (int64_t i = 0; i < e->n_images * e->n_each; i++)
        e->outputs[i] = (float)json_number_value(json_array_get(outputs, (size_t)i));
    for (int k = 0; k < HRF_EMULATED_PRECISIONS; k++) {
        const char *key = hrf_precision_name(emulated[k]);
        if (json_object_get(file, key) == NULL)
            continue;
        HRF_TRY(
            read_numbers(file, key, path, (size_t)(HRF_EMULATED_IMAGES * n_each), &outputs, err));
        e->emulated[k].outputs = hrf_calloc((size_t)(HRF_EMULATED_IMAGES * n_each),
                                            sizeof *e->outputs);
        for (int64_t i = 0; i < HRF_EMULATED_IMAGES * n_each; i++)
            e->emulated[k].outputs[i] = (float)json_number_value(
                json_array_get(outputs, (size_t)i));
    }
    return HRF_OK;
}

static void add_numbers(struct hrf_strbuf *text, const char *key, const float *numbers, int64_t n,
                        int digits)
{
    hrf_strbuf_addf(text, " \"%s\": [", key);
    for (int64_t i = 0; i < n; i++)
        hrf_strbuf_addf(text, "%s%.*g", i > 0 ? "," : "", digits, (double)numbers[i]);
    hrf_strbuf_adds(text, "]");
}

/* With as few digits as such numbers need, each list on one line. */
enum hrf_status hrf_expected_write(const struct hrf_expected *e,
                                   const struct hrf_check_network *network, const char *folder,
                                   struct hrf_error *err)
{
    enum { RANGE_DIGITS = 3, OUTPUT_DIGITS = 6 };
    const int64_t n_ranges = 2 * (int64_t)e->made.n_ranges;
    HRF_AUTO_FREE char *path = path_of(folder, network);
    HRF_AUTO_FREE float *ranges = hrf_try_alloc_array((size_t)n_ranges + 1, sizeof *ranges);
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    HRF_CHECK_MEMORY(ranges != NULL, err, "no memory for the outputs");
    for (int32_t i = 0; i < e->made.n_ranges; i++) {
        ranges[2 * i] = e->made.ranges[i].low;
        ranges[2 * i + 1] = e->made.ranges[i].high;
    }
    hrf_strbuf_addf(&text, "{\"version\": %d, \"outputs_of_each\": %d,\n", (int)FORMAT,
                    (int)e->n_each);
    add_numbers(&text, "ranges", ranges, n_ranges, RANGE_DIGITS);
    hrf_strbuf_adds(&text, ",\n");
    add_numbers(&text, "outputs", e->outputs, e->n_images * e->n_each, OUTPUT_DIGITS);
    for (int k = 0; k < HRF_EMULATED_PRECISIONS; k++)
        if (e->emulated[k].outputs != NULL) {
            hrf_strbuf_adds(&text, ",\n");
            add_numbers(&text, hrf_precision_name(emulated[k]), e->emulated[k].outputs,
                        HRF_EMULATED_IMAGES * e->n_each, OUTPUT_DIGITS);
        }
    hrf_strbuf_adds(&text, "}\n");
    return hrf_file_write_atomic(path, text.text, strlen(text.text), err);
}

/* Whether images are told apart by so little that 8 or 16 bits hide it. */
static bool tells_little(const struct hrf_check_network *network)
{
    return strcmp(network->model, "resnet101") == 0 ||
           strcmp(network->model, "resnet-v2-101-hires") == 0;
}

enum hrf_status hrf_expected_init(const struct hrf_graph *graph,
                                  const struct hrf_check_network *network, const char *folder,
                                  bool by_cpu, struct hrf_expected *out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = folder != NULL ? path_of(folder, network) : NULL;
    *out = (struct hrf_expected){ .tells_little = tells_little(network) };
    for (int k = 0; k < HRF_EMULATED_PRECISIONS; k++)
        out->emulated[k].precision = emulated[k];
    HRF_TRY(hrf_made_ranges_init(graph, &out->made, err));
    if (by_cpu)
        return check_outputs_compute(graph, network, out, err);
    if (path == NULL || !hrf_path_exists(path))
        return HRF_OK;
    return read_file(path, network, out, err);
}

void hrf_expected_release(struct hrf_expected *expected)
{
    hrf_made_ranges_release(&expected->made);
    hrf_free(expected->outputs);
    expected->outputs = NULL;
    for (int k = 0; k < HRF_EMULATED_PRECISIONS; k++) {
        hrf_free(expected->emulated[k].outputs);
        expected->emulated[k].outputs = NULL;
    }
}

/* ---- comparing ---- */

/* Output k of image i without what all images have of it. */
static double centred(const float *all, int64_t n_images, int64_t stride, int64_t i, int64_t k)
{
    double mean = 0;
    for (int64_t n = 0; n < n_images; n++)
        mean += (double)all[n * stride + k] / (double)n_images;
    return (double)all[i * stride + k] - mean;
}

static struct hrf_likeness compare_with(const float *wanted, int64_t n_images, int64_t n_each,
                                        const float *outputs, int64_t n_all)
{
    double largest = 0, difference = 0, ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n_images; i++)
        for (int64_t k = 0; k < n_each; k++) {
            const double want = (double)wanted[i * n_each + k];
            const double got = (double)outputs[i * n_all + k];
            const double a = centred(wanted, n_images, n_each, i, k);
            const double b = centred(outputs, n_images, n_all, i, k);
            largest = fmax(largest, fabs(want));
            difference = isfinite(got) ? fmax(difference, fabs(got - want)) : INFINITY;
            ab += a * b;
            aa += a * a;
            bb += b * b;
        }
    return (struct hrf_likeness){ .difference = largest > 0 ? difference / largest : difference,
                                  .cosine = n_images < FEW_IMAGES ? NAN : ab / sqrt(aa * bb) };
}

struct hrf_likeness hrf_expected_compare(const struct hrf_expected *e, enum hrf_precision precision,
                                         const float *outputs, int64_t n_all)
{
    for (int k = 0; k < HRF_EMULATED_PRECISIONS; k++)
        if (e->emulated[k].precision == precision && e->emulated[k].outputs != NULL &&
            e->n_images >= HRF_EMULATED_IMAGES) {
            struct hrf_likeness found = compare_with(e->emulated[k].outputs, HRF_EMULATED_IMAGES,
                                                     e->n_each, outputs, n_all);
            found.by_emulation = true;
            return found;
        }
    struct hrf_likeness found = compare_with(e->outputs, e->n_images, e->n_each, outputs, n_all);
    found.is_rough = e->tells_little;
    return found;
}

bool hrf_likeness_is_good(const struct hrf_likeness *likeness, enum hrf_precision precision)
{
    /* Rough: of `resnet101`, whose weights are random and which tells images apart by little, the
     * emulated GPU has a cosine of 0.996 in bf16 and, with signed numbers only, 0.90 in int8 at 64
     * px with the CPU's float32. */
    static const double cosine = 0.999;
    static const struct {
        enum hrf_precision precision;
        double difference, rough_cosine;
    } limits[] = { { HRF_FP32, 1e-5, 0.999 },
                   { HRF_TF32, 0.02, 0.999 },
                   { HRF_FP16, 0.02, 0.999 },
                   { HRF_BF16, 0.05, 0.98 },
                   { HRF_INT8, 0.2, 0.85 } };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].precision == precision)
            return likeness->difference <= limits[i].difference &&
                   (isnan(likeness->cosine) ||
                    likeness->cosine >= (likeness->is_rough ? limits[i].rough_cosine : cosine));
    return false;
}

/* ---- the emulated GPU ---- */

bool hrf_expected_wants_emulation(const struct hrf_check_network *network)
{
    bool is_told = false;
    for (int k = 0; k < HRF_EMULATED_PRECISIONS; k++)
        is_told |= network->precision == emulated[k];
    return is_told && tells_little(network);
}

/* Image after image, through a network of one: each as the device has it in any batch. */
static enum hrf_status run_emulated(const struct hrf_check *check,
                                    const struct hrf_check_network *network,
                                    const struct hrf_expected *e, float *outputs,
                                    struct hrf_error *err)
{
    const int64_t n_pixels = network->size * network->size * 3;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    HRF_AUTO_FREE uint8_t *pixels = hrf_try_alloc_array(HRF_EMULATED_IMAGES, (size_t)n_pixels);
    HRF_AUTO_FREE uint8_t *image = hrf_alloc_aligned((size_t)n_pixels, HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(pixels != NULL && image != NULL, err, "no memory for the images");
    hrf_check_pixels(HRF_EMULATED_IMAGES, network->size, pixels);
    const struct hrf_session_config config = { .device = check->device,
                                               .precision = network->precision,
                                               .ranges = e->made.ranges,
                                               .n_ranges = e->made.n_ranges,
                                               .pixels = &hrf_check_pixel_form };
    HRF_TRY(hrf_check_graph(check->networks, network->model, network->size, 1, &graph, err));
    HRF_TRY(hrf_session_create(graph, &config, &session, err));
    for (int64_t i = 0; i < HRF_EMULATED_IMAGES; i++) {
        memcpy(image, pixels + i * n_pixels, (size_t)n_pixels);
        hrf_session_feed(session, image);
        HRF_TRY(hrf_session_run(session, err));
        memcpy(outputs + i * e->n_each, hrf_session_output(session, 0),
               (size_t)e->n_each * sizeof *outputs);
    }
    return HRF_OK;
}

enum hrf_status hrf_expected_emulate(const struct hrf_check *check,
                                     const struct hrf_check_network *network, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_expected e;
    HRF_TRY(hrf_check_graph(check->networks, network->model, network->size, network->batch, &graph,
                            err));
    enum hrf_status status = hrf_expected_init(graph, network, check->outputs, false, &e, err);
    for (int k = 0; k < HRF_EMULATED_PRECISIONS && status == HRF_OK; k++) {
        if (emulated[k] != network->precision || e.emulated[k].outputs != NULL || e.outputs == NULL)
            continue;
        e.emulated[k].outputs = hrf_calloc((size_t)(HRF_EMULATED_IMAGES * e.n_each),
                                           sizeof *e.outputs);
        status = run_emulated(check, network, &e, e.emulated[k].outputs, err);
        if (status == HRF_OK)
            status = hrf_expected_write(&e, network, check->outputs, err);
    }
    hrf_expected_release(&e);
    return status;
}
