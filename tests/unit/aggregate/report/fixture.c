#include "tests/unit/aggregate/report/fixture.h"

#include "aggregate/report/image.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "tests/unit/must.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 320, HEIGHT = 224, DOWNSAMPLE = 64, PATCH = 512, MAX_PATCHES = 1200, N_BLOBS = 4 };

/* A slide's tissue: ellipses; its lesion, if any: a spot of high probability. */
struct scene {
    double x[N_BLOBS], y[N_BLOBS], a[N_BLOBS], b[N_BLOBS];
    double lesion_x, lesion_y, lesion_r; /* thumbnail px; r 0 = none */
};

static struct scene scene_of(size_t slide, bool lesion)
{
    struct hrf_random random = hrf_random_init(1000 + slide);
    struct scene s = { .lesion_r = lesion ? 15.0 + 25.0 * hrf_random_unit(&random) : 0.0 };
    for (size_t i = 0; i < N_BLOBS; i++) {
        s.x[i] = WIDTH * (0.25 + 0.5 * hrf_random_unit(&random));
        s.y[i] = HEIGHT * (0.25 + 0.5 * hrf_random_unit(&random));
        s.a[i] = 30.0 + 55.0 * hrf_random_unit(&random);
        s.b[i] = 25.0 + 40.0 * hrf_random_unit(&random);
    }
    s.lesion_x = s.x[0] + 10.0;
    s.lesion_y = s.y[0] - 5.0;
    return s;
}

static bool in_tissue(const struct scene *s, double x, double y)
{
    for (size_t i = 0; i < N_BLOBS; i++) {
        double angle = atan2(y - s->y[i], x - s->x[i]);
        double rim = 1.0 + 0.08 * sin(5.0 * angle + (double)i) + 0.05 * sin(11.0 * angle);
        if (hypot((x - s->x[i]) / s->a[i], (y - s->y[i]) / s->b[i]) < rim)
            return true;
    }
    return false;
}

static void paint(const struct scene *s, struct hrf_image *rgb, struct hrf_image *mask)
{
    struct hrf_random random = hrf_random_init(5);
    for (int32_t y = 0; y < HEIGHT; y++)
        for (int32_t x = 0; x < WIDTH; x++) {
            size_t at = (size_t)y * WIDTH + (size_t)x;
            bool tissue = in_tissue(s, x, y);
            double noise = 14.0 * hrf_random_normal(&random) + 12.0 * sin(x / 9.0) * cos(y / 7.0);
            bool dense = hypot(x - s->lesion_x, y - s->lesion_y) < s->lesion_r;
            double base[3] = { dense ? 150 : 226, dense ? 100 : 160, dense ? 170 : 200 };
            for (int c = 0; c < 3; c++)
                rgb->pixels[at * 3 + (size_t)c] =
                    (unsigned char)(tissue ? fmin(fmax(base[c] + noise, 0.0), 255.0) : 244.0);
            mask->pixels[at] = tissue ? 255 : 0;
        }
}

static void fill_pictures(const struct scene *s, struct hrf_tile_plan *plan)
{
    struct hrf_image rgb = { 0 }, mask = { 0 };
    MUST(hrf_image_create(WIDTH, HEIGHT, 3, &rgb, err));
    MUST(hrf_image_create(WIDTH, HEIGHT, 1, &mask, err));
    paint(s, &rgb, &mask);
    MUST(hrf_image_encode(&rgb, HRF_PNG_PHOTO, &plan->thumbnail_png, err));
    MUST(hrf_image_encode(&mask, HRF_PNG_FLAT, &plan->mask_png, err));
    hrf_image_release(&rgb);
    hrf_image_release(&mask);
}

static void fill_patches(const struct scene *s, struct hrf_tile_plan *plan)
{
    plan->patches = hrf_alloc_array(MAX_PATCHES, sizeof *plan->patches);
    for (int32_t x = 0; x < WIDTH * DOWNSAMPLE; x += PATCH)
        for (int32_t y = 0; y < HEIGHT * DOWNSAMPLE; y += PATCH)
            if (in_tissue(s, (x + PATCH / 2.0) / DOWNSAMPLE, (y + PATCH / 2.0) / DOWNSAMPLE))
                plan->patches[plan->n_patches++] = (struct hrf_patch){ x, y };
    plan->tissue_fraction = (double)plan->n_patches * PATCH * PATCH /
                            ((double)WIDTH * HEIGHT * DOWNSAMPLE * DOWNSAMPLE);
}

static struct hrf_tile_plan *empty_plan(void)
{
    struct hrf_tile_plan *plan = hrf_calloc(1, sizeof *plan);
    assert_non_null(plan);
    plan->width = WIDTH * DOWNSAMPLE;
    plan->height = HEIGHT * DOWNSAMPLE;
    plan->mpp_x = plan->mpp_y = 0.25;
    plan->mpp_source = hrf_strdup("file");
    plan->patch_width0 = plan->patch_height0 = PATCH;
    plan->stride_x0 = plan->stride_y0 = PATCH;
    plan->thumbnail_downsample = DOWNSAMPLE;
    return plan;
}

/* Which slides are what: 0 hostile name, 1 failed, 2 no tissue, 3 excluded, the rest done. */
static bool has_lesion(size_t slide)
{
    return slide % 3 != 1;
}

static enum hrf_status make_plan(void *context, size_t slide, struct hrf_tile_plan **out,
                                 struct hrf_error *err)
{
    (void)context, (void)err;
    *out = empty_plan();
    struct scene scene = { .lesion_r = 0.0 }; /* slide 2: glass */
    if (slide != 2)
        scene = scene_of(slide, has_lesion(slide));
    fill_patches(&scene, *out);
    fill_pictures(&scene, *out);
    return HRF_OK;
}

static struct hrf_scores *empty_scores(int64_t n_patches, const char *precision)
{
    struct hrf_scores *scores = hrf_calloc(1, sizeof *scores);
    assert_non_null(scores);
    scores->precision = hrf_strdup(precision);
    const bool on_gpu = precision[0] == 'i';
    scores->device = hrf_strdup(on_gpu ? "cuda" : "cpu");
    scores->hardware = on_gpu ? (struct hrf_hardware){ "NVIDIA H200", "compute capability 9.0",
                                                       "580.82.07 (CUDA 13.0)",
                                                       "cuDNN 9.19.0, CUDA runtime 13.0" }
                              : (struct hrf_hardware){ "Made <Processor>", "AVX-512 VNNI", "",
                                                       "oneDNN 2.6.3" };
    if (on_gpu)
        snprintf(scores->notes, sizeof scores->notes, "%s",
                 "node 'a<b>' (Gemm) stays in float32\n\xff is no UTF-8\n");
    scores->device_memory_bytes = on_gpu ? 1234567890 : 0;
    scores->gpu_energy_joules = on_gpu ? (double)n_patches * 0.125 : (double)NAN;
    scores->n_patches = n_patches;
    scores->n_classes = 2;
    scores->probabilities = hrf_alloc_array((size_t)n_patches * 2, sizeof(float));
    scores->peak_memory_bytes = precision[0] == 'f' ? 412345678 : 133456789;
    scores->peak_process_bytes = scores->peak_memory_bytes + 60000000;
    scores->energy_joules = precision[0] == 'f' ? (double)n_patches * 0.75 : (double)NAN;
    scores->n_threads = 2;
    scores->n_readers = 1;
    if (precision[0] == 'i') /* by two ranks */
        scores->traffic = (struct hrf_traffics){
            "mpi",
            { { "control", n_patches, 640 * n_patches, 1e-6 * (double)n_patches, 0.25 },
              { "exchange", 34 * n_patches, 1234567 * n_patches, 0.5, 1.5 } },
            2
        };
    double s = (double)n_patches * (precision[0] == 'f' ? 0.0275 : 0.0095);
    scores->timing = (struct hrf_timing){ .build = 0.4,
                                          .decode = 0.2 * s,
                                          .prepare = 0.06 * s,
                                          .compute = 0.9 * s,
                                          .copy = on_gpu ? 0.05 * s : (double)NAN,
                                          .kernels = on_gpu ? 0.7 * s : (double)NAN,
                                          .wait = 0.07 * s,
                                          .write = 0.01 * s,
                                          .total = 0.4 + 0.98 * s,
                                          .reads = 0.5 * (double)n_patches,
                                          .fed = 0.5 * (double)n_patches };
    return scores;
}

static enum hrf_status make_scores(void *context, size_t slide, size_t precision,
                                   struct hrf_scores **out, struct hrf_error *err)
{
    (void)context, (void)err;
    struct hrf_tile_plan *plan = empty_plan();
    struct scene s = scene_of(slide, has_lesion(slide));
    fill_patches(&s, plan);
    struct hrf_scores *scores = empty_scores(plan->n_patches, precision == 0 ? "fp32" : "int8");
    struct hrf_random random = hrf_random_init(77 + slide);
    double strength = 1.0 - 0.9 * pow(hrf_random_unit(&random), 3.0); /* some lesions are faint */
    bool fooled = slide % 7 == 4; /* and some healthy tissue is not seen as such */
    if (fooled && s.lesion_r <= 0.0)
        s.lesion_r = 17.0, strength = 0.7;
    for (int64_t i = 0; i < plan->n_patches; i++) {
        double x = (plan->patches[i].x + PATCH / 2.0) / DOWNSAMPLE;
        double y = (plan->patches[i].y + PATCH / 2.0) / DOWNSAMPLE;
        double r = s.lesion_r > 0 ? hypot(x - s.lesion_x, y - s.lesion_y) / s.lesion_r : 9.0;
        double p = 0.02 + 0.22 * pow(hrf_random_unit(&random), 4.0) +
                   0.75 * strength / (1.0 + pow(r, 6.0));
        if (precision > 0)
            p += 0.02 * sin(12.9898 * (double)i);
        float value = (float)fmin(fmax(p, 0.0), 1.0);
        scores->probabilities[2 * i] = 1.0f - value;
        scores->probabilities[2 * i + 1] = value;
    }
    hrf_tile_plan_destroy(plan);
    *out = scores;
    return HRF_OK;
}

static const struct hrf_named_text provenance[] = {
    { "hires-flow", "0.1.0" },
    { "model", "models/demo.onnx" },
    { "model sha256", "5b3f0c5e1d7a44bb3d8f6d7f8e1c9a0b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f" },
    { "patches", "256 px at 0.5 µm/px, stride 256" },
    { "tissue", "otsu, at least 0.5 of a patch" },
};

static struct hrf_cohort *make_cohort(size_t n_slides, size_t n_precisions, const char *name)
{
    static const char *const classes[] = { "normal", "tumor" };
    static const char *const precisions[] = { "fp32", "int8" };
    const struct hrf_aggregate_params params = {
        .name = name,
        .classes = classes,
        .n_classes = 2,
        .positive = 1,
        .precisions = precisions,
        .n_precisions = n_precisions,
        .rule = { .kind = HRF_SLIDE_RULE_MAX_SMOOTHED },
        .threshold = 0.5,
        .seed = 1,
        .calibration = { .reason = "no precision of this run needs one" },
        .provenance = provenance,
        .n_provenance = sizeof provenance / sizeof provenance[0],
    };
    struct hrf_cohort *cohort = NULL;
    MUST(hrf_cohort_create(&params, n_slides, &cohort, err));
    static const struct hrf_phase_row phases[] = {
        { "ingest", 0.21, false, 1, 0 },     { "tile", 4.3, false, 12, 0 },
        { "calibrate", 0.0, true, 1, 1 },    { "infer", 71.5, false, 24, 0 },
        { "aggregate", 0.05, false, 24, 0 },
    };
    cohort->phases = hrf_alloc(sizeof phases);
    memcpy(cohort->phases, phases, sizeof phases);
    cohort->n_phases = sizeof phases / sizeof phases[0];
    return cohort;
}

static void name_slide(struct hrf_cohort_slide *slide, size_t i, const char *name)
{
    slide->id = (int64_t)i + 1;
    slide->name = hrf_strdup(name);
    slide->path = hrf_format("/data/%s.tif", name);
    slide->file_name = hrf_text_file_name(name);
    assert_non_null(slide->file_name);
}

static void copy_plan(struct hrf_cohort_slide *slide, const struct hrf_tile_plan *plan)
{
    slide->width = plan->width;
    slide->height = plan->height;
    slide->mpp = plan->mpp_x;
    slide->n_patches = plan->n_patches;
    slide->tissue_fraction = plan->tissue_fraction;
}

static void score_slide(const struct fixture *fixture, size_t i)
{
    struct hrf_cohort *cohort = fixture->cohort;
    const struct hrf_report_source *source = &fixture->source;
    struct hrf_tile_plan *plan = NULL;
    struct hrf_scores *scores[2] = { NULL, NULL };
    MUST(source->tile_plan(source->context, i, &plan, err));
    copy_plan(&cohort->slides[i], plan);
    for (size_t p = 0; p < cohort->n_precisions; p++) {
        struct hrf_cohort_score *score = &cohort->slides[i].scores[p];
        if (plan->n_patches == 0)
            continue;
        score->known = true;
        MUST(source->scores(source->context, i, p, &scores[p], err));
        hrf_cohort_add_scores(&cohort->precisions[p], scores[p]);
        MUST(hrf_cohort_add_difference(cohort, p, i, plan, scores[p], scores[0], err));
        MUST(hrf_slide_score_compute(plan, scores[p]->probabilities + 1, 2, &cohort->rule,
                                     &score->value, err));
        score->positive = score->value >= cohort->threshold;
    }
    hrf_scores_destroy(scores[0]);
    hrf_scores_destroy(scores[1]);
    hrf_tile_plan_destroy(plan);
}

static void make_directory(struct fixture *fixture)
{
    const char *keep = getenv("HRF_KEEP_FIXTURE"); /* to look at what was rendered */
    if (keep != NULL) {
        fixture->directory = hrf_strdup(keep);
        MUST(hrf_path_make_directories(keep, err));
        return;
    }
    char name[] = "/tmp/hrf-report-XXXXXX";
    assert_non_null(mkdtemp(name));
    fixture->directory = hrf_strdup(name);
}

static void annotate(struct fixture *fixture, size_t i)
{
    struct scene s = scene_of(i, true);
    struct hrf_strbuf xml = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&xml, "<ASAP_Annotations><Annotations><Annotation Name='a' Type='Polygon' "
                          "PartOfGroup='Tumor'><Coordinates>");
    for (int k = 0; k < 40; k++) {
        double angle = k * 6.2831853 / 40.0, r = s.lesion_r * (1.0 + 0.15 * sin(3.0 * angle));
        hrf_strbuf_addf(&xml, "<Coordinate Order='%d' X='%.1f' Y='%.1f'/>", k,
                        (s.lesion_x + r * cos(angle)) * DOWNSAMPLE,
                        (s.lesion_y + r * sin(angle)) * DOWNSAMPLE);
    }
    hrf_strbuf_adds(&xml, "</Coordinates></Annotation></Annotations></ASAP_Annotations>");
    fixture->cohort->slides[i].annotation = hrf_path_join(fixture->directory, "lesion.xml");
    MUST(hrf_file_write_atomic(fixture->cohort->slides[i].annotation, xml.text, xml.length, err));
    hrf_strbuf_release(&xml);
}

static void set_states(struct hrf_cohort *cohort, bool labelled)
{
    for (size_t i = 0; i < cohort->n_slides; i++) {
        struct hrf_cohort_slide *slide = &cohort->slides[i];
        HRF_AUTO_FREE char *name = hrf_format("test_%03zu", i);
        name_slide(slide, i, i == 0 ? FIXTURE_HOSTILE : name);
        slide->state = i == 1   ? HRF_SLIDE_FAILED
                       : i == 2 ? HRF_SLIDE_NO_TISSUE
                       : i == 3 ? HRF_SLIDE_EXCLUDED
                                : HRF_SLIDE_DONE;
        if (labelled && i != 3)
            slide->truth = i != 1 && i != 2 && has_lesion(i) ? HRF_TRUTH_POSITIVE
                                                             : HRF_TRUTH_NEGATIVE;
    }
    cohort->slides[1].reason = hrf_strdup("cannot read level 0 at 4096,8192: JPEG <damaged> data");
    cohort->slides[2].reason = hrf_strdup("no tissue found by otsu (threshold 12)");
    cohort->slides[3].reason = hrf_strdup("named in dataset.exclude");
    cohort->slides[4].warning = hrf_strdup("only 9 patches of tissue (minimum 16)");
}

void fixture_init(struct fixture *fixture, size_t n_slides, size_t n_precisions, bool labelled)
{
    *fixture = (struct fixture){ .source = { NULL, make_plan, make_scores } };
    fixture->cohort = make_cohort(n_slides, n_precisions, "camelyon16 <precision> & \"quotes\"");
    make_directory(fixture);
    set_states(fixture->cohort, labelled);
    for (size_t i = 0; i < n_slides; i++)
        if (fixture->cohort->slides[i].state == HRF_SLIDE_DONE ||
            fixture->cohort->slides[i].state == HRF_SLIDE_NO_TISSUE)
            score_slide(fixture, i);
    annotate(fixture, 5);
    MUST(hrf_cohort_finish(fixture->cohort, err));
}

/* ---- the small one ---- */

static enum hrf_status small_plan(void *context, size_t slide, struct hrf_tile_plan **out,
                                  struct hrf_error *err)
{
    (void)context, (void)err;
    struct hrf_tile_plan *plan = *out = empty_plan();
    if (slide > 1)
        return HRF_OK;
    plan->patches = hrf_alloc_array(4, sizeof *plan->patches);
    for (int32_t i = 0; i < 4; i++)
        plan->patches[i] = (struct hrf_patch){ 512 * (i / 2), 1024 + 512 * (i % 2) };
    plan->n_patches = 4;
    plan->tissue_fraction = 0.25;
    return HRF_OK;
}

static enum hrf_status small_scores(void *context, size_t slide, size_t precision,
                                    struct hrf_scores **out, struct hrf_error *err)
{
    (void)context, (void)err;
    static const float tumor[2][4] = { { 0.9f, 1.0f, 0.0891714394f, 0.5f },
                                       { 3.4273725e-12f, 0.0001f, 0.25f, 1e-5f } };
    struct hrf_scores *scores = *out = empty_scores(4, precision == 0 ? "fp32" : "int8");
    for (size_t i = 0; i < 4; i++) {
        float p = tumor[slide][i] + (precision > 0 && i == 3 ? 0.0625f : 0.0f);
        scores->probabilities[2 * i] = 1.0f - p;
        scores->probabilities[2 * i + 1] = p;
    }
    return HRF_OK;
}

void fixture_init_small(struct fixture *fixture)
{
    static const char *const names[] = { "tumor, one", "normal_\xc3\xa4", "empty", "broken" };
    *fixture = (struct fixture){ .source = { NULL, small_plan, small_scores } };
    fixture->cohort = make_cohort(4, 2, "small");
    make_directory(fixture);
    for (size_t i = 0; i < 4; i++) {
        struct hrf_cohort_slide *slide = &fixture->cohort->slides[i];
        name_slide(slide, i, names[i]);
        slide->state = i < 2 ? HRF_SLIDE_DONE : i == 2 ? HRF_SLIDE_NO_TISSUE : HRF_SLIDE_FAILED;
        slide->truth = i == 0 ? HRF_TRUTH_POSITIVE : HRF_TRUTH_NEGATIVE;
        if (i < 3)
            score_slide(fixture, i);
    }
    fixture->cohort->slides[3].reason = hrf_strdup("not a slide");
    MUST(hrf_cohort_finish(fixture->cohort, err));
}

void fixture_release(struct fixture *fixture)
{
    hrf_cohort_destroy(fixture->cohort);
    if (getenv("HRF_KEEP_FIXTURE") == NULL)
        MUST(hrf_path_remove_tree(fixture->directory, err));
    hrf_free(fixture->directory);
}
