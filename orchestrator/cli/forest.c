/* forest.c - `forest features|train|score`: slides by a random forest over heat-map features. */
#include "aggregate/forest/forest.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/path.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/run/params.h"

#include <stdio.h>
#include <string.h>

struct request {
    const char *out, *forest, *precision;
    double threshold;
    bool seen;
    struct hrf_forest_options options;
    const char *const *files; /* operands after the verb */
    int n_files;
};

static enum hrf_status write_text(const char *path, const struct hrf_strbuf *text,
                                  struct hrf_error *err)
{
    if (path != NULL)
        return hrf_file_write_atomic(path, text->text, text->length, err);
    fwrite(text->text, 1, text->length, stdout);
    return HRF_OK;
}

/* ---- features of a run ---- */

struct source {
    struct hrf_workflow *workflow;
    struct hrf_store *store;
    struct hrf_aggregate_params params;
    const char *precisions[HRF_MOST_VARIANTS];
    struct hrf_slide_rows rows;
};

static void source_release(struct source *s)
{
    hrf_slide_rows_release(&s->rows);
    hrf_store_close(s->store);
    hrf_workflow_destroy(s->workflow);
}

static enum hrf_status add_slide(const struct source *s, const struct hrf_slide_row *row,
                                 const struct request *r, struct hrf_strbuf *out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_scores) scores = NULL;
    double features[HRF_MAP_FEATURES];
    HRF_TRY(hrf_store_get_tile_plan(s->store, row->id, &plan, err));
    HRF_TRY(hrf_store_get_scores(
        s->store, row->id, r->precision != NULL ? r->precision : s->precisions[0], &scores, err));
    if (scores->n_patches != plan->n_patches || s->params.positive >= (size_t)scores->n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "slide '%s' has patches without a score, or no score for the positive "
                             "class; run it to its end first",
                             row->name);
    HRF_TRY(hrf_map_features_of_patches(plan, scores->probabilities + s->params.positive,
                                        (size_t)scores->n_classes, r->threshold, features, err));
    hrf_feature_table_add_row(out, row->name, row->truth, features);
    return HRF_OK;
}

static enum hrf_status gather_tables(struct source *s, const struct request *r,
                                     struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    struct hrf_option_list none = { .n_items = 0 };
    HRF_AUTO_FREE char *file = hrf_path_join(r->files[0], "workflow.yaml");
    HRF_TRY(hrf_store_open_run(r->files[0], &s->store, err));
    HRF_TRY(hrf_cli_load(file, &none, &s->workflow, err));
    hrf_run_params_fill(s->workflow, s->precisions, &s->params);
    if (s->params.is_embedding)
        return hrf_error_set(err, HRF_E_USER, "a run of embeddings has no heat maps");
    HRF_TRY(hrf_store_get_slides(s->store, &s->rows, err));
    hrf_feature_table_add_titles(&out);
    for (size_t i = 0; i < s->rows.n_items; i++) {
        const struct hrf_slide_row *row = &s->rows.items[i];
        struct hrf_error why = { .status = HRF_OK };
        if (row->calibrates || row->state != HRF_SLIDE_DONE)
            continue;
        const enum hrf_status status = add_slide(s, row, r, &out, &why);
        if (status != HRF_OK)
            return hrf_error_set(err, status, "slide '%s': %s", row->name, why.text);
    }
    return write_text(r->out, &out, err);
}

static enum hrf_status features(const struct request *r, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(source) source = { .workflow = NULL };
    return gather_tables(&source, r, err);
}

/* ---- train, score ---- */

static enum hrf_status read_tables(const struct request *r, struct hrf_feature_table **table,
                                   struct hrf_error *err)
{
    for (int i = 0; i < r->n_files; i++)
        HRF_TRY(hrf_feature_table_read(r->files[i], table, err));
    return HRF_OK;
}

static enum hrf_status train(const struct request *r, struct hrf_error *err)
{
    HRF_AUTO(hrf_feature_table) table = NULL;
    HRF_AUTO(hrf_forest) forest = NULL;
    if (r->out == NULL)
        return hrf_error_set(err, HRF_E_USER, "--out FILE is missing");
    HRF_TRY(read_tables(r, &table, err));
    HRF_TRY(hrf_forest_train(table, &r->options, &forest, err));
    HRF_TRY(hrf_forest_write(forest, r->out, err));
    fprintf(stderr, "%s: %lld trees on %zu slides\n", r->out, (long long)r->options.n_trees,
            table->n_rows);
    return HRF_OK;
}

static enum hrf_status forest_score(const struct request *r, struct hrf_error *err)
{
    HRF_AUTO(hrf_feature_table) table = NULL;
    HRF_AUTO(hrf_forest) forest = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    if (r->forest == NULL)
        return hrf_error_set(err, HRF_E_USER, "--forest FILE is missing");
    HRF_TRY(read_tables(r, &table, err));
    HRF_TRY(hrf_forest_read(r->forest, &forest, err));
    HRF_AUTO_FREE float *scores = hrf_try_alloc_array(table->n_rows + 1, sizeof *scores);
    HRF_CHECK_MEMORY(scores != NULL, err, "no memory for %zu scores", table->n_rows);
    HRF_TRY(hrf_forest_score(forest, table, r->seen, scores, err));
    hrf_strbuf_adds(&out, "slide,score\n");
    for (size_t i = 0; i < table->n_rows; i++) {
        hrf_csv_add_cell(&out, table->rows[i].slide);
        hrf_strbuf_addf(&out, ",%.9g\n", (double)scores[i]);
    }
    return write_text(r->out, &out, err);
}

static int forest_main(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .threshold = 0.7, .options = HRF_FOREST_DEFAULTS };
    const struct hrf_option options[] = {
        { "out", "FILE", "where to write: the table, the forest, or the scores",
          HRF_OPTION(&r.out) },
        { "forest", "FILE", "score: the forest", HRF_OPTION(&r.forest) },
        { "precision", "P", "features: use the scores of this precision (default: the run's first)",
          HRF_OPTION(&r.precision) },
        { "threshold", "P", "features: patches with a score above this form regions",
          HRF_OPTION_NUMBER(&r.threshold, 0, 1) },
        { "trees", "N", "train: number of trees",
          HRF_OPTION_NUMBER(&r.options.n_trees, 1, 100000) },
        { "depth", "N", "train: largest depth of a tree",
          HRF_OPTION_NUMBER(&r.options.max_depth, 1, 30) },
        { "seed", "N", "train: seed of the random draws",
          HRF_OPTION_NUMBER(&r.options.seed, 0, HRF_UNBOUNDED) },
        { "seen", NULL, "score: also score slides that the forest was trained on",
          HRF_OPTION(&r.seen) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    r.files = args.operands + 1;
    r.n_files = args.n_operands - 1;
    enum hrf_status status = HRF_OK;
    if (strcmp(args.operands[0], "features") == 0)
        status = features(&r, &err);
    else if (strcmp(args.operands[0], "train") == 0)
        status = train(&r, &err);
    else if (strcmp(args.operands[0], "score") == 0)
        status = forest_score(&r, &err);
    else
        status = hrf_error_set(&err, HRF_E_USER, "'%s' is none of features, train and score",
                               args.operands[0]);
    return status == HRF_OK ? 0 : hrf_cli_fail(command->name, &err);
}

const struct hrf_command hrf_cli_forest = {
    .name = "forest",
    .operands = "features DIR | train TABLE... | score TABLE...",
    .summary = "score slides by a random forest over 30 features of their heat maps",
    .details =
        "The way of CAMELYON16's winners. `features DIR` makes a table of a run's slides, "
        "`train` a forest of one or more tables with truths, `score` the csv of slide scores "
        "that `evaluate --slides` reads. A slide that the forest was trained on is refused.",
    .min_operands = 2,
    .max_operands = -1,
    .run = forest_main,
};
