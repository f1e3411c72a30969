/* folds_and_seeds.c - trainings side by side, and what they come to. */
#include "training/cohort/folds_and_seeds.h"

#include "base/own_process.h"
#include "base/path.h"
#include "base/process.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int64_t hrf_trainings_seed(const struct hrf_trainings *t, int64_t i)
{
    return strtoll(t->seeds->items[i / t->n_folds], NULL, 10);
}

bool hrf_trainings_is_seed(const char *text)
{
    char *end = NULL;
    errno = 0;
    const long long seed = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && seed >= 0 && seed <= 1000000000000000;
}

char *hrf_training_name(int64_t fold, int64_t seed)
{
    return hrf_format("fold-%lld-seed-%lld", (long long)fold, (long long)seed);
}

char *hrf_trainings_folder(const struct hrf_trainings *t, int64_t i)
{
    HRF_AUTO_FREE char *name = hrf_training_name(i % t->n_folds, hrf_trainings_seed(t, i));
    return hrf_path_join(t->out, name);
}

bool hrf_trainings_is_wanted(const struct hrf_trainings *t, int64_t i)
{
    return (t->only_fold < 0 || t->only_fold == i % t->n_folds) &&
           (t->only_seed == NULL || strcmp(t->only_seed, t->seeds->items[i / t->n_folds]) == 0);
}

bool hrf_trainings_is_one(const struct hrf_trainings *t)
{
    return t->only_fold >= 0 && t->only_seed != NULL;
}

enum hrf_status hrf_trainings_check(const struct hrf_trainings *t, struct hrf_error *err)
{
    for (int64_t i = 0; i < hrf_trainings_count(t); i++)
        if (hrf_trainings_is_wanted(t, i))
            return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "no training is of --fold and --seed; there are %lld folds, from 0, and "
                         "the seeds of train.seeds",
                         (long long)t->n_folds);
}

/* ---- side by side ---- */

static enum hrf_status start_one(const struct hrf_trainings *t, int64_t i, const char *program,
                                 int64_t n_threads, pid_t *pid, struct hrf_error *err)
{
    enum { MOST = 16 };
    const char *argv[MOST] = { program };
    char fold[24], threads[24];
    int n = 1;
    snprintf(fold, sizeof fold, "%lld", (long long)(i % t->n_folds));
    snprintf(threads, sizeof threads, "%lld", (long long)n_threads);
    const char *const own[] = { "--fold",    fold,    "--seed", t->seeds->items[i / t->n_folds],
                                "--threads", threads, NULL };
    for (const char *const *a = t->arguments; *a != NULL && n < MOST - 7; a++)
        argv[n++] = *a;
    for (const char *const *a = own; *a != NULL; a++)
        argv[n++] = *a;
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

static enum hrf_status run_side_by_side(const struct hrf_trainings *t, int64_t n_threads,
                                        struct hrf_error *err)
{
    HRF_AUTO_FREE char *program = NULL;
    enum hrf_status status = HRF_OK;
    int64_t n_running = 0;
    HRF_TRY(hrf_process_self(&program, err));
    for (int64_t i = 0; i < hrf_trainings_count(t) && status == HRF_OK; i++) {
        pid_t pid = 0;
        if (!hrf_trainings_is_wanted(t, i) || t->find_result(t->context, i, NULL, NULL))
            continue;
        if (n_running == t->jobs) {
            status = wait_for_one(err);
            n_running--;
        }
        if (status == HRF_OK)
            status = start_one(t, i, program, n_threads, &pid, err);
        n_running += status == HRF_OK;
    }
    for (; n_running > 0; n_running--) {
        const enum hrf_status end = wait_for_one(status == HRF_OK ? err : NULL);
        status = status == HRF_OK ? end : status;
    }
    return status;
}

int64_t hrf_trainings_threads(const struct hrf_trainings *t)
{
    const int64_t n_threads = t->threads > 0 ? t->threads : hrf_process_cpu_count() / t->jobs;
    return n_threads > 0 ? n_threads : 1;
}

enum hrf_status hrf_trainings_run(const struct hrf_trainings *t, struct hrf_error *err)
{
    const int64_t n_threads = hrf_trainings_threads(t);
    if (t->jobs > 1 && !hrf_trainings_is_one(t))
        return run_side_by_side(t, n_threads, err);
    omp_set_num_threads((int)n_threads);
    for (int64_t i = 0; i < hrf_trainings_count(t); i++)
        if (hrf_trainings_is_wanted(t, i))
            HRF_TRY(t->train(t->context, i, err));
    return HRF_OK;
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

struct figure_means {
    struct mean of[HRF_MAX_COLUMNS]; /* one for each row */
};

static void add_figures(struct figure_means *means, const struct hrf_figure_row *rows,
                        const struct hrf_scored_figures *figures)
{
    for (size_t i = 0; rows[i].key != NULL; i++)
        mean_add(&means->of[i], hrf_figure_value(&rows[i], figures));
}

static void put_means(json_t *object, const struct hrf_figure_row *rows,
                      const struct figure_means *means)
{
    for (size_t i = 0; rows[i].key != NULL; i++)
        hrf_json_put(object, rows[i].key, mean_json(&means->of[i]));
}

struct summary {
    const struct hrf_figure_row *rows;
    struct figure_means each;     /* over the trainings, of their own figures */
    struct figure_means pooled;   /* over the seeds, of all items that were tested, each once for a
                                     seed */
    struct figure_means *classes; /* likewise, of each label or number; NULL: items have a class */
    int64_t n_items;              /* of the pooled figures */
    char why[160];                /* of a seed without figures */
    json_t *trainings;            /* borrowed */
};

static enum hrf_status add_seed(const struct hrf_trainings *t, int64_t seed, struct summary *s,
                                struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_scored) scored = { .kind = t->kind };
    enum hrf_status status = HRF_OK;
    for (int64_t fold = 0; fold < t->n_folds && status == HRF_OK; fold++) {
        const int64_t i = seed * t->n_folds + fold;
        struct hrf_scored_figures f;
        json_t *training = NULL;
        if (!t->find_result(t->context, i, &f, &training))
            continue;
        HRF_AUTO_FREE char *name = hrf_training_name(fold, hrf_trainings_seed(t, i));
        HRF_AUTO_FREE char *folder = hrf_trainings_folder(t, i);
        HRF_AUTO_FREE char *path = hrf_path_join(folder, "predictions.csv");
        hrf_json_put_text(training, "name", name);
        hrf_json_add(s->trainings, training);
        add_figures(&s->each, s->rows, &f);
        status = hrf_scored_read(&scored, path, t->classes, err);
    }
    const struct hrf_scored_figures f = hrf_scored_figures_of(&scored, t->classes, t->nouns,
                                                              "testing");
    add_figures(&s->pooled, s->rows, &f);
    for (size_t k = 0; s->classes != NULL && k < t->classes->n_items; k++) {
        const struct hrf_scored_figures one = hrf_scored_figures_of_one(&scored, t->classes, k,
                                                                        t->nouns, "testing");
        add_figures(&s->classes[k], s->rows, &one);
    }
    s->n_items = (int64_t)scored.n > s->n_items ? (int64_t)scored.n : s->n_items;
    if (f.why[0] != '\0')
        memcpy(s->why, f.why, sizeof f.why);
    return status;
}

static void put_classes(json_t *pooled, const struct hrf_text_list *classes,
                        const struct summary *s)
{
    json_t *list = json_array();
    for (size_t k = 0; k < classes->n_items; k++) {
        json_t *one = json_object();
        hrf_json_put_text(one, "class", classes->items[k]);
        put_means(one, s->rows, &s->classes[k]);
        hrf_json_add(list, one);
    }
    hrf_json_put(pooled, "classes", list);
}

enum hrf_status hrf_trainings_summarise(const struct hrf_trainings *t, json_t *out,
                                        struct hrf_error *err)
{
    json_t *pooled = json_object();
    HRF_AUTO_FREE struct figure_means *classes = NULL;
    if (t->kind != HRF_LABEL_CLASS)
        classes = hrf_calloc(t->classes->n_items, sizeof *classes);
    struct summary s = { .rows = hrf_scored_rows[t->kind],
                         .classes = classes,
                         .trainings = json_array() };
    hrf_json_put(out, "trainings", s.trainings);
    hrf_json_put(out, "pooled", pooled);
    for (int64_t seed = 0; seed < (int64_t)t->seeds->n_items; seed++)
        HRF_TRY(add_seed(t, seed, &s, err));
    hrf_json_put_int(pooled, t->nouns, s.n_items);
    hrf_json_put_text(pooled, "why_no_figure", s.why);
    put_means(pooled, s.rows, &s.pooled);
    if (classes != NULL)
        put_classes(pooled, t->classes, &s);
    put_means(out, s.rows, &s.each);
    hrf_json_put_int(out, "version", 1);
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

static void print_figure(const struct hrf_trainings *t, const json_t *summary,
                         const struct hrf_figure_row *row)
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
    printf(" over %lld %s", (long long)json_integer_value(json_object_get(pooled, t->nouns)),
           t->nouns);
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

void hrf_trainings_print(const struct hrf_trainings *t, const json_t *summary)
{
    for (const struct hrf_figure_row *row = hrf_scored_rows[t->kind]; row->key != NULL; row++)
        print_figure(t, summary, row);
}
