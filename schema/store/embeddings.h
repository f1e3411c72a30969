/* embeddings.h - reads the embeddings of a slide at one precision from the run, a block at a time.
 *
 * They are no part of the run store's file: each infer task's rows are a file of their own beside
 * it, embeddings/<key of the task>, that the task's record names by its hash.
 */
#ifndef HRF_SCHEMA_STORE_EMBEDDINGS_H
#define HRF_SCHEMA_STORE_EMBEDDINGS_H

#include "schema/store/store.h"

/* Where the rows of the infer task with that key are; *out is heap. HRF_E_USER: the key, which a
 * damaged store may give, is no name of a file. */
HRF_CHECKED enum hrf_status hrf_store_embeddings_path(const struct hrf_store *store,
                                                      const char *key, char **out,
                                                      struct hrf_error *err);

/* One infer task's rows. */
struct hrf_embedding_shard {
    char key[HRF_HASH_HEX], sha256[HRF_HASH_HEX];
    char *path;
    int64_t first_patch, n_patches;
};
struct hrf_embeddings {
    struct hrf_store *store; /* borrowed; may be used in between */
    struct hrf_record_identity expected;
    struct hrf_embedding_shard *shards; /* in the order of patches */
    size_t n_shards;
    int64_t n, width; /* of all shards together */
    /* The current position: a shard and a row of it. */
    size_t shard;
    int64_t row;
    int fd;
    struct hrf_hash *hash;
    float *block;
};
/* HRF_E_AGAIN: the slide's embeddings are not complete. HRF_E_USER: a record is damaged. */
HRF_CHECKED enum hrf_status hrf_store_open_embeddings(struct hrf_store *store, int64_t slide_id,
                                                      const char *precision,
                                                      struct hrf_embeddings **out,
                                                      struct hrf_error *err);
void hrf_embeddings_close(struct hrf_embeddings *embeddings);
static inline void hrf_embeddings_destroy(struct hrf_embeddings *embeddings)
{
    hrf_embeddings_close(embeddings);
}
HRF_DEFINE_AUTO(hrf_embeddings)

/* Reads the next rows, [*n][width], valid until the next call; *n is 0 if there are no more. Blocks
 * have the same borders in all precisions of a slide with the same shards. HRF_E_USER: a file is
 * missing, truncated or has other bytes than its record names. That is known at the file's end;
 * rows that were read from it then do not count. */
HRF_CHECKED enum hrf_status hrf_embeddings_next(struct hrf_embeddings *embeddings,
                                                const float **rows, int64_t *n,
                                                struct hrf_error *err);
/* Checks all files to the last byte. Call it before the first hrf_embeddings_next(); reading then
 * begins at the start. A file that fails is removed if the store is open for writing, and the next
 * 'hires-flow run' computes it again. */
HRF_CHECKED enum hrf_status hrf_embeddings_verify(struct hrf_embeddings *embeddings,
                                                  struct hrf_error *err);

#endif
