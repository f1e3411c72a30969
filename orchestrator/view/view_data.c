/* view_data.c - the run, its slides and their scores as the viewer's page asks for them. */
#include "orchestrator/view/view_data.h"

#include "aggregate/camelyon16/asap.h"
#include "aggregate/segmentation/mask.h"
#include "base/json.h"
#include "base/path.h"
#include "image/colours.h"
#include "image/png_write.h"
#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

#include <math.h>
#include <string.h>

static enum hrf_status load_workflow(const char *directory, struct hrf_workflow **out,
                                     struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "workflow.yaml");
    return hrf_workflow_load_of_run(path, NULL, 0, out, &findings, err);
}

/* Stands in the place of classes in a run with a slide head, whose patches have attention. */
static const char attention[] = "attention (rank)";

/* Returns the index of the positive class; n_items if the model has none. */
static size_t positive_class(const struct hrf_workflow *w)
{
    size_t i = 0;
    while (i < w->model.classes.n_items &&
           (w->model.positive == NULL || strcmp(w->model.classes.items[i], w->model.positive) != 0))
        i++;
    return i;
}

static json_t *colour(struct hrf_rgb rgb)
{
    return hrf_json_ints((const int64_t[]){ rgb.r, rgb.g, rgb.b }, 3);
}

/* Returns the report's colours: maps at even steps from 0 to 1, and one for each class. New
 * reference. */
static json_t *describe_colours(const struct hrf_workflow *w)
{
    enum { STEPS = 32 };
    json_t *rising = json_array(), *diverging = json_array(), *classes = json_array();
    for (int i = 0; i <= STEPS; i++) {
        hrf_json_add(rising, colour(hrf_colour_map((double)i / STEPS)));
        hrf_json_add(diverging, colour(hrf_colour_diverging((double)i / STEPS)));
    }
    for (size_t i = 0; i < w->model.classes.n_items; i++)
        hrf_json_add(classes, colour(hrf_colour_of_class(i, positive_class(w))));
    json_t *object = json_object();
    hrf_json_put(object, "rising", rising);
    hrf_json_put(object, "diverging", diverging);
    hrf_json_put(object, "classes", classes);
    return object;
}

static json_t *describe_workflow(const struct hrf_workflow *w)
{
    json_t *classes = json_array(), *precisions = json_array();
    const bool has_head = hrf_slide_head_is_given(&w->slide_head); /* patches have its attention */
    for (size_t i = 0; i < w->model.classes.n_items && !has_head; i++)
        hrf_json_add(classes, hrf_json_string(w->model.classes.items[i]));
    if (has_head)
        hrf_json_add(classes, json_string(attention));
    for (size_t i = 0; i < w->n_precisions; i++)
        hrf_json_add(precisions, json_string(hrf_precision_name(w->precision[i])));
    json_t *object = json_object();
    hrf_json_put_text(object, "name", w->name);
    hrf_json_put(object, "classes", classes);
    hrf_json_put_text(object, "positive", has_head ? attention : w->model.positive);
    hrf_json_put(object, "precisions", precisions);
    hrf_json_put_number(object, "threshold", w->aggregate.threshold);
    hrf_json_put_bool(object, "is_embedding", w->model.output == HRF_OUTPUT_EMBEDDING && !has_head);
    hrf_json_put_bool(object, "is_segmentation", w->model.output == HRF_OUTPUT_SEGMENTATION);
    hrf_json_put(object, "colours", describe_colours(w));
    return object;
}

static json_t *describe_slide(const struct hrf_slide_row *slide)
{
    static const char *const truths[] = { "unknown", "negative", "positive" };
    json_t *object = json_object();
    hrf_json_put_int(object, "id", slide->id);
    hrf_json_put_text(object, "name", slide->name);
    hrf_json_put_text(object, "state", hrf_slide_state_text(slide->state));
    hrf_json_put_text(object, "reason", slide->reason);
    hrf_json_put_text(object, "truth", truths[slide->truth - HRF_TRUTH_UNKNOWN]);
    hrf_json_put_text(object, "label", slide->label_text);
    hrf_json_put_bool(object, "is_tiled", slide->tile_plan_hash != NULL);
    hrf_json_put(object, "scores", json_object());
    return object;
}

static enum hrf_status add_scores(struct hrf_store *store, json_t *const by_id,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_slide_score *scores = NULL;
    size_t n = 0;
    HRF_TRY(hrf_store_get_slide_scores(store, NULL, &scores, &n, err));
    for (size_t i = 0; i < n; i++) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)scores[i].slide_id);
        json_t *slide = json_object_get(by_id, id);
        if (slide != NULL)
            hrf_json_put_number(json_object_get(slide, "scores"), scores[i].precision,
                                scores[i].score);
    }
    return HRF_OK;
}

enum hrf_status hrf_view_run(const char *directory, struct hrf_strbuf *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO(hrf_workflow) workflow = NULL;
    struct hrf_slide_rows slides = { .items = NULL };
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_TRY(load_workflow(directory, &workflow, err));
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    HRF_AUTO_JSON value = describe_workflow(workflow);
    HRF_AUTO_JSON by_id = json_object();
    json_t *list = json_array();
    for (size_t i = 0; i < slides.n_items; i++) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)slides.items[i].id);
        json_t *slide = describe_slide(&slides.items[i]);
        hrf_json_put(by_id, id, json_incref(slide));
        hrf_json_add(list, slide);
    }
    hrf_slide_rows_release(&slides);
    hrf_json_put(value, "slides", list);
    HRF_TRY(add_scores(store, by_id, err));
    HRF_AUTO_FREE char *text = hrf_json_text(value);
    hrf_strbuf_adds(out, text);
    return HRF_OK;
}

enum hrf_status hrf_view_patches(const char *directory, int64_t slide_id, struct hrf_strbuf *out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_TRY(hrf_store_get_tile_plan(store, slide_id, &plan, err));
    hrf_strbuf_addf(out,
                    "{\"width\":%lld,\"height\":%lld,\"mpp\":[%.9g,%.9g],\"patch\":[%lld,%lld],"
                    "\"stride\":[%.9g,%.9g],\"xy\":[",
                    (long long)plan->width, (long long)plan->height, plan->mpp_x, plan->mpp_y,
                    (long long)plan->patch_width0, (long long)plan->patch_height0, plan->stride_x0,
                    plan->stride_y0);
    for (int64_t i = 0; i < plan->n_patches; i++)
        hrf_strbuf_addf(out, "%s%d,%d", i > 0 ? "," : "", (int)plan->patches[i].x,
                        (int)plan->patches[i].y);
    hrf_strbuf_addf(out, "]}");
    return HRF_OK;
}

static void put_values(struct hrf_strbuf *out, int n_classes, const float *values, int64_t n)
{
    hrf_strbuf_addf(out, "{\"classes\":%d,\"values\":[", n_classes);
    for (int64_t i = 0; i < n; i++) {
        const double value = (double)values[i];
        hrf_strbuf_addf(out, isfinite(value) ? "%s%.5g" : "%snull", i > 0 ? "," : "", value);
    }
    hrf_strbuf_addf(out, "]}");
}

/* Puts the ranks of the patches' attention, as the values of one class. */
static enum hrf_status put_attention(const struct hrf_head_scores *head, size_t positive,
                                     struct hrf_strbuf *out, struct hrf_error *err)
{
    HRF_AUTO_FREE float *ranks = hrf_try_alloc_array((size_t)head->n_patches, sizeof *ranks);
    HRF_CHECK_MEMORY(ranks != NULL, err, "no memory for the attention of a slide");
    HRF_TRY(hrf_head_scores_rank(head, positive, ranks, err));
    put_values(out, 1, ranks, head->n_patches);
    return HRF_OK;
}

enum hrf_status hrf_view_scores(const char *directory, int64_t slide_id, const char *precision,
                                struct hrf_strbuf *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_TRY(load_workflow(directory, &workflow, err));
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    if (hrf_slide_head_is_given(&workflow->slide_head)) {
        HRF_AUTO(hrf_head_scores) head = NULL;
        HRF_TRY(hrf_store_get_head_scores(store, slide_id, precision, false, &head, err));
        return put_attention(head, positive_class(workflow), out, err);
    }
    HRF_TRY(hrf_store_get_scores(store, slide_id, precision, &scores, err));
    put_values(out, (int)scores->n_classes, scores->probabilities,
               scores->n_patches * scores->n_classes);
    return HRF_OK;
}

enum hrf_status hrf_view_mask(const char *directory, int64_t slide_id, unsigned char **out,
                              size_t *n_bytes, struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_TRY(hrf_store_get_tile_plan(store, slide_id, &plan, err));
    if (plan->mask_png.n_bytes == 0)
        return hrf_error_set(err, HRF_E_AGAIN, "slide %lld has no tissue mask",
                             (long long)slide_id);
    *out = hrf_try_alloc(plan->mask_png.n_bytes);
    HRF_CHECK_MEMORY(*out != NULL, err, "no memory for the tissue mask");
    memcpy(*out, plan->mask_png.data, plan->mask_png.n_bytes);
    *n_bytes = plan->mask_png.n_bytes;
    return HRF_OK;
}

enum hrf_status hrf_view_labels(const char *directory, int64_t slide_id, const char *precision,
                                unsigned char **out, size_t *n_bytes, struct hrf_error *err)
{
    enum { MAX_SIDE = 2048 };
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO(hrf_mask) mask = NULL;
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_TRY(hrf_store_get_tile_plan(store, slide_id, &plan, err));
    HRF_TRY(hrf_store_get_scores(store, slide_id, precision, &scores, err));
    if (scores->labels.side == 0)
        return hrf_error_set(err, HRF_E_USER, "the model gives no labels of pixels");
    HRF_TRY(hrf_mask_create(plan, &scores->labels, scores->n_classes, &mask, err));
    int32_t level = 0;
    struct hrf_mask_size size = hrf_mask_level_size(mask, 0);
    while (size.width > MAX_SIDE || size.height > MAX_SIDE)
        size = hrf_mask_level_size(mask, ++level);
    HRF_AUTO_FREE unsigned char *labels = hrf_try_alloc_array((size_t)size.width,
                                                              (size_t)size.height);
    HRF_CHECK_MEMORY(labels != NULL, err, "no memory for a mask");
    HRF_TRY(hrf_mask_rows(mask, level, 0, size.height, labels, err));
    return hrf_png_write(labels, size.width, size.height, 1, HRF_PNG_FLAT, out, n_bytes, err);
}

static enum hrf_status annotation_of(struct hrf_store *store, int64_t slide_id, char **out,
                                     struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    for (size_t i = 0; i < slides.n_items; i++)
        if (slides.items[i].id == slide_id && slides.items[i].annotation != NULL)
            *out = hrf_strdup(slides.items[i].annotation);
    return HRF_OK;
}

enum hrf_status hrf_view_outlines(const char *directory, int64_t slide_id, struct hrf_strbuf *out,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO(hrf_outlines) outlines = NULL;
    HRF_AUTO_FREE char *path = NULL;
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_TRY(annotation_of(store, slide_id, &path, err));
    if (path != NULL && !hrf_annotation_is_mask(path))
        HRF_TRY(hrf_outlines_read(path, &outlines, err));
    hrf_strbuf_addf(out, "[");
    for (size_t i = 0; outlines != NULL && i < outlines->n_items; i++) {
        const struct hrf_outline *outline = &outlines->items[i];
        hrf_strbuf_addf(out, "%s[", i > 0 ? "," : "");
        for (size_t k = 0; k < outline->n_points; k++)
            hrf_strbuf_addf(out, "%s[%.9g,%.9g]", k > 0 ? "," : "", outline->points[k].x,
                            outline->points[k].y);
        hrf_strbuf_addf(out, "]");
    }
    hrf_strbuf_addf(out, "]");
    return HRF_OK;
}
