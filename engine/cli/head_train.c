/* head_train.c - `head train`: all folds and seeds of a file, one process each or in turn. */
#include "base/directory.h"
#include "base/json.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/process.h"
#include "engine/cli/head.h"
#include "heads/train/train.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct cohort {
    const struct hrf_head_request *request;
    struct hrf_recipe *recipe;
    struct hrf_head_slides *slides;
    int64_t n_folds, n_tasks;
};

static struct hrf_training task_of(const struct cohort *c, int64_t i, char **folder)
{
    struct hrf_training t = { .recipe = c->recipe, .slides = c->slides, .version = HRF_VERSION };
    t.fold = i % c->n_folds;
    t.seed = strtoll(c->recipe->seeds.items[i / c->n_folds], NULL, 10);
    HRF_AUTO_FREE char *name = hrf_training_name(t.fold, t.seed);
    *folder = name != NULL ? hrf_path_join(c->recipe->out, name) : NULL;
    t.folder = *folder;
    return t;
}

static bool is_wanted(const struct cohort *c, int64_t i)
{
    const struct hrf_head_request *r = c->request;
    return (r->fold < 0 || r->fold == i % c->n_folds) &&
           (r->seed == NULL || strcmp(r->seed, c->recipe->seeds.items[i / c->n_folds]) == 0);
}

static void remove_checkpoint(const char *folder)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "checkpoint.bin");
    if (path != NULL)
        unlink(path);
}

/* Trains one fold and seed in this process, unless it is done. */
static enum hrf_status run_task(const struct cohort *c, int64_t i, struct hrf_error *err)
{
    HRF_AUTO_FREE char *folder = NULL;
    const struct hrf_training t = task_of(c, i, &folder);
    struct hrf_training_figures figures;
    HRF_CHECK_MEMORY(folder != NULL, err, "no memory for a path");
    if (hrf_training_is_done(&t, &figures)) {
        remove_checkpoint(folder); /* of a process that ended just before it would have */
        return HRF_OK;
    }
    HRF_TRY(hrf_path_make_directories(folder, err));
    return hrf_training_run(&t, err);
}

/* ---- side by side ---- */

static enum hrf_status start_task(const struct cohort *c, int64_t i, const char *program,
                                  int64_t n_threads, pid_t *pid, struct hrf_error *err)
{
    char fold[24], threads[24];
    snprintf(fold, sizeof fold, "%lld", (long long)(i % c->n_folds));
    snprintf(threads, sizeof threads, "%lld", (long long)n_threads);
    const char *const argv[] = {
        program,     "head",  "train",  c->request->files[0],
        "--fold",    fold,    "--seed", c->recipe->seeds.items[i / c->n_folds],
        "--threads", threads, NULL
    };
    return hrf_process_start(argv, NULL, false, pid, err);
}

/* Waits for one child; whether it succeeded. */
static enum hrf_status wait_for_one(struct hrf_error *err)
{
    int how = 0;
    pid_t pid;
    do
        pid = waitpid(-1, &how, 0);
    while (pid < 0 && errno == EINTR);
    const struct hrf_process_result result = hrf_process_decode(how);
    if (pid < 0 || !result.exited || result.exit_code != 0)
        return hrf_error_set(err, HRF_E_EXTERNAL,
                             "a training ended with %s %d; what is done is kept: run it again to "
                             "go on",
                             result.exited ? "exit code" : "signal",
                             result.exited ? result.exit_code : result.signal);
    return HRF_OK;
}

static enum hrf_status run_side_by_side(const struct cohort *c, int64_t n_threads,
                                        struct hrf_error *err)
{
    HRF_AUTO_FREE char *program = NULL;
    enum hrf_status status = HRF_OK;
    int64_t n_running = 0;
    HRF_TRY(hrf_process_self(&program, err));
    for (int64_t i = 0; i < c->n_tasks && status == HRF_OK; i++) {
        HRF_AUTO_FREE char *folder = NULL;
        const struct hrf_training t = task_of(c, i, &folder);
        struct hrf_training_figures figures;
        pid_t pid = 0;
        if (!is_wanted(c, i) || (folder != NULL && hrf_training_is_done(&t, &figures)))
            continue;
        if (n_running == c->request->jobs) {
            status = wait_for_one(err);
            n_running--;
        }
        if (status == HRF_OK)
            status = start_task(c, i, program, n_threads, &pid, err);
        n_running += status == HRF_OK;
    }
    for (; n_running > 0; n_running--) {
        const enum hrf_status end = wait_for_one(status == HRF_OK ? err : NULL);
        status = status == HRF_OK ? end : status;
    }
    return status;
}

/* ---- the summary ---- */

struct mean {
    double sum, squares;
    int64_t n;
};

static void mean_add(struct mean *m, double value)
{
    if (!isfinite(value))
        return;
    m->sum += value;
    m->squares += value * value;
    m->n++;
}

/* {"mean", "deviation", "n"}; null where there is nothing to compute it from. */
static json_t *mean_json(const struct mean *m)
{
    const double n = (double)m->n, mean = m->n > 0 ? m->sum / n : NAN;
    const double variance = m->n > 1 ? (m->squares - m->sum * mean) / (n - 1) : NAN;
    return json_pack("{s:o, s:o, s:I}", "mean", hrf_json_number(mean), "deviation",
                     hrf_json_number(variance > 0 ? sqrt(variance)
                                     : m->n > 1   ? 0
                                                  : NAN),
                     "n", (json_int_t)m->n);
}

static json_t *task_json(const struct hrf_training *t, const struct hrf_training_figures *f)
{
    HRF_AUTO_FREE char *name = hrf_training_name(t->fold, t->seed);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s}", "name",
                     name != NULL ? name : "", "fold", (json_int_t)t->fold, "seed",
                     (json_int_t)t->seed, "training_slides", (json_int_t)f->n_training,
                     "validation_slides", (json_int_t)f->n_validation, "testing_slides",
                     (json_int_t)f->n_testing, "epochs", (json_int_t)f->n_epochs, "best_epoch",
                     (json_int_t)f->best_epoch, "auc", hrf_json_number(f->auc), "balanced_accuracy",
                     hrf_json_number(f->balanced_accuracy), "why_no_figure", f->why);
}

static enum hrf_status summarise(const struct cohort *c, json_t **out, struct hrf_error *err)
{
    struct mean auc = { .n = 0 }, accuracy = { .n = 0 };
    json_t *tasks = json_array();
    for (int64_t i = 0; i < c->n_tasks; i++) {
        HRF_AUTO_FREE char *folder = NULL;
        const struct hrf_training t = task_of(c, i, &folder);
        struct hrf_training_figures f;
        if (folder == NULL || !hrf_training_is_done(&t, &f))
            continue;
        mean_add(&auc, f.auc);
        mean_add(&accuracy, f.balanced_accuracy);
        json_array_append_new(tasks, task_json(&t, &f));
    }
    *out = json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:s, s:o, s:o, s:o}", "version", 1, "head",
                     hrf_head_words[c->recipe->kind], "slides", (json_int_t)c->slides->n_items,
                     "without_label", (json_int_t)c->slides->n_unlabelled, "without_features",
                     (json_int_t)c->slides->n_without_file, "without_patches",
                     (json_int_t)c->slides->n_empty, "features", c->slides->origin, "auc",
                     mean_json(&auc), "balanced_accuracy", mean_json(&accuracy), "trainings",
                     tasks);
    HRF_CHECK_MEMORY(*out != NULL, err, "no memory for the summary");
    return HRF_OK;
}

static void print_mean(const json_t *summary, const char *key, const char *shown)
{
    const json_t *m = json_object_get(summary, key);
    const json_t *mean = json_object_get(m, "mean"), *far = json_object_get(m, "deviation");
    if (!json_is_number(mean))
        printf("%s: not known (summary.json says why)\n", shown);
    else if (!json_is_number(far))
        printf("%s: %.4f\n", shown, json_number_value(mean));
    else
        printf("%s: %.4f +- %.4f over %lld trainings\n", shown, json_number_value(mean),
               json_number_value(far), (long long)json_integer_value(json_object_get(m, "n")));
}

static enum hrf_status write_summary(const struct cohort *c, struct hrf_error *err)
{
    HRF_AUTO_JSON summary = NULL;
    HRF_AUTO_FREE char *path = hrf_path_join(c->recipe->out, "summary.json");
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    HRF_TRY(summarise(c, &summary, err));
    HRF_TRY(hrf_json_write_file(path, summary, err));
    if (c->request->json) {
        HRF_AUTO_FREE char *text = hrf_json_text(summary);
        printf("%s\n", text != NULL ? text : "{}");
        return HRF_OK;
    }
    printf("%s: %zu slides", hrf_head_words[c->recipe->kind], c->slides->n_items);
    if (c->slides->n_unlabelled + c->slides->n_without_file + c->slides->n_empty > 0)
        printf(" (left out: %zu without label, %zu without features, %zu without patches)",
               c->slides->n_unlabelled, c->slides->n_without_file, c->slides->n_empty);
    putchar('\n');
    print_mean(summary, "auc", "AUC of the slides for testing");
    print_mean(summary, "balanced_accuracy", "balanced accuracy");
    return HRF_OK;
}

/* ---- the command ---- */

static enum hrf_status check_options(const struct cohort *c, struct hrf_error *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_tasks; i++)
        n += is_wanted(c, i);
    if (n == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "no training is of --fold and --seed; there are %lld folds, from 0, "
                             "and the seeds of train.seeds",
                             (long long)c->n_folds);
    return HRF_OK;
}

static enum hrf_status train_all(struct cohort *c, struct hrf_error *err)
{
    const struct hrf_head_request *r = c->request;
    const bool is_one = r->fold >= 0 && r->seed != NULL;
    int64_t n_threads = r->threads;
    if (c->slides->n_without_file > 0)
        fprintf(stderr, "%zu slides of '%s' have no features in '%s', e.g. '%s'\n",
                c->slides->n_without_file, c->recipe->labels, c->recipe->features,
                c->slides->first_without_file != NULL ? c->slides->first_without_file : "");
    HRF_TRY(hrf_training_check_processor(err));
    HRF_TRY(check_options(c, err));
    HRF_TRY(hrf_path_make_directories(c->recipe->out, err));
    if (n_threads == 0)
        n_threads = hrf_process_cpu_count() / r->jobs;
    n_threads = n_threads > 0 ? n_threads : 1;
    if (r->jobs > 1 && !is_one) {
        HRF_TRY(run_side_by_side(c, n_threads, err));
    } else {
        omp_set_num_threads((int)n_threads);
        for (int64_t i = 0; i < c->n_tasks; i++)
            if (is_wanted(c, i))
                HRF_TRY(run_task(c, i, err));
    }
    return is_one ? HRF_OK : write_summary(c, err);
}

enum hrf_status hrf_head_train(const struct hrf_head_request *request, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) findings = HRF_STRBUF_INIT;
    HRF_AUTO(hrf_recipe) recipe = NULL;
    HRF_AUTO(hrf_head_slides) slides = NULL;
    if (request->keys) {
        hrf_recipe_print_keys(&findings);
        fputs(findings.text, stdout);
        return hrf_strbuf_status(&findings, err);
    }
    if (request->n_files != 1)
        return hrf_error_set(err, HRF_E_USER, "train needs one file");
    const enum hrf_status status = hrf_recipe_read(request->files[0], &recipe, &findings, err);
    fputs(findings.text, stderr);
    HRF_TRY(status);
    HRF_TRY(hrf_head_slides_read(recipe, &slides, err));
    struct cohort cohort = { .request = request, .recipe = recipe, .slides = slides };
    cohort.n_folds = recipe->split == HRF_SPLIT_FOLDS ? recipe->folds : 1;
    cohort.n_tasks = cohort.n_folds * recipe->seeds.n_items;
    return train_all(&cohort, err);
}
