/* stored.h - a run store of a few slides, made by hand. */
#ifndef HRF_TESTS_UNIT_AGGREGATE_STUDY_STORED_H
#define HRF_TESTS_UNIT_AGGREGATE_STUDY_STORED_H

#include "aggregate/study/cohort.h"
#include "schema/store/store.h"
#include "tests/unit/must.h"

#include <stdint.h>

/* What is asked of them. */
static const char *const classes[] = { "normal", "tumor" };
static const char *const precisions[] = { "fp32", "int8" };
static const struct hrf_aggregate_params params = { .name = "study",
                                                    .classes = classes,
                                                    .n_classes = 2,
                                                    .positive = 1,
                                                    .precisions = precisions,
                                                    .n_precisions = 2,
                                                    .rule = { .kind = HRF_SLIDE_RULE_MAX },
                                                    .threshold = 0.5,
                                                    .seed = 1 };

struct stored {
    char *directory; /* heap */
    struct hrf_store *store;
};

/* An empty one in a new folder below /tmp, and its end. */
void stored_open(struct stored *stored);
void stored_close(struct stored *stored);

void stored_put_slide(struct stored *stored, int64_t id, const char *name, enum hrf_truth truth,
                      enum hrf_slide_state slide_state, const char *reason);
/* Patches of `size` px at (0, first), (0, first + 256) and so on. */
void stored_put_plan_at(struct stored *stored, int64_t slide, int64_t n_patches, int32_t first,
                        int64_t size);
void stored_put_plan(struct stored *stored, int64_t slide, int64_t n_patches);
/* Three patches in two shards at fp32 and int8: probabilities of the second of two classes. */
void stored_put_scores(struct stored *stored, int64_t slide, const float fp32[3],
                       const float int8[3]);

#endif
