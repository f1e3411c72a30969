/* params.c - translates a workflow's settings into the parameters of aggregation and report. */
#include "orchestrator/run/params.h"

#include <string.h>

static enum hrf_slide_rule_kind rule_kind(enum hrf_score_method method)
{
    switch (method) {
    case HRF_SCORE_MAX:
        return HRF_SLIDE_RULE_MAX;
    case HRF_SCORE_MEAN:
        return HRF_SLIDE_RULE_MEAN;
    case HRF_SCORE_TOP_K_MEAN:
        return HRF_SLIDE_RULE_TOP_K_MEAN;
    case HRF_SCORE_PERCENTILE:
        return HRF_SLIDE_RULE_PERCENTILE;
    case HRF_SCORE_MAX_SMOOTHED:
        break;
    }
    return HRF_SLIDE_RULE_MAX_SMOOTHED;
}

static enum hrf_lesion_method lesion_method(enum hrf_lesions_choice choice)
{
    return choice == HRF_FIND_COMPONENTS ? HRF_LESIONS_COMPONENTS
           : choice == HRF_FIND_MAXIMA   ? HRF_LESIONS_NMS
                                         : HRF_LESIONS_NONE;
}

void hrf_run_params_fill(const struct hrf_workflow *w, const char *precisions[HRF_MOST_VARIANTS],
                         struct hrf_aggregate_params *out)
{
    for (size_t i = 0; i < hrf_workflow_n_variants(w); i++)
        precisions[i] = hrf_workflow_variant_name(w, i);
    out->name = w->name;
    out->classes = (const char *const *)w->model.classes.items;
    out->n_classes = w->model.classes.n_items;
    out->is_embedding = w->model.output == HRF_OUTPUT_EMBEDDING;
    out->has_head = hrf_slide_head_is_given(&w->slide_head);
    out->has_forest = w->slide_head.forest != HRF_FOREST_NONE;
    out->is_multilabel = w->model.output == HRF_OUTPUT_SIGMOID && out->n_classes > 1;
    out->is_regression = w->model.output == HRF_OUTPUT_NONE;
    out->is_segmentation = w->model.output == HRF_OUTPUT_SEGMENTATION;
    for (size_t i = 0; i < out->n_classes; i++)
        if (strcmp(out->classes[i], w->model.positive) == 0)
            out->positive = i;
    out->precisions = precisions;
    out->n_precisions = hrf_workflow_n_variants(w);
    out->stain_jitter = w->study.stain_jitter;
    out->jitter_seed = w->study.seed;
    out->rule = (struct hrf_slide_rule){ .kind = rule_kind(w->aggregate.slide_score),
                                         .top_k = w->aggregate.top_k,
                                         .percentile = w->aggregate.percentile,
                                         .any_number = out->is_regression };
    out->lesion_rule = (struct hrf_lesion_rule){ .method = lesion_method(
                                                     w->aggregate.lesions.method),
                                                 .threshold = w->aggregate.lesions.threshold,
                                                 .radius = w->aggregate.lesions.radius };
    out->is_camelyon16 = w->dataset.layout == HRF_LAYOUT_CAMELYON16 && w->dataset.known_exclusions;
    out->tuning_slides = (const char *const *)w->aggregate.tune.slides.items;
    out->n_tuning_slides = w->aggregate.tune.slides.n_items;
    out->tuning_specificity = w->aggregate.tune.specificity;
    out->threshold = w->aggregate.threshold;
    out->seed = 1;
    out->is_slurm = w->executor.type == HRF_EXECUTOR_SLURM;
}
