/* report_json_precision.c - one precision's entry of report.json: gains, costs, times, traffic. */
#include "aggregate/report/report_json_private.h"

static void put(json_t *object, enum hrf_figure_part part, const struct hrf_cohort_precision *p)
{
    hrf_figures_put(object, hrf_precision_rows, part, p);
}

/* The patches whose class moved furthest; all of them are in results/patch-flips.csv. */
static json_t *patch_flips_json(const struct hrf_cohort *cohort,
                                const struct hrf_cohort_precision *p)
{
    json_t *array = json_array();
    for (size_t i = 0; i < p->moved.n_top_flips; i++) {
        const struct hrf_patch_flip *flip = &p->moved.difference.flips[p->moved.top_flips[i]];
        json_t *object = json_object();
        hrf_json_put_text(object, "slide", cohort->slides[flip->slide].name);
        hrf_json_put_int(object, "x", flip->at.x);
        hrf_json_put_int(object, "y", flip->at.y);
        hrf_json_put_number(object, "reference_score", (double)flip->reference_score);
        hrf_json_put_text(object, "reference_label",
                          hrf_cohort_class(cohort, flip->reference_class));
        hrf_json_put_number(object, "score", (double)flip->score);
        hrf_json_put_text(object, "label", hrf_cohort_class(cohort, flip->new_class));
        hrf_json_put_number(object, "max_abs_difference", (double)flip->difference);
        hrf_json_add(array, object);
    }
    return array;
}

static void put_differences(json_t *object, const struct hrf_cohort *cohort,
                            const struct hrf_cohort_precision *p)
{
    const struct hrf_difference *d = &p->moved.difference;
    put(object, HRF_FIGURES_MOVED, p);
    hrf_json_put(object, "largest_patch_flips", patch_flips_json(cohort, p));
    json_t *bins = json_array();
    for (int i = 0; i < HRF_DIFFERENCE_BINS; i++) {
        if (d->bins[i] == 0)
            continue;
        json_t *bin = json_object();
        hrf_json_put_number(bin, "from", i == 0 ? 0.0 : hrf_difference_bin_start(i));
        hrf_json_put_int(bin, "patches", d->bins[i]);
        hrf_json_add(bins, bin);
    }
    hrf_json_put(object, "difference_histogram", bins);
}

/* Null for a run of scores. */
static void put_embedding(json_t *object, const struct hrf_cohort *cohort,
                          const struct hrf_cohort_precision *p)
{
    if (!cohort->is_embedding) {
        hrf_json_put(object, "embedding", json_null());
        hrf_json_put_reason(object, "embedding", p->embeddings.cosine_mean.reason);
        return;
    }
    json_t *embedding = json_object();
    put(embedding, HRF_FIGURES_EMBEDDING, p);
    hrf_json_put(object, "embedding", embedding);
}

/* Areas and overlaps by class; only of a segmentation network. */
static void put_segmentation(json_t *object, const struct hrf_cohort *cohort,
                             const struct hrf_cohort_precision *p)
{
    if (!cohort->is_segmentation)
        return;
    json_t *classes = json_array();
    for (size_t c = 0; c < cohort->n_classes; c++) {
        const struct hrf_region_figures regions = hrf_cohort_regions(
            cohort, (size_t)(p - cohort->precisions), c);
        json_t *item = json_object();
        hrf_json_put_text(item, "class", cohort->classes[c]);
        hrf_figures_put(item, hrf_region_rows, 0, &regions);
        hrf_json_add(classes, item);
    }
    hrf_json_put(object, "segmentation", classes);
}

static json_t *head_study_json(const struct hrf_head_study *s)
{
    json_t *object = json_object();
    hrf_figures_put(object, hrf_head_study_rows, 0, s);
    return object;
}

/* Only of a run with slide heads, and not of its first precision. */
static void put_heads(json_t *object, const struct hrf_cohort *cohort,
                      const struct hrf_cohort_precision *p)
{
    if (!cohort->has_head || p == &cohort->precisions[0])
        return;
    json_t *heads = json_object();
    hrf_json_put(heads, "trained_on_first", head_study_json(&p->moved_heads));
    hrf_json_put(heads, "trained_on_own",
                 p->own_heads.n_slides > 0 ? head_study_json(&p->own_heads) : json_null());
    hrf_json_put(object, "slide_heads", heads);
}

/* "" of a record is null here. */
static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? hrf_json_string(text) : json_null();
}

static json_t *hardware_json(const struct hrf_cohort_precision *p)
{
    json_t *array = json_array();
    for (size_t i = 0; i < p->jobs.n_hardware; i++) {
        const struct hrf_hardware *h = &p->jobs.hardware[i];
        json_t *object = json_object();
        hrf_json_put(object, "model", text_or_null(h->model));
        hrf_json_put(object, "path", text_or_null(h->path));
        hrf_json_put(object, "driver", text_or_null(h->driver));
        hrf_json_put(object, "libraries", text_or_null(h->libraries));
        hrf_json_add(array, object);
    }
    return array;
}

static void put_traffic(json_t *object, const struct hrf_traffics *traffic)
{
    if (traffic->transport[0] == '\0') {
        hrf_json_put(object, "communication", json_null());
        hrf_json_put_text(object, "communication_reason", "no network was shared out over ranks");
        return;
    }
    json_t *operations = json_array();
    for (int32_t i = 0; i < traffic->n_items; i++) {
        const struct hrf_traffic *t = &traffic->items[i];
        json_t *item = json_object();
        hrf_json_put_text(item, "operation", t->operation);
        hrf_figures_put(item, hrf_traffic_rows, 0, t);
        hrf_json_add(operations, item);
    }
    json_t *communication = json_object();
    hrf_json_put_text(communication, "carrier", traffic->transport);
    hrf_json_put(communication, "operations", operations);
    hrf_json_put(object, "communication", communication);
}

static json_t *notes_json(const char *notes)
{
    json_t *list = json_array();
    for (char line[HRF_SCORES_NOTES]; hrf_scores_next_note(&notes, line);)
        hrf_json_add(list, hrf_json_string(line));
    return list;
}

static json_t *precision_json(const struct hrf_cohort *cohort, size_t index)
{
    const struct hrf_cohort_precision *p = &cohort->precisions[index];
    json_t *object = json_object(), *timing = json_object();
    hrf_json_put_text(object, "precision", p->name);
    hrf_json_put_text(object, "device", p->jobs.device);
    hrf_json_put(object, "hardware", hardware_json(p));
    hrf_json_put(object, "notes", notes_json(p->jobs.notes));
    put(object, HRF_FIGURES_SPEED, p);
    put_differences(object, cohort, p);
    put_embedding(object, cohort, p);
    put_segmentation(object, cohort, p);
    put_heads(object, cohort, p);
    put(timing, HRF_FIGURES_TIMING, p);
    hrf_json_put(object, "timing", timing);
    put_traffic(object, &p->jobs.traffic);
    hrf_json_put_slide_figures(object, cohort, p);
    hrf_json_put(object, "slide_flips", hrf_json_slide_flips(cohort, index));
    return object;
}

json_t *hrf_report_precisions_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_precisions; i++)
        hrf_json_add(array, precision_json(cohort, i));
    return array;
}
