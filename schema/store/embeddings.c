/* embeddings.c - reads a slide's embeddings shard by shard, block by block (embeddings.h). */
#include "schema/store/embeddings.h"

#include "base/file.h"
#include "base/path.h"
#include "schema/store/columns.h"
#include "schema/store/tasks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20 };

enum hrf_status hrf_store_embeddings_path(const struct hrf_store *store, const char *key,
                                          char **out, struct hrf_error *err)
{
    if (key[0] == '\0' || key[strspn(key, "0123456789abcdefghijklmnopqrstuvwxyz")] != '\0')
        return hrf_error_set(err, HRF_E_USER, "'%s': the key of a task is damaged", store->path);
    HRF_AUTO_FREE char *directory = hrf_path_directory(store->path);
    char *path = hrf_format("%s/embeddings/%s", directory, key);
    *out = path;
    return HRF_OK;
}

/* ---- which shards there are ---- */

static void close_shard(struct hrf_embeddings *e)
{
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
    hrf_hash_destroy(e->hash);
    e->hash = NULL;
}

void hrf_embeddings_close(struct hrf_embeddings *e)
{
    if (e == NULL)
        return;
    close_shard(e);
    for (size_t i = 0; i < e->n_shards; i++)
        hrf_free(e->shards[i].path);
    hrf_free(e->shards);
    hrf_free(e->block);
    hrf_free(e);
}

static enum hrf_status add_facts(struct hrf_embeddings *e, const struct hrf_embedding_shard *shard,
                                 const struct hrf_scores *scores, struct hrf_error *err)
{
    if (shard->first_patch != e->n || (e->n_shards > 0 && (int64_t)scores->n_classes != e->width))
        return hrf_error_set(err, HRF_E_AGAIN, "a shard is missing: patches from %lld on",
                             (long long)e->n);
    struct hrf_embedding_shard *grown = hrf_realloc_array(e->shards, e->n_shards + 1,
                                                          sizeof *grown);
    e->shards = grown;
    e->shards[e->n_shards++] = *shard;
    e->n += shard->n_patches;
    e->width = scores->n_classes;
    return HRF_OK;
}

/* Columns: bytes, state, key, first_patch, n_patches. */
static enum hrf_status add_shard(struct hrf_columns *row, void *context)
{
    struct hrf_embeddings *e = context;
    struct hrf_embedding_shard shard = { .key = "" };
    HRF_AUTO(hrf_scores) scores = NULL;
    size_t n;
    const void *bytes = hrf_column_blob(row, 0, &n);
    const int state = hrf_column_enum(row, 1, HRF_N_TASK_STATES);
    hrf_column_copy(row, 2, shard.key, sizeof shard.key);
    shard.first_patch = hrf_column_count(row, 3);
    shard.n_patches = hrf_column_count(row, 4);
    HRF_TRY(row->status);
    if (state != HRF_TASK_FINISHED || bytes == NULL)
        return hrf_error_set(row->err, HRF_E_AGAIN, "not all of its embeddings are there yet");
    memcpy(e->expected.task, shard.key, sizeof e->expected.task);
    HRF_TRY(
        hrf_scores_decode(bytes, n, &e->expected, "embeddings in the store", &scores, row->err));
    if (scores->n_patches != shard.n_patches || scores->first_patch != shard.first_patch)
        return hrf_error_set(row->err, HRF_E_USER,
                             "embeddings in the store: they are of patches %lld and on, %lld of "
                             "them; their task asks for %lld and on, %lld",
                             (long long)scores->first_patch, (long long)scores->n_patches,
                             (long long)shard.first_patch, (long long)shard.n_patches);
    if (scores->embeddings.sha256[0] == '\0')
        return hrf_error_set(row->err, HRF_E_USER,
                             "embeddings in the store: the record of patches %lld and on names no "
                             "file of embeddings",
                             (long long)scores->first_patch);
    memcpy(shard.sha256, scores->embeddings.sha256, sizeof shard.sha256);
    HRF_TRY(hrf_store_embeddings_path(e->store, shard.key, &shard.path, row->err));
    const enum hrf_status status = add_facts(e, &shard, scores, row->err);
    if (status != HRF_OK)
        hrf_free(shard.path);
    return status;
}

static enum hrf_status find_shards(struct hrf_embeddings *e, int64_t slide_id,
                                   const char *precision, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_TRY(hrf_store_expect(e->store, slide_id, HRF_TASK_INFER, &e->expected, err));
    HRF_TRY(hrf_store_prepare(e->store, HRF_STORE_SELECT_SHARDS, &s, err));
    sqlite3_bind_int64(s, 1, slide_id);
    hrf_bind_text(s, 2, precision);
    HRF_TRY(hrf_store_each_row(e->store, s, "task", add_shard, e, err));
    return e->n_shards > 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_AGAIN, "it has no embeddings in %s", precision);
}

enum hrf_status hrf_store_open_embeddings(struct hrf_store *store, int64_t slide_id,
                                          const char *precision, struct hrf_embeddings **out,
                                          struct hrf_error *err)
{
    HRF_AUTO(hrf_embeddings) e = hrf_calloc(1, sizeof *e);
    e->store = store;
    e->fd = -1;
    enum hrf_status status = find_shards(e, slide_id, precision, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "slide %lld", (long long)slide_id);
    const int64_t row_bytes = e->width * (int64_t)sizeof *e->block;
    const size_t n = (size_t)(row_bytes > BLOCK_BYTES ? row_bytes : BLOCK_BYTES);
    e->block = hrf_alloc(n);
    HRF_MOVE(*out, e);
    return HRF_OK;
}

/* ---- their rows ---- */

/* The result is of no use: whoever may write removes it, so that the next run's plan misses it. */
static enum hrf_status refuse(const struct hrf_embeddings *e, const char *path, const char *why,
                              struct hrf_error *err)
{
    const bool is_removed = e->store->mode == HRF_STORE_WRITE &&
                            (unlink(path) == 0 || errno == ENOENT);
    return hrf_error_set(err, HRF_E_USER, "the file of embeddings '%s' %s; %s", path, why,
                         is_removed ? "'hires-flow run' computes it again"
                                    : "remove it, and 'hires-flow run' computes it again");
}

static enum hrf_status open_shard(struct hrf_embeddings *e, struct hrf_error *err)
{
    const struct hrf_embedding_shard *shard = &e->shards[e->shard];
    const int64_t wanted = shard->n_patches * e->width * (int64_t)sizeof(float);
    const int64_t found = hrf_path_exists(shard->path) ? hrf_path_size(shard->path) : -1;
    if (found < 0)
        return refuse(e, shard->path, "is missing", err);
    if (found != wanted) {
        char why[96];
        snprintf(why, sizeof why, "has %lld bytes, its record says %lld", (long long)found,
                 (long long)wanted);
        return refuse(e, shard->path, why, err);
    }
    HRF_TRY(hrf_hash_create(&e->hash, err));
    return hrf_file_open(shard->path, &e->fd, err);
}

static enum hrf_status read_rows(struct hrf_embeddings *e, size_t n_bytes, struct hrf_error *err)
{
    char *at = (char *)e->block;
    for (size_t left = n_bytes; left > 0;) {
        const ssize_t got = read(e->fd, at, left);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hrf_error_set_errno(err, errno, "cannot read '%s'", e->shards[e->shard].path);
        if (got == 0)
            return refuse(e, e->shards[e->shard].path, "was cut short while it was read", err);
        at += got;
        left -= (size_t)got;
    }
    hrf_hash_bytes(e->hash, e->block, n_bytes);
    return HRF_OK;
}

/* After the last row of a file. */
static enum hrf_status check_hash(struct hrf_embeddings *e, struct hrf_error *err)
{
    char found[HRF_HASH_HEX];
    const struct hrf_embedding_shard *shard = &e->shards[e->shard];
    hrf_hash_hex(e->hash, found);
    if (strcmp(found, shard->sha256) == 0)
        return HRF_OK;
    return refuse(e, shard->path, "has other bytes than its record names", err);
}

enum hrf_status hrf_embeddings_next(struct hrf_embeddings *e, const float **rows, int64_t *n,
                                    struct hrf_error *err)
{
    *n = 0;
    *rows = e->block;
    if (e->shard < e->n_shards && e->row == e->shards[e->shard].n_patches) {
        close_shard(e);
        e->row = 0;
        e->shard++;
    }
    if (e->shard == e->n_shards)
        return HRF_OK;
    if (e->row == 0)
        HRF_TRY(open_shard(e, err));
    const int64_t left = e->shards[e->shard].n_patches - e->row;
    const int64_t fit = BLOCK_BYTES / (e->width * (int64_t)sizeof(float)), max = fit > 0 ? fit : 1;
    *n = left < max ? left : max;
    HRF_TRY(read_rows(e, (size_t)(*n * e->width) * sizeof(float), err));
    e->row += *n;
    return e->row == e->shards[e->shard].n_patches ? check_hash(e, err) : HRF_OK;
}

enum hrf_status hrf_embeddings_verify(struct hrf_embeddings *e, struct hrf_error *err)
{
    const float *rows;
    int64_t n;
    close_shard(e);
    for (e->shard = 0, e->row = 0; e->shard < e->n_shards;)
        HRF_TRY(hrf_embeddings_next(e, &rows, &n, err));
    e->shard = 0;
    e->row = 0;
    return HRF_OK;
}
