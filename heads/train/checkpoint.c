/* checkpoint.c - a training's state as bytes. */
#include "heads/train/checkpoint.h"

#include "training/cohort/checkpoint_file.h"

#include <string.h>

static const char magic[8] = "HRFHEAD1";

enum { N_PARTS = 9 };

static void list_parts(const struct hrf_training_state *s, struct hrf_training_state *numbers,
                       struct hrf_checkpoint_part parts[N_PARTS])
{
    const size_t n = (size_t)s->head->n_values;
    const struct hrf_checkpoint_part all[N_PARTS] = {
        { &numbers->epoch, sizeof numbers->epoch },
        { &numbers->best_epoch, sizeof numbers->best_epoch },
        { &numbers->best_loss, sizeof numbers->best_loss },
        { numbers->adam.steps, sizeof numbers->adam.steps },
        { s->head->values, n * sizeof(float) },
        { s->best, n * sizeof(float) },
        { s->adam.first, n * sizeof(float) },
        { s->adam.second, n * sizeof(float) },
        { s->records, (size_t)s->max_epochs * sizeof *s->records },
    };
    memcpy(parts, all, sizeof all);
}

enum hrf_status hrf_checkpoint_write(const struct hrf_training_state *state,
                                     const char key[HRF_HASH_HEX], const char *path,
                                     struct hrf_error *err)
{
    struct hrf_checkpoint_part parts[N_PARTS];
    struct hrf_training_state numbers = *state;
    list_parts(state, &numbers, parts);
    return hrf_checkpoint_file_write(path, magic, key, parts, N_PARTS, err);
}

bool hrf_checkpoint_read(struct hrf_training_state *state, const char key[HRF_HASH_HEX],
                         const char *path)
{
    struct hrf_checkpoint_part parts[N_PARTS];
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes = 0, wanted = 0, at = 0;
    list_parts(state, state, parts);
    for (int i = 0; i < N_PARTS; i++)
        wanted += parts[i].n_bytes;
    if (!hrf_checkpoint_file_read(path, magic, key, wanted, &bytes, &n_bytes) || n_bytes != wanted)
        return false;
    for (int i = 0; i < N_PARTS; i++) {
        memcpy(parts[i].bytes, bytes + at, parts[i].n_bytes);
        at += parts[i].n_bytes;
    }
    return true;
}
