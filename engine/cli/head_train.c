/* head_train.c - `head train`: all folds and seeds of a file, one process each or in turn. */
#include "base/directory.h"
#include "base/json.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/process.h"
#include "engine/cli/head.h"
#include "heads/train/head_figures.h"
#include "heads/train/train.h"
#include "statistics/figure.h"

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
    *folder = hrf_path_join(c->recipe->out, name);
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
    unlink(path);
}

/* Trains one fold and seed in this process, unless it is done. */
static enum hrf_status run_task(const struct cohort *c, int64_t i, struct hrf_error *err)
{
    HRF_AUTO_FREE char *folder = NULL;
    const struct hrf_training t = task_of(c, i, &folder);
    struct hrf_training_figures figures;
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
    if (pid > 0 && result.exited && result.exit_code == 2) /* hrf_engine_fail() */
        return hrf_error_set(err, HRF_E_USER, "a training cannot be done, for the reason above");
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
        if (!is_wanted(c, i) || hrf_training_is_done(&t, &figures))
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
    json_t *object = json_object();
    hrf_json_put_number(object, "mean", mean);
    hrf_json_put_number(object, "deviation", variance > 0 ? sqrt(variance) : m->n > 1 ? 0 : NAN);
    hrf_json_put_int(object, "n", m->n);
    return object;
}

/* One for each row of hrf_head_figure_rows. */
typedef struct mean head_means[HRF_MAX_COLUMNS];

static void add_figures(head_means means, const struct hrf_head_figures *figures)
{
    for (size_t i = 0; hrf_head_figure_rows[i].key != NULL; i++)
        mean_add(&means[i], hrf_figure_value(&hrf_head_figure_rows[i], figures));
}

static void put_means(json_t *object, const head_means means)
{
    for (size_t i = 0; hrf_head_figure_rows[i].key != NULL; i++)
        hrf_json_put(object, hrf_head_figure_rows[i].key, mean_json(&means[i]));
}

struct summary {
    head_means each;   /* over the trainings, of their own figures */
    head_means pooled; /* over the seeds, of all slides that were tested, each once for a seed */
    int64_t n_slides;  /* of the pooled figures */
    char why[160];     /* of a seed without figures */
    json_t *trainings; /* borrowed */
};

static enum hrf_status add_seed(const struct cohort *c, int64_t seed, struct summary *s,
                                struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_head_scored) scored = { .n = 0 };
    enum hrf_status status = HRF_OK;
    for (int64_t fold = 0; fold < c->n_folds && status == HRF_OK; fold++) {
        HRF_AUTO_FREE char *folder = NULL;
        const struct hrf_training t = task_of(c, seed * c->n_folds + fold, &folder);
        HRF_AUTO_FREE char *path = hrf_path_join(folder, "predictions.csv");
        struct hrf_training_figures f;
        if (!hrf_training_is_done(&t, &f))
            continue;
        HRF_AUTO_FREE char *name = hrf_training_name(t.fold, t.seed);
        json_t *training = hrf_training_json(&t, &f);
        hrf_json_put_text(training, "name", name);
        hrf_json_add(s->trainings, training);
        add_figures(s->each, &f.testing);
        status = hrf_head_scored_read(&scored, path, &c->recipe->classes, err);
    }
    const struct hrf_head_figures f = hrf_head_figures_of(&scored, &c->recipe->classes, "testing");
    add_figures(s->pooled, &f);
    s->n_slides = (int64_t)scored.n > s->n_slides ? (int64_t)scored.n : s->n_slides;
    if (f.why[0] != '\0')
        memcpy(s->why, f.why, sizeof f.why);
    return status;
}

static enum hrf_status summarise(const struct cohort *c, json_t *out, struct hrf_error *err)
{
    json_t *pooled = json_object();
    struct summary s = { .n_slides = 0, .trainings = json_array() };
    hrf_json_put(out, "trainings", s.trainings);
    hrf_json_put(out, "pooled", pooled);
    for (int64_t seed = 0; seed < c->n_tasks / c->n_folds; seed++)
        HRF_TRY(add_seed(c, seed, &s, err));
    hrf_json_put_int(pooled, "slides", s.n_slides);
    hrf_json_put_text(pooled, "why_no_figure", s.why);
    put_means(pooled, s.pooled);
    put_means(out, s.each);
    hrf_json_put_int(out, "version", 1);
    hrf_json_put_text(out, "head", hrf_head_kind_names[c->recipe->kind]);
    hrf_json_put_int(out, "slides", (int64_t)c->slides->n_items);
    hrf_json_put_int(out, "without_label", (int64_t)c->slides->n_unlabelled);
    hrf_json_put_int(out, "without_features", (int64_t)c->slides->n_without_file);
    hrf_json_put_int(out, "without_patches", (int64_t)c->slides->n_empty);
    hrf_json_put_text(out, "features", c->slides->origin);
    return HRF_OK;
}

/* "0.8958 +- 0.0722" */
static void print_mean(const json_t *m)
{
    const json_t *deviation = json_object_get(m, "deviation");
    printf("%.4f", json_number_value(json_object_get(m, "mean")));
    if (json_is_number(deviation))
        printf(" +- %.4f", json_number_value(deviation));
}

static void print_figure(const json_t *summary, const struct hrf_figure_row *row)
{
    const json_t *pooled = json_object_get(summary, "pooled");
    const json_t *all = json_object_get(pooled, row->key);
    const json_t *each = json_object_get(summary, row->key);
    const long long n_seeds = json_integer_value(json_object_get(all, "n"));
    printf("%s: ", row->heading);
    if (n_seeds == 0) {
        printf("not known: %s\n", json_string_value(json_object_get(pooled, "why_no_figure")));
        return;
    }
    print_mean(all);
    printf(" over %lld slides", (long long)json_integer_value(json_object_get(pooled, "slides")));
    if (n_seeds > 1)
        printf(" and %lld seeds", n_seeds);
    const long long n_each = json_integer_value(json_object_get(each, "n"));
    const size_t n_trainings = json_array_size(json_object_get(summary, "trainings"));
    if (n_trainings > 1 && n_each > 0) {
        printf("; training by training ");
        print_mean(each);
        printf(", %lld of %zu", n_each, n_trainings);
    }
    putchar('\n');
}

static enum hrf_status write_summary(const struct cohort *c, struct hrf_error *err)
{
    HRF_AUTO_JSON summary = json_object();
    HRF_AUTO_FREE char *path = hrf_path_join(c->recipe->out, "summary.json");
    HRF_TRY(summarise(c, summary, err));
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
    for (const struct hrf_figure_row *row = hrf_head_figure_rows; row->key != NULL; row++)
        print_figure(summary, row);
    return HRF_OK;
}

/* ---- the command ---- */

/* Finds what would end a training before the first one begins: its share of the classes, and
 * numbers that are not finite. */
static enum hrf_status check_trainings(const struct cohort *c, struct hrf_error *err)
{
    HRF_AUTO_FREE enum hrf_head_part *parts = hrf_alloc_array(c->slides->n_items, sizeof *parts);
    int64_t n_wanted = 0, n_to_do = 0;
    for (int64_t i = 0; i < c->n_tasks; i++) {
        HRF_AUTO_FREE char *folder = NULL;
        const struct hrf_training t = task_of(c, i, &folder);
        struct hrf_training_figures figures;
        if (!is_wanted(c, i))
            continue;
        n_wanted++;
        if (!hrf_training_is_done(&t, &figures)) {
            n_to_do++;
            HRF_TRY(hrf_head_slides_split(c->slides, c->recipe, t.fold, parts, err));
        }
    }
    if (n_wanted == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "no training is of --fold and --seed; there are %lld folds, from 0, "
                             "and the seeds of train.seeds",
                             (long long)c->n_folds);
    return n_to_do > 0 ? hrf_head_slides_check_numbers(c->slides, c->recipe, err) : HRF_OK;
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
    HRF_TRY(check_trainings(c, err));
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
    struct cohort cohort = { .request = request, .recipe = recipe, .slides = slides };
    cohort.n_folds = recipe->split == HRF_SPLIT_FOLDS ? recipe->folds : 1;
    cohort.n_tasks = cohort.n_folds * (int64_t)recipe->seeds.n_items;
    return train_all(&cohort, err);
}
