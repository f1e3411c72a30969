/* view_training.c - the folders of trainings, their history.csv and what else they hold
 * (view_training.h). */
#include "orchestrator/view/view_training.h"

#include "base/csv.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/json.h"
#include "base/min_max.h"
#include "base/path.h"
#include "orchestrator/view/viewer.h"
#include "schema/record/training_progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_HISTORY = 1 << 24, MAX_REPORT = 1 << 27 };

/* Moves *at behind `word` and the number after it; false: they are not there. */
static bool take(const char **at, const char *word, int64_t *number)
{
    const size_t n = strlen(word);
    char *end = NULL;
    if (strncmp(*at, word, n) != 0 || (*at)[n] < '0' || (*at)[n] > '9')
        return false;
    errno = 0;
    *number = strtoll(*at + n, &end, 10);
    *at = end;
    return errno == 0;
}

/* True for "fold-F-seed-S". */
static bool is_training(const char *name, int64_t *fold, int64_t *seed)
{
    return take(&name, "fold-", fold) && take(&name, "-seed-", seed) && *name == '\0';
}

bool hrf_viewer_is_of_training(const char *directory)
{
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    int64_t fold, seed;
    if (hrf_path_list_directory(directory, &names, NULL) != HRF_OK)
        return false;
    for (size_t i = 0; i < names.n_items; i++)
        if (is_training(names.items[i], &fold, &seed))
            return true;
    return false;
}

/* When a file of a training was written, ms since 1970; 0: it is not there. */
static int64_t changed_ms(const char *folder, const char *name)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, name);
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode)
               ? (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000
               : 0;
}

/* A training that has not ended an epoch has no such file. */
static void put_history(json_t *training, const char *directory, const char *folder)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "history.csv"), *text = NULL;
    HRF_AUTO(hrf_csv) csv = NULL;
    json_t *columns = json_array(), *epochs = json_array();
    size_t n = 0;
    if (hrf_file_read_below(directory, path, MAX_HISTORY, &text, &n, NULL) == HRF_OK &&
        hrf_csv_parse(text, n, path, &csv, NULL) == HRF_OK && csv->n_rows > 0) {
        const size_t n_columns = csv->rows[0].n_fields;
        for (size_t c = 0; c < n_columns; c++)
            hrf_json_add(columns, hrf_json_string(csv->rows[0].fields[c]));
        for (size_t i = 1; i < csv->n_rows; i++) {
            json_t *epoch = json_array();
            for (size_t c = 0; c < n_columns; c++) {
                const char *cell = hrf_csv_cell(&csv->rows[i], (int)c);
                hrf_json_add(epoch,
                             cell[0] != '\0' ? hrf_json_number(strtod(cell, NULL)) : json_null());
            }
            hrf_json_add(epochs, epoch);
        }
    }
    hrf_json_put(training, "columns", columns);
    hrf_json_put(training, "epochs", epochs);
}

/* How far it is within its epoch, if it is under way and a step is done. */
static void put_progress(json_t *training, const char *directory, const char *folder)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, hrf_training_progress_name), *text = NULL;
    struct hrf_training_progress progress;
    json_t *json = json_null();
    size_t n = 0;
    if (hrf_file_read_below(directory, path, HRF_TRAINING_PROGRESS_MAX, &text, &n, NULL) ==
            HRF_OK &&
        hrf_training_progress_parse(text, n, &progress)) {
        json = json_object();
        hrf_json_put_int(json, "epoch", progress.epoch);
        hrf_json_put_int(json, "step", progress.step);
        hrf_json_put_int(json, "steps", progress.n_steps);
        hrf_json_put_number(json, "loss", progress.loss);
    }
    hrf_json_put(training, "progress", json);
}

/* One that is trained again, by another recipe, has a checkpoint beside its old result. */
static json_t *training_json(const char *directory, const char *name, int64_t fold, int64_t seed)
{
    HRF_AUTO_FREE char *folder = hrf_path_join(directory, name);
    const int64_t kept = changed_ms(folder, "checkpoint.bin");
    const int64_t ended = changed_ms(folder, "result.json");
    const int64_t epoch = hrf_max(changed_ms(folder, "history.csv"),
                                  changed_ms(folder, hrf_training_progress_name));
    json_t *training = json_object();
    hrf_json_put_text(training, "name", name);
    hrf_json_put_int(training, "fold", fold);
    hrf_json_put_int(training, "seed", seed);
    hrf_json_put_text(training, "state", ended > 0 && kept == 0 ? "done" : "under way");
    hrf_json_put_int(training, "changed_ms", hrf_max(hrf_max(kept, epoch), ended));
    put_progress(training, directory, folder);
    put_history(training, directory, folder);
    return training;
}

static int by_fold_and_seed(const void *a, const void *b)
{
    static const char *const keys[] = { "seed", "fold" };
    for (int k = 0; k < 2; k++) {
        const json_int_t x = json_integer_value(json_object_get(*(json_t *const *)a, keys[k]));
        const json_int_t y = json_integer_value(json_object_get(*(json_t *const *)b, keys[k]));
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

enum hrf_status hrf_view_training(const char *directory, struct hrf_strbuf *out,
                                  struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    HRF_AUTO_JSON json = json_object();
    HRF_AUTO_FREE char *report = hrf_path_join(directory, "report");
    int64_t fold, seed;
    size_t n = 0;
    HRF_TRY(hrf_path_list_directory(directory, &names, err));
    HRF_AUTO_FREE json_t **found = hrf_calloc(names.n_items + 1, sizeof(json_t *));
    for (size_t i = 0; i < names.n_items; i++)
        if (is_training(names.items[i], &fold, &seed))
            found[n++] = training_json(directory, names.items[i], fold, seed);
    qsort(found, n, sizeof(json_t *), by_fold_and_seed);
    json_t *trainings = json_array();
    for (size_t i = 0; i < n; i++)
        hrf_json_add(trainings, found[i]);
    hrf_json_put_text(json, "name", hrf_path_name(directory));
    hrf_json_put_bool(json, "has_report", changed_ms(report, "index.html") > 0);
    hrf_json_put(json, "trainings", trainings);
    HRF_AUTO_FREE char *text = hrf_json_text(json);
    hrf_strbuf_adds(out, text);
    return HRF_OK;
}

enum hrf_status hrf_view_training_report(const char *directory, unsigned char **bytes,
                                         size_t *n_bytes, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "report/index.html"), *text = NULL;
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_file_read_below(directory, path, MAX_REPORT, &text, n_bytes,
                                                       &why);
    if (status != HRF_OK && why.native == ENOENT)
        return hrf_error_set(err, HRF_E_AGAIN, "there is no page yet: trainings are under way");
    if (status != HRF_OK)
        return hrf_error_pass(err, &why);
    *bytes = (unsigned char *)text;
    text = NULL;
    return HRF_OK;
}
