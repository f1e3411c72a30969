/* head_scores.c - the record of a head task (head_scores.h). */
#include "schema/record/head_scores.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_CLASSES = 1 << 16, MAX_PATCHES = 1 << 28 };

void hrf_head_scores_destroy(struct hrf_head_scores *scores)
{
    if (scores == NULL)
        return;
    hrf_bytes_release(&scores->shown_png);
    hrf_free(scores->scores);
    hrf_free(scores->attention);
    hrf_free(scores);
}

static const struct hrf_field fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_head_scores, #name, name, HRF_FIELD_##type)
    FIELD(n_classes, INT32),
    FIELD(n_patches, INT),
    FIELD(n_branches, INT32),
    FIELD(head_sha256, HASH),
#undef FIELD
    HRF_FIELD_COUNTED(struct hrf_head_scores, "shown", shown, n_shown, HRF_FIELD_INTS),
};

enum hrf_status hrf_head_scores_encode(const struct hrf_head_scores *scores, struct hrf_bytes *out,
                                       struct hrf_error *err)
{
    HRF_AUTO_JSON header = hrf_fields_json(HRF_FIELDS(fields), scores);
    const struct hrf_section sections[] = {
        { "scores", scores->scores, (size_t)scores->n_classes * sizeof scores->scores[0] },
        { "attention", scores->attention,
          (size_t)(scores->n_branches * scores->n_patches) * sizeof scores->attention[0] },
        { "shown", scores->shown_png.data, scores->shown_png.n_bytes }
    };
    return hrf_container_encode(HRF_HEAD_SCORES_KIND, &scores->identity, header, sections, 3, out,
                                err);
}

enum hrf_status hrf_head_scores_decode(const void *bytes, size_t n_bytes,
                                       const struct hrf_record_identity *expected,
                                       const char *where, struct hrf_head_scores **out,
                                       struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_container) container = { .header = NULL };
    HRF_AUTO(hrf_head_scores) s = hrf_calloc(1, sizeof *s);
    HRF_TRY(hrf_container_decode(bytes, n_bytes, HRF_HEAD_SCORES_KIND, expected, where, &container,
                                 err));
    s->identity = container.identity;
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), container.header, where, s, err));
    if (s->n_classes < 1 || s->n_classes > MAX_CLASSES || s->n_patches < 1 ||
        s->n_patches > MAX_PATCHES || s->n_branches < 0 || s->n_branches > MAX_CLASSES)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: it claims %d classes, %lld patches and %d branches of attention",
                             where, s->n_classes, (long long)s->n_patches, s->n_branches);
    for (int32_t i = 0; i < s->n_shown; i++)
        if (s->shown[i] < 0 || s->shown[i] >= s->n_patches)
            return hrf_error_set(err, HRF_E_USER, "%s: its picture %d is of no patch", where, i);
    HRF_TRY(hrf_container_copy(&container, "scores", (size_t)s->n_classes * sizeof s->scores[0],
                               &s->scores, err));
    if (s->n_branches > 0)
        HRF_TRY(hrf_container_copy(&container, "attention",
                                   (size_t)s->n_branches * (size_t)s->n_patches *
                                       sizeof s->attention[0],
                                   &s->attention, err));
    HRF_TRY(hrf_container_bytes(&container, "shown", &s->shown_png, err));
    HRF_MOVE(*out, s);
    return HRF_OK;
}

double hrf_head_scores_attention(const struct hrf_head_scores *scores, int64_t patch,
                                 size_t class_index)
{
    const bool is_by_class = scores->n_branches == scores->n_classes;
    if (scores->attention == NULL)
        return (double)NAN;
    return (double)
        scores->attention[(is_by_class ? (int64_t)class_index : 0) * scores->n_patches + patch];
}

struct ranked {
    double attention;
    int64_t patch;
};

static int by_attention(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->attention != y->attention)
        return x->attention < y->attention ? -1 : 1;
    return x->patch < y->patch ? -1 : x->patch > y->patch;
}

enum hrf_status hrf_head_scores_rank(const struct hrf_head_scores *scores, size_t class_index,
                                     float *out, struct hrf_error *err)
{
    const int64_t n = scores->n_patches;
    if (scores->attention == NULL)
        return hrf_error_set(err, HRF_E_USER, "the slide head has no attention");
    HRF_AUTO_FREE struct ranked *list = hrf_alloc_array((size_t)n, sizeof *list);
    for (int64_t i = 0; i < n; i++)
        list[i] = (struct ranked){ hrf_head_scores_attention(scores, i, class_index), i };
    qsort(list, (size_t)n, sizeof *list, by_attention);
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first; end < n && list[end].attention == list[first].attention;)
            end++;
        const double rank = (double)(first + end - 1) / 2; /* the mean of the equal ones */
        for (int64_t i = first; i < end; i++)
            out[list[i].patch] = n > 1 ? (float)(rank / (double)(n - 1)) : 1.0F;
    }
    return HRF_OK;
}
