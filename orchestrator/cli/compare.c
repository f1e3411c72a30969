/* compare.c - `compare DIR1 DIR2`: what one finished run costs and gains against another. */
#include "aggregate/report/compare.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/run/params.h"

#include <math.h>
#include <stdio.h>

/* One of the runs, open for reading. */
struct side {
    struct hrf_workflow *workflow;
    struct hrf_store *store;
    struct hrf_aggregate_params params;
    const char *precisions[HRF_MOST_VARIANTS];
};

static void side_release(struct side *side)
{
    hrf_store_close(side->store);
    hrf_workflow_destroy(side->workflow);
}

static enum hrf_status side_open(const char *directory, const struct hrf_option_list *set,
                                 struct side *side, struct hrf_error *err)
{
    static const char *const sections[] = { "aggregate", NULL };
    HRF_AUTO_FREE char *file = hrf_path_join(directory, "workflow.yaml");
    HRF_CHECK_MEMORY(file != NULL, err, "no memory for a path");
    HRF_TRY(hrf_store_open_run(directory, &side->store, err));
    HRF_TRY(hrf_cli_load_of_run(file, set, sections, &side->workflow, err));
    hrf_run_params_fill(side->workflow, side->precisions, &side->params);
    side->params.n_precisions =
        side->workflow->n_precisions; /* a jitter of stains belongs to one run */
    side->params.stain_jitter = 0;
    return HRF_OK;
}

/* A cell of the table with that many decimals (-1: three digits); "-" where there is no figure. */
static void cell(const struct hrf_figure *figure, int width, int decimals)
{
    char text[32] = "-";
    if (!isnan(figure->value) && decimals < 0)
        snprintf(text, sizeof text, "%.3g", figure->value);
    else if (!isnan(figure->value))
        snprintf(text, sizeof text, "%.*f", decimals, figure->value);
    hrf_cli_printf(" %*s", width, text);
}

static void print_gains(const struct hrf_cohort_precision *p)
{
    hrf_cli_printf("%-10s", p->name);
    cell(&p->patches_per_second, 9, -1);
    cell(&p->speedup, 9, -1);
    cell(&p->compute_speedup, 9, -1);
    cell(&p->memory_ratio, 9, -1);
}

static void print_drift(const struct hrf_cohort *cohort)
{
    hrf_cli_printf("%-10s %9s %9s %9s %9s %9s %9s %9s %9s %9s %10s\n", "", "patches/s", "speed x",
                   "network x", "memory x", "compared", "cos mean", "median", "1st perc.", "least",
                   "neighbours");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        print_gains(p);
        hrf_cli_printf(" %9zu", p->drift.n_patches);
        cell(&p->cosine_mean, 9, 6);
        cell(&p->cosine_median, 9, 6);
        cell(&p->cosine_percentile1, 9, 6);
        cell(&p->cosine_least, 9, 6);
        cell(&p->neighbours_kept, 10, 4);
        hrf_cli_printf("\n");
    }
    hrf_cli_printf(
        "cos: cosine of a patch's embedding and %s's; neighbours: share of its 10 nearest "
        "patches of the slide that stay so\n",
        cohort->precisions[0].name);
    for (size_t i = 1; i < cohort->n_precisions; i++)
        if (isnan(cohort->precisions[i].cosine_mean.value))
            hrf_cli_printf("%s: no cosine: %s\n", cohort->precisions[i].name,
                           cohort->precisions[i].cosine_mean.reason);
}

static void print_table(const struct hrf_cohort *cohort)
{
    hrf_cli_printf("%-10s %9s %9s %9s %9s %9s %9s %9s %9s %9s %7s %7s %8s\n", "", "patches/s",
                   "speed x", "network x", "memory x", "agreement", "max |dp|", "mean |dp|",
                   "slide AUC", "AUC diff", "p", "ECE", "flips");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        print_gains(p);
        cell(&p->patch_agreement, 9, 4);
        cell(&p->max_abs_difference, 9, -1);
        cell(&p->mean_abs_difference, 9, -1);
        cell(&p->slide_auc, 9, 4);
        cell(&p->auc_difference, 9, 4);
        cell(&p->delong_p, 7, -1);
        cell(&p->calibration_error, 7, -1);
        hrf_cli_printf(" %4zu/%zu\n", p->n_flips, p->difference.n_flips);
    }
    hrf_cli_printf("flips: slides/patches whose label differs from %s's\n",
                   cohort->precisions[0].name);
    if (isnan(cohort->precisions[0].slide_auc.value))
        hrf_cli_printf("no slide AUC: %s\n", cohort->precisions[0].slide_auc.reason);
}

static void print_flips(const struct hrf_cohort *cohort, size_t index)
{
    const struct hrf_cohort_precision *p = &cohort->precisions[index];
    for (size_t k = 0; k < p->n_flips; k++) {
        const struct hrf_cohort_slide *s = &cohort->slides[p->flips[k]];
        HRF_AUTO_FREE char *name = hrf_text_printable(s->name);
        hrf_cli_printf("%s: slide %s was %s (%.4f), is %s (%.4f)\n", p->name,
                       name != NULL ? name : "?", hrf_cohort_slide_label(cohort, &s->scores[0]),
                       s->scores[0].value, hrf_cohort_slide_label(cohort, &s->scores[index]),
                       s->scores[index].value);
    }
    for (size_t k = 0; k < p->n_top_flips; k++) {
        const struct hrf_patch_flip *f = &p->difference.flips[p->top_flips[k]];
        HRF_AUTO_FREE char *name = hrf_text_printable(cohort->slides[f->slide].name);
        hrf_cli_printf("%s: patch %d,%d of %s was %s (%.4f), is %s (%.4f)\n", p->name, f->at.x,
                       f->at.y, name != NULL ? name : "?",
                       hrf_cohort_class(cohort, f->reference_class), (double)f->reference_score,
                       hrf_cohort_class(cohort, f->new_class), (double)f->score);
    }
    if (p->n_top_flips < p->difference.n_flips)
        hrf_cli_printf("%s: and %zu more patches; --out DIR lists them all\n", p->name,
                       p->difference.n_flips - p->n_top_flips);
}

static void print_text(const struct hrf_run_pair *pair, const char *const directories[2])
{
    hrf_cli_printf(
        "A: %s\nB: %s\n%zu slides in both; %lld patches in both, %lld only in A, %lld only in B\n",
        directories[0], directories[1], pair->cohort->n_slides, (long long)pair->n_patches,
        (long long)pair->n_only[0], (long long)pair->n_only[1]);
    for (size_t i = 0; i < pair->n_notes; i++) {
        HRF_AUTO_FREE char *name = hrf_text_printable(pair->notes[i].slide);
        hrf_cli_printf("  %s: %s\n", name != NULL ? name : "?", pair->notes[i].text);
    }
    hrf_cli_printf("\n");
    if (pair->cohort->is_embedding)
        print_drift(pair->cohort);
    if (!hrf_cohort_scores_slides(pair->cohort))
        return;
    print_table(pair->cohort);
    for (size_t i = 1; i < pair->cohort->n_precisions; i++)
        print_flips(pair->cohort, i);
}

static enum hrf_status show(const struct hrf_run_pair *pair, const char *const directories[2],
                            const char *out, bool json, struct hrf_error *err)
{
    if (out != NULL)
        HRF_TRY(hrf_report_pair_write(pair, directories, out, err));
    if (!json) {
        print_text(pair, directories);
        return HRF_OK;
    }
    HRF_AUTO_JSON root = hrf_report_pair_json(pair, directories);
    HRF_AUTO_FREE char *text = root != NULL ? hrf_json_text(root) : NULL;
    HRF_CHECK_MEMORY(text != NULL, err, "no memory for the JSON");
    puts(text);
    return HRF_OK;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_option_list set = { .n_items = 0 };
    const char *out = NULL;
    bool json = false;
    const struct hrf_option options[] = {
        { "out", "DIR", "write compare.json, study.csv, patch-flips.csv and index.html there",
          HRF_OPTION_TEXT, &out },
        { "set", "KEY=VALUE",
          "override aggregate keys for both, e.g. aggregate.threshold=0.3; may be repeated",
          HRF_OPTION_LIST, &set },
        { "json", NULL, "print the figures as JSON", HRF_OPTION_FLAG, &json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    struct side sides[2] = { { .workflow = NULL }, { .workflow = NULL } };
    HRF_AUTO(hrf_run_pair) pair = NULL;
    enum hrf_status status = side_open(args.operands[0], &set, &sides[0], &err);
    if (status == HRF_OK)
        status = side_open(args.operands[1], &set, &sides[1], &err);
    if (status == HRF_OK) {
        const struct hrf_run_pair_side runs[2] = { { sides[0].store, &sides[0].params },
                                                   { sides[1].store, &sides[1].params } };
        status = hrf_run_pair_load(runs, &pair, &err);
    }
    if (status == HRF_OK)
        status = show(pair, args.operands, out, json, &err);
    side_release(&sides[0]);
    side_release(&sides[1]);
    return status == HRF_OK ? 0 : hrf_cli_fail(command->name, &err);
}

const struct hrf_command hrf_cli_compare = {
    .name = "compare",
    .operands = "DIR1 DIR2",
    .summary = "compare the accuracy, speed and memory of two finished runs",
    .details = "Compares every precision of both runs with the first precision of DIR1. Slides are "
               "matched by name and content, patches by slide and position; those without a match "
               "are named and in no figure. Embeddings are compared by their cosines and by their "
               "nearest neighbours. "
               "The slide scores of both runs are computed with DIR1's rule and threshold.",
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
