/* checkpoint.c - a training's state as bytes. */
#include "heads/train/checkpoint.h"

#include "base/file.h"

#include <string.h>

static const char magic[8] = "HRFHEAD1";

/* The parts of the file in their order. */
struct part {
    void *bytes;
    size_t n_bytes;
};
enum { N_PARTS = 9 };

static void list_parts(const struct hrf_training_state *s, struct hrf_training_state *numbers,
                       struct part parts[N_PARTS])
{
    const size_t n = (size_t)s->head->n_values;
    const struct part all[N_PARTS] = {
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

static size_t size_of(const struct part parts[N_PARTS])
{
    size_t n = sizeof magic + HRF_HASH_HEX;
    for (int i = 0; i < N_PARTS; i++)
        n += parts[i].n_bytes;
    return n;
}

enum hrf_status hrf_checkpoint_write(const struct hrf_training_state *state,
                                     const char key[HRF_HASH_HEX], const char *path,
                                     struct hrf_error *err)
{
    struct part parts[N_PARTS];
    struct hrf_training_state numbers = *state;
    list_parts(state, &numbers, parts);
    const size_t n = size_of(parts);
    HRF_AUTO_FREE char *bytes = hrf_try_alloc(n + HRF_HASH_HEX);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for '%s'", path);
    memcpy(bytes, magic, sizeof magic);
    memcpy(bytes + sizeof magic, key, HRF_HASH_HEX);
    size_t at = sizeof magic + HRF_HASH_HEX;
    for (int i = 0; i < N_PARTS; i++) {
        memcpy(bytes + at, parts[i].bytes, parts[i].n_bytes);
        at += parts[i].n_bytes;
    }
    HRF_TRY(hrf_hash_buffer(bytes, n, bytes + n, err));
    return hrf_file_write_atomic(path, bytes, n + HRF_HASH_HEX, err);
}

bool hrf_checkpoint_read(struct hrf_training_state *state, const char key[HRF_HASH_HEX],
                         const char *path)
{
    struct part parts[N_PARTS];
    char sum[HRF_HASH_HEX];
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes = 0;
    list_parts(state, state, parts);
    const size_t n = size_of(parts);
    if (hrf_file_read(path, n + HRF_HASH_HEX, &bytes, &n_bytes, NULL) != HRF_OK ||
        n_bytes != n + HRF_HASH_HEX || memcmp(bytes, magic, sizeof magic) != 0 ||
        memcmp(bytes + sizeof magic, key, HRF_HASH_HEX) != 0 ||
        hrf_hash_buffer(bytes, n, sum, NULL) != HRF_OK || memcmp(sum, bytes + n, sizeof sum) != 0)
        return false;
    size_t at = sizeof magic + HRF_HASH_HEX;
    for (int i = 0; i < N_PARTS; i++) {
        memcpy(parts[i].bytes, bytes + at, parts[i].n_bytes);
        at += parts[i].n_bytes;
    }
    return true;
}
