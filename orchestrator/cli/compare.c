/* compare.c - `compare DIR1 DIR2`: what one finished run costs and gains against another. */
#include "aggregate/report/compare.h"
#include "aggregate/study/figure_rows.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/run/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
    HRF_TRY(hrf_cli_open_run(directory, &side->store, err));
    HRF_TRY(hrf_cli_load_of_run(file, set, sections, &side->workflow, err));
    hrf_run_params_fill(side->workflow, side->precisions, &side->params);
    side->params.n_precisions =
        side->workflow->n_precisions; /* a jitter of stains belongs to one run */
    side->params.stain_jitter = 0;
    return HRF_OK;
}

/* Lists the columns of a table: those of speed, then the figures of the parts `from` to `to`. */
static size_t columns_of(enum hrf_figure_part from, enum hrf_figure_part to,
                         const struct hrf_figure_row *out[HRF_MAX_COLUMNS])
{
    const size_t n = hrf_figure_columns(hrf_precision_rows, HRF_IN_TEXT, HRF_FIGURES_SPEED,
                                        HRF_FIGURES_SPEED, out);
    const struct hrf_figure_row *others[HRF_MAX_COLUMNS];
    const size_t n_others = hrf_figure_columns(hrf_precision_rows, HRF_IN_TEXT, from, to, others);
    memcpy(&out[n], others, n_others * sizeof others[0]);
    return n + n_others;
}

static void print_table(const struct hrf_cohort *cohort, enum hrf_figure_part from,
                        enum hrf_figure_part to)
{
    const struct hrf_figure_row *columns[2 * HRF_MAX_COLUMNS];
    const size_t n = columns_of(from, to, columns);
    int widths[2 * HRF_MAX_COLUMNS];
    hrf_cli_printf("%-10s", "");
    for (size_t k = 0; k < n; k++) {
        const int width = (int)strlen(columns[k]->short_heading);
        widths[k] = width > 9 ? width : 9;
        hrf_cli_printf(" %*s", widths[k], columns[k]->short_heading);
    }
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        hrf_cli_printf("\n%-10s", cohort->precisions[i].name);
        for (size_t k = 0; k < n; k++) {
            const double value = hrf_figure_value(columns[k], &cohort->precisions[i]);
            hrf_cli_printf(" %*s", widths[k],
                           isnan(value) ? "-" : hrf_figure_text(columns[k], value).text);
        }
    }
    hrf_cli_printf("\n");
}

static void print_drift(const struct hrf_cohort *cohort)
{
    print_table(cohort, HRF_FIGURES_EMBEDDING, HRF_FIGURES_EMBEDDING);
    hrf_cli_printf(
        "cos: cosine of a patch's embedding and %s's; neighbours: share of its 10 nearest "
        "patches of the slide that stay so\n",
        cohort->precisions[0].name);
    for (size_t i = 1; i < cohort->n_precisions; i++) {
        const struct hrf_figure *mean = &cohort->precisions[i].embeddings.cosine_mean;
        if (isnan(mean->value))
            hrf_cli_printf("%s: no cosine: %s\n", cohort->precisions[i].name, mean->reason);
    }
}

static void print_accuracy(const struct hrf_cohort *cohort)
{
    const struct hrf_figure *auc = &cohort->precisions[0].slides.auc;
    print_table(cohort, HRF_FIGURES_MOVED, HRF_FIGURES_LABELLED);
    hrf_cli_printf("flips: patches and slides whose label differs from %s's\n",
                   cohort->precisions[0].name);
    if (hrf_cohort_has_many_classes(cohort))
        hrf_cli_printf("slide AUC, AUC diff and p: of class %s against all others\n",
                       hrf_cohort_label(cohort, true));
    if (isnan(auc->value))
        hrf_cli_printf("no slide AUC: %s\n", auc->reason);
}

static void print_flips(const struct hrf_cohort *cohort, size_t index)
{
    const struct hrf_cohort_precision *p = &cohort->precisions[index];
    for (size_t k = 0; k < p->slides.n_flips; k++) {
        const struct hrf_cohort_slide *s = &cohort->slides[p->slides.flips[k]];
        HRF_AUTO_FREE char *name = hrf_text_escaped(s->name);
        hrf_cli_printf("%s: slide %s was %s (%.4f), is %s (%.4f)\n", p->name, name,
                       hrf_cohort_slide_label(cohort, &s->scores[0]), s->scores[0].value,
                       hrf_cohort_slide_label(cohort, &s->scores[index]), s->scores[index].value);
    }
    for (size_t k = 0; k < p->moved.n_top_flips; k++) {
        const struct hrf_patch_flip *f = &p->moved.difference.flips[p->moved.top_flips[k]];
        HRF_AUTO_FREE char *name = hrf_text_escaped(cohort->slides[f->slide].name);
        hrf_cli_printf("%s: patch %d,%d of %s was %s (%.4f), is %s (%.4f)\n", p->name, f->at.x,
                       f->at.y, name, hrf_cohort_class(cohort, f->reference_class),
                       (double)f->reference_score, hrf_cohort_class(cohort, f->new_class),
                       (double)f->score);
    }
    if (p->moved.n_top_flips < p->moved.difference.n_flips)
        hrf_cli_printf("%s: and %zu more patches; --out DIR lists them all\n", p->name,
                       p->moved.difference.n_flips - p->moved.n_top_flips);
}

static void print_compare_text(const struct hrf_run_pair *pair, const char *const directories[2])
{
    hrf_cli_printf(
        "A: %s\nB: %s\n%zu slides in both; %lld patches in both, %lld only in A, %lld only in B\n",
        directories[0], directories[1], pair->cohort->n_slides, (long long)pair->n_patches,
        (long long)pair->n_only[0], (long long)pair->n_only[1]);
    for (size_t i = 0; i < pair->n_notes; i++) {
        HRF_AUTO_FREE char *name = hrf_text_escaped(pair->notes[i].slide);
        hrf_cli_printf("  %s: %s\n", name, pair->notes[i].text);
    }
    hrf_cli_printf("\n");
    if (pair->cohort->is_embedding)
        print_drift(pair->cohort);
    if (!hrf_cohort_scores_slides(pair->cohort))
        return;
    print_accuracy(pair->cohort);
    for (size_t i = 1; i < pair->cohort->n_precisions; i++)
        print_flips(pair->cohort, i);
}

static enum hrf_status print_pair(const struct hrf_run_pair *pair, const char *const directories[2],
                                  const char *out, bool json, struct hrf_error *err)
{
    if (out != NULL)
        HRF_TRY(hrf_report_pair_write(pair, directories, out, err));
    if (!json) {
        print_compare_text(pair, directories);
        return HRF_OK;
    }
    HRF_AUTO_JSON root = hrf_report_pair_json(pair, directories);
    HRF_AUTO_FREE char *text = hrf_json_text(root);
    puts(text);
    return HRF_OK;
}

static int compare_main(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_option_list set = { .n_items = 0 };
    const char *out = NULL;
    bool json = false;
    const struct hrf_option options[] = {
        { "out", "DIR", "write compare.json, study.csv, patch-flips.csv and index.html there",
          HRF_OPTION(&out) },
        { "set", "KEY=VALUE",
          "override aggregate keys for both, e.g. aggregate.threshold=0.3; may be repeated",
          HRF_OPTION(&set) },
        { "json", NULL, "print the figures as JSON", HRF_OPTION(&json) },
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
        status = print_pair(pair, args.operands, out, json, &err);
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
    .run = compare_main,
};
