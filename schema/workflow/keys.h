/* keys.h - the table of keys: one line a key says its type, place, default, range and meaning.
 * Reading, checking, --set, writing and the JSON Schema all walk it. */
#ifndef HRF_SCHEMA_WORKFLOW_KEYS_H
#define HRF_SCHEMA_WORKFLOW_KEYS_H

#include "schema/workflow/workflow.h"

enum hrf_key_type {
    HRF_KEY_WORD,       /* enum, one of `words` by position */
    HRF_KEY_INT,        /* int64_t, min..max */
    HRF_KEY_REAL,       /* double, min..max */
    HRF_KEY_BOOL,       /* bool */
    HRF_KEY_TEXT,       /* char * */
    HRF_KEY_PATH,       /* char *, relative to the file */
    HRF_KEY_TEXTS,      /* struct hrf_text_list */
    HRF_KEY_PATHS,      /* struct hrf_text_list */
    HRF_KEY_SIZE,       /* int64_t bytes: 8GiB, 64G, 512MiB */
    HRF_KEY_TRIPLE,     /* double[3], min..max each */
    HRF_KEY_PRECISIONS, /* precision[], n_precisions */
    HRF_KEY_DURATION    /* char *: HH:MM:SS or D-HH:MM:SS */
};

struct hrf_key {
    const char *path; /* "tiler.patch.size" */
    enum hrf_key_type type;
    size_t offset;
    const char *initial; /* the default as YAML text; NULL = none */
    double min, max;
    const char *const *words;
    const char *help;
};

extern const struct hrf_key hrf_keys[];
extern const size_t hrf_n_keys;

extern const char *const hrf_words_layout[];
extern const char *const hrf_words_split[];
extern const char *const hrf_words_mode[];
extern const char *const hrf_words_tissue[];
extern const char *const hrf_words_edge[];
extern const char *const hrf_words_on_bad_tile[];
extern const char *const hrf_words_fit[];
extern const char *const hrf_words_device[];
extern const char *const hrf_words_decode[];
extern const char *const hrf_words_halos[];
extern const char *const hrf_words_attention[];
extern const char *const hrf_words_bands[];
extern const char *const hrf_words_executor[];
extern const char *const hrf_words_score[];
extern const char *const hrf_words_lesions[];
extern const char *const hrf_words_output[];
extern const char *const hrf_words_features[];
extern const char *const hrf_words_features_type[];
extern const char *const hrf_words_heads[];
extern const char *const hrf_words_forest[];
extern const char *const hrf_words_heads_split[];

/* The keys that only tiler.tissue.method onnx has; NULL after the last. */
extern const char *const hrf_tissue_network_keys[];

/* Where a workflow's own place for a key is. */
void *hrf_key_place(struct hrf_workflow *workflow, const struct hrf_key *key);

#endif
