/* train_task.c - a training and its record (train_task.h). */
#include "engine/head_worker/train_task.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "heads/train/train.h"
#include "training/cohort/folds_and_seeds.h"

#include <omp.h>
#include <string.h>

static enum hrf_status read_recipe(const char *path, struct hrf_recipe **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_recipe_read(path, out, &findings, &why);
    if (status == HRF_OK)
        return HRF_OK;
    return hrf_error_set(err, status, "%s%s%.*s", why.text, findings.n_items > 0 ? ": " : "",
                         (int)strcspn(findings.text.text, "\n"), findings.text.text);
}

static enum hrf_status collect(const struct hrf_job_task *task, const char *folder,
                               struct hrf_bytes *record, struct hrf_error *err)
{
    enum { MAX_BYTES = 1 << 30 };
    HRF_AUTO(hrf_trained_head) head = hrf_calloc(1, sizeof *head);
    head->identity = task->identity;
    for (int i = 0; i < HRF_N_TRAINED_FILES; i++) {
        char *bytes = NULL;
        HRF_AUTO_FREE char *path = hrf_path_join(folder, hrf_trained_files[i]);
        HRF_TRY(hrf_file_read(path, MAX_BYTES, &bytes, &head->files[i].n_bytes, err));
        head->files[i].data = (unsigned char *)bytes;
    }
    return hrf_trained_head_encode(head, record, err);
}

enum hrf_status hrf_train_task_run(const struct hrf_job_task *task, const char *attempt,
                                   int64_t n_threads, bool (*is_stopping)(void),
                                   struct hrf_bytes *record, struct hrf_error *err)
{
    const struct hrf_job_training *t = &task->training;
    HRF_AUTO(hrf_recipe) recipe = NULL;
    HRF_AUTO(hrf_head_slides) slides = NULL;
    struct hrf_training_figures figures;
    HRF_TRY(read_recipe(t->recipe, &recipe, err));
    HRF_TRY(hrf_head_slides_read(recipe, &slides, err));
    HRF_AUTO_FREE char *name = hrf_training_name(t->fold, t->seed);
    HRF_AUTO_FREE char *folder = hrf_path_join(recipe->out, name);
    const struct hrf_training training = { .recipe = recipe,
                                           .slides = slides,
                                           .fold = t->fold,
                                           .seed = t->seed,
                                           .folder = folder,
                                           .version = HRF_VERSION,
                                           .attempt = attempt,
                                           .is_stopping = is_stopping };
    HRF_TRY(hrf_path_make_directories(folder, err));
    if (n_threads > 0)
        omp_set_num_threads((int)n_threads);
    if (!hrf_training_is_done(&training, &figures))
        HRF_TRY(hrf_training_run(&training, err));
    return collect(task, folder, record, err);
}
