/* head_train.c - `head train`: all folds and seeds of a file, one process each or in turn. */
#include "base/directory.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/cli/head.h"
#include "heads/train/train.h"
#include "training/cohort/folds_and_seeds.h"
#include "training/cohort/training_files.h"

#include <stdio.h>

struct cohort {
    const struct hrf_head_request *request;
    struct hrf_recipe *recipe;
    struct hrf_head_slides *slides;
    struct hrf_trainings all;
};

static struct hrf_training task_of(const struct cohort *c, int64_t i, char **folder)
{
    *folder = hrf_trainings_folder(&c->all, i);
    return (struct hrf_training){ .recipe = c->recipe,
                                  .slides = c->slides,
                                  .version = HRF_VERSION,
                                  .fold = i % c->all.n_folds,
                                  .seed = hrf_trainings_seed(&c->all, i),
                                  .folder = *folder };
}

static bool find_result(void *context, int64_t i, struct hrf_scored_figures *out, json_t **json)
{
    HRF_AUTO_FREE char *folder = NULL;
    const struct hrf_training t = task_of(context, i, &folder);
    struct hrf_training_figures figures;
    if (!hrf_training_is_done(&t, &figures))
        return false;
    if (out != NULL)
        *out = figures.testing;
    if (json != NULL)
        *json = hrf_training_figures_json(hrf_training_of_slides_rows, HRF_LABEL_CLASS, t.fold,
                                          t.seed, &figures);
    return true;
}

/* Trains one fold and seed in this process, unless it is done. */
static enum hrf_status train_one(void *context, int64_t i, struct hrf_error *err)
{
    HRF_AUTO_FREE char *folder = NULL;
    const struct hrf_training t = task_of(context, i, &folder);
    struct hrf_training_figures figures;
    if (hrf_training_is_done(&t, &figures)) {
        hrf_training_remove_checkpoint(
            folder); /* of a process that ended just before it would have */
        return HRF_OK;
    }
    HRF_TRY(hrf_path_make_directories(folder, err));
    return hrf_training_run(&t, err);
}

static enum hrf_status write_summary(const struct cohort *c, struct hrf_error *err)
{
    HRF_AUTO_JSON summary = json_object();
    HRF_AUTO_FREE char *path = hrf_path_join(c->recipe->out, "summary.json");
    HRF_TRY(hrf_trainings_summarise(&c->all, summary, err));
    hrf_json_put_text(summary, "head", hrf_head_kind_names[c->recipe->kind]);
    hrf_json_put_int(summary, "slides", (int64_t)c->slides->n_items);
    hrf_json_put_int(summary, "without_label", (int64_t)c->slides->n_unlabelled);
    hrf_json_put_int(summary, "without_features", (int64_t)c->slides->n_without_file);
    hrf_json_put_int(summary, "without_patches", (int64_t)c->slides->n_empty);
    hrf_json_put_text(summary, "features", c->slides->origin);
    HRF_TRY(hrf_json_write_file(path, summary, err));
    if (c->request->json) {
        hrf_json_print(summary);
        return HRF_OK;
    }
    printf("%s: %zu slides", hrf_head_kind_names[c->recipe->kind], c->slides->n_items);
    if (c->slides->n_unlabelled + c->slides->n_without_file + c->slides->n_empty > 0)
        printf(" (left out: %zu without label, %zu without features, %zu without patches)",
               c->slides->n_unlabelled, c->slides->n_without_file, c->slides->n_empty);
    putchar('\n');
    hrf_trainings_print(&c->all, summary);
    return HRF_OK;
}

/* ---- the command ---- */

/* Finds what would end a training before the first one begins: its share of the classes, and
 * numbers that are not finite. */
static enum hrf_status check_trainings(const struct cohort *c, struct hrf_error *err)
{
    HRF_AUTO_FREE enum hrf_training_part *parts = hrf_alloc_array(c->slides->n_items,
                                                                  sizeof *parts);
    int64_t n_to_do = 0;
    HRF_TRY(hrf_trainings_check(&c->all, err));
    for (int64_t i = 0; i < hrf_trainings_count(&c->all); i++)
        if (hrf_trainings_is_wanted(&c->all, i) && !find_result(c->all.context, i, NULL, NULL)) {
            n_to_do++;
            HRF_TRY(hrf_head_slides_split(c->slides, c->recipe, i % c->all.n_folds, parts, err));
        }
    return n_to_do > 0 ? hrf_head_slides_check_numbers(c->slides, c->recipe, err) : HRF_OK;
}

static enum hrf_status train_all(struct cohort *c, struct hrf_error *err)
{
    if (c->slides->n_without_file > 0)
        fprintf(stderr, "%zu slides of '%s' have no features in '%s', e.g. '%s'\n",
                c->slides->n_without_file, c->recipe->labels, c->recipe->features,
                c->slides->first_without_file != NULL ? c->slides->first_without_file : "");
    HRF_TRY(check_trainings(c, err));
    HRF_TRY(hrf_path_make_directories(c->recipe->out, err));
    HRF_TRY(hrf_trainings_run(&c->all, err));
    return hrf_trainings_is_one(&c->all) ? HRF_OK : write_summary(c, err);
}

enum hrf_status hrf_head_train(const struct hrf_head_request *request, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    HRF_AUTO(hrf_recipe) recipe = NULL;
    HRF_AUTO(hrf_head_slides) slides = NULL;
    if (request->keys) {
        hrf_recipe_print_keys(&findings.text);
        fputs(findings.text.text, stdout);
        return HRF_OK;
    }
    if (request->n_files != 1)
        return hrf_error_set(err, HRF_E_USER, "train needs one file");
    const enum hrf_status status = hrf_recipe_read(request->files[0], &recipe, &findings, err);
    fputs(findings.text.text, stderr);
    HRF_TRY(status);
    HRF_TRY(hrf_head_slides_read(recipe, &slides, err));
    const char *const arguments[] = { "head", "train", request->files[0], NULL };
    struct cohort cohort = { .request = request, .recipe = recipe, .slides = slides };
    cohort.all = (struct hrf_trainings){
        .n_folds = recipe->split == HRF_SPLIT_FOLDS ? recipe->folds : 1,
        .seeds = &recipe->seeds,
        .out = recipe->out,
        .only_fold = request->fold,
        .only_seed = request->seed,
        .jobs = request->jobs,
        .threads = request->threads,
        .arguments = arguments,
        .classes = &recipe->classes,
        .nouns = "slides",
        .context = &cohort,
        .find_result = find_result,
        .train = train_one,
    };
    return train_all(&cohort, err);
}
