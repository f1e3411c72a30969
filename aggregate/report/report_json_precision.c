/* report_json_precision.c - one precision's entry of report.json: gains, costs, times, traffic. */
#include "aggregate/report/report_json_private.h"

#include <math.h>

static json_t *timing_json(const struct hrf_timing *timing)
{
    json_t *object = json_object();
    hrf_json_put(object, "build", hrf_json_number(timing->build));
    hrf_json_put(object, "decode", hrf_json_number(timing->decode));
    hrf_json_put(object, "prepare", hrf_json_number(timing->prepare));
    hrf_json_put(object, "compute", hrf_json_number(timing->compute));
    hrf_json_put_ratio(object, "copy", timing->copy, "no device apart from the host computed");
    hrf_json_put_ratio(object, "kernels", timing->kernels,
                       "no device apart from the host computed");
    hrf_json_put(object, "wait", hrf_json_number(timing->wait));
    hrf_json_put(object, "write", hrf_json_number(timing->write));
    hrf_json_put(object, "total", hrf_json_number(timing->total));
    return object;
}

/* The patches whose class moved furthest; all of them are in results/patch-flips.csv. */
static json_t *patch_flips_json(const struct hrf_cohort *cohort,
                                const struct hrf_cohort_precision *p)
{
    json_t *array = json_array();
    for (size_t i = 0; i < p->n_top_flips; i++) {
        const struct hrf_patch_flip *flip = &p->difference.flips[p->top_flips[i]];
        json_t *object = json_object();
        hrf_json_put_text(object, "slide", cohort->slides[flip->slide].name);
        hrf_json_put(object, "x", json_integer(flip->at.x));
        hrf_json_put(object, "y", json_integer(flip->at.y));
        hrf_json_put(object, "reference_score", hrf_json_number((double)flip->reference_score));
        hrf_json_put_text(object, "reference_label",
                          hrf_cohort_class(cohort, flip->reference_class));
        hrf_json_put(object, "score", hrf_json_number((double)flip->score));
        hrf_json_put_text(object, "label", hrf_cohort_class(cohort, flip->new_class));
        hrf_json_put(object, "max_abs_difference", hrf_json_number((double)flip->difference));
        json_array_append_new(array, object);
    }
    return array;
}

static void put_differences(json_t *object, const struct hrf_cohort *cohort,
                            const struct hrf_cohort_precision *p)
{
    const struct hrf_difference *d = &p->difference;
    hrf_json_put_figure(object, "patch_agreement", &p->patch_agreement);
    hrf_json_put_figure(object, "max_abs_difference", &p->max_abs_difference);
    hrf_json_put_figure(object, "mean_abs_difference", &p->mean_abs_difference);
    hrf_json_put(object, "patches_compared", json_integer(d->n_patches));
    hrf_json_put(object, "patch_flips", json_integer((json_int_t)d->n_flips));
    hrf_json_put(object, "largest_patch_flips", patch_flips_json(cohort, p));
    json_t *bins = json_array();
    for (int i = 0; i < HRF_DIFFERENCE_BINS; i++) {
        if (d->bins[i] == 0)
            continue;
        json_t *bin = json_object();
        hrf_json_put(bin, "from", hrf_json_number(i == 0 ? 0.0 : hrf_difference_bin_start(i)));
        hrf_json_put(bin, "patches", json_integer(d->bins[i]));
        json_array_append_new(bins, bin);
    }
    hrf_json_put(object, "difference_histogram", bins);
}

/* Null for a run of scores. */
static void put_embedding(json_t *object, const struct hrf_cohort *cohort,
                          const struct hrf_cohort_precision *p)
{
    if (!cohort->is_embedding) {
        hrf_json_put(object, "embedding", json_null());
        hrf_json_put_reason(object, "embedding", p->cosine_mean.reason);
        return;
    }
    json_t *embedding = json_object();
    hrf_json_put(embedding, "width", json_integer(p->drift.width));
    hrf_json_put(embedding, "patches_compared", json_integer((json_int_t)p->drift.n_patches));
    hrf_json_put_figure(embedding, "cosine_mean", &p->cosine_mean);
    hrf_json_put_figure(embedding, "cosine_median", &p->cosine_median);
    hrf_json_put_figure(embedding, "cosine_percentile1", &p->cosine_percentile1);
    hrf_json_put_figure(embedding, "cosine_least", &p->cosine_least);
    hrf_json_put_figure(embedding, "neighbours_kept", &p->neighbours_kept);
    hrf_json_put(embedding, "neighbours_patches",
                 json_integer((json_int_t)p->neighbours.n_patches));
    hrf_json_put(object, "embedding", embedding);
}

/* Areas and overlaps by class; only of a segmentation network. */
static void put_segmentation(json_t *object, const struct hrf_cohort *cohort,
                             const struct hrf_cohort_precision *p)
{
    if (!cohort->is_segmentation)
        return;
    const size_t index = (size_t)(p - cohort->precisions);
    json_t *classes = json_array();
    for (size_t c = 0; c < cohort->n_classes; c++) {
        static const struct hrf_pooled_overlap none = { .n_present = 0 };
        const struct hrf_pooled_overlap *o = p->overlaps != NULL ? &p->overlaps[c] : &none;
        double area = 0;
        for (size_t i = 0; i < cohort->n_slides; i++)
            if (cohort->slides[i].scores[index].label_pixels != NULL)
                area += hrf_cohort_area(&cohort->slides[i].scores[index], c);
        json_array_append_new(
            classes,
            json_pack("{sosososososIsI}", "class", hrf_json_string(cohort->classes[c]), "mm2",
                      hrf_json_number(area), "dice", hrf_json_number(hrf_overlap_dice(&o->all)),
                      "iou", hrf_json_number(hrf_overlap_iou(&o->all)), "mean_dice",
                      hrf_json_number(o->n_present > 0 ? o->dice_sum / (double)o->n_present
                                                       : (double)NAN),
                      "slides_judged", (json_int_t)o->all.n_slides, "slides_with_class",
                      (json_int_t)o->n_present));
    }
    hrf_json_put(object, "segmentation", classes);
}

static json_t *head_study_json(const struct hrf_head_study *s)
{
    const bool has_width = !isnan(s->auc_difference_interval.low);
    return json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "slides", (json_int_t)s->n_slides,
        "labelled", (json_int_t)s->n_labelled, "flips", (json_int_t)s->n_flips, "mean_difference",
        hrf_json_number(s->mean_difference), "largest_difference", hrf_json_number(s->largest),
        "auc", hrf_json_number(s->auc), "balanced_accuracy", hrf_json_number(s->balanced_accuracy),
        "auc_difference", hrf_json_number(s->auc_difference), "auc_difference_ci",
        has_width
            ? json_pack("[ff]", s->auc_difference_interval.low, s->auc_difference_interval.high)
            : json_null(),
        "reason", s->why[0] != '\0' ? hrf_json_string(s->why) : json_null());
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

static void put_gains(json_t *object, const struct hrf_cohort_precision *p)
{
    const bool scored = p->n_patches > 0;
    hrf_json_put_figure(object, "speedup", &p->speedup);
    hrf_json_put_figure(object, "compute_speedup", &p->compute_speedup);
    hrf_json_put_ratio(object, "peak_memory_bytes", NAN, "no patch was scored");
    hrf_json_put_ratio(object, "peak_process_bytes", NAN,
                       scored ? "the jobs did not tell" : "no patch was scored");
    if (scored) {
        hrf_json_put(object, "peak_memory_bytes", json_integer(p->peak_memory_bytes));
        json_object_del(object, "peak_memory_bytes_reason");
    }
    if (p->peak_process_bytes > 0) {
        hrf_json_put(object, "peak_process_bytes", json_integer(p->peak_process_bytes));
        json_object_del(object, "peak_process_bytes_reason");
    }
    hrf_json_put_figure(object, "memory_ratio", &p->memory_ratio);
    hrf_json_put_ratio(object, "device_memory_bytes", NAN,
                       !scored                    ? "no patch was scored"
                       : isnan(p->timing.kernels) ? "no GPU computed"
                                                  : "NVIDIA's driver (NVML) did not tell");
    if (p->device_memory_bytes > 0) {
        hrf_json_put(object, "device_memory_bytes", json_integer(p->device_memory_bytes));
        json_object_del(object, "device_memory_bytes_reason");
    }
    hrf_json_put_figure(object, "energy_joules_per_patch", &p->energy);
    hrf_json_put_figure(object, "gpu_energy_joules_per_patch", &p->gpu_energy);
    hrf_json_put_figure(object, "energy_joules_per_slide", &p->slide_energy);
    hrf_json_put_figure(object, "gpu_energy_joules_per_slide", &p->slide_gpu_energy);
}

/* "" of a record is null here. */
static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? hrf_json_string(text) : json_null();
}

static json_t *hardware_json(const struct hrf_cohort_precision *p)
{
    json_t *array = json_array();
    for (size_t i = 0; i < p->n_hardware; i++) {
        const struct hrf_hardware *h = &p->hardware[i];
        json_t *object = json_object();
        hrf_json_put(object, "model", text_or_null(h->model));
        hrf_json_put(object, "path", text_or_null(h->path));
        hrf_json_put(object, "driver", text_or_null(h->driver));
        hrf_json_put(object, "libraries", text_or_null(h->libraries));
        json_array_append_new(array, object);
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
        const double seconds = t->sending + t->receiving;
        json_t *item = json_object();
        hrf_json_put_text(item, "operation", t->operation);
        hrf_json_put(item, "messages", json_integer(t->messages));
        hrf_json_put(item, "bytes", json_integer(t->bytes));
        hrf_json_put(item, "sending_seconds", hrf_json_number(t->sending));
        hrf_json_put(item, "receiving_seconds", hrf_json_number(t->receiving));
        hrf_json_put(item, "gb_per_s",
                     hrf_json_number(seconds > 0.0 ? (double)t->bytes / seconds * 1e-9 : NAN));
        json_array_append_new(operations, item);
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
        json_array_append_new(list, hrf_json_string(line));
    return list;
}

static json_t *precision_json(const struct hrf_cohort *cohort, size_t index)
{
    const struct hrf_cohort_precision *p = &cohort->precisions[index];
    bool scored = p->n_patches > 0;
    json_t *object = json_object();
    hrf_json_put_text(object, "precision", p->name);
    hrf_json_put_text(object, "device", p->device);
    hrf_json_put(object, "hardware", hardware_json(p));
    hrf_json_put(object, "notes", notes_json(p->notes));
    hrf_json_put(object, "patches", json_integer(p->n_patches));
    hrf_json_put_ratio(object, "seconds", scored ? p->timing.total : NAN, "no patch was scored");
    hrf_json_put_figure(object, "patches_per_second", &p->patches_per_second);
    hrf_json_put_figure(object, "slides_per_hour", &p->slides_per_hour);
    put_gains(object, p);
    put_differences(object, cohort, p);
    put_embedding(object, cohort, p);
    put_segmentation(object, cohort, p);
    put_heads(object, cohort, p);
    hrf_json_put(object, "timing", timing_json(&p->timing));
    put_traffic(object, &p->traffic);
    hrf_json_put_slide_figures(object, cohort, p);
    hrf_json_put(object, "slide_flips", hrf_json_slide_flips(cohort, index));
    return object;
}

json_t *hrf_report_precisions_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_precisions; i++)
        json_array_append_new(array, precision_json(cohort, i));
    return array;
}
