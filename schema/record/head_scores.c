/* head_scores.c - the record of a head task (head_scores.h). */
#include "schema/record/head_scores.h"

#include "schema/record/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 2, MOST_CLASSES = 1 << 16, MOST_PATCHES = 1 << 28 };

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
    FIELD(n_classes, INT32), FIELD(n_patches, INT), FIELD(n_branches, INT32),
    FIELD(head_sha256, HASH)
#undef FIELD
};

static json_t *shown_json(const struct hrf_head_scores *scores)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < scores->n_shown; i++)
        json_array_append_new(list, json_integer((json_int_t)scores->shown[i]));
    return list;
}

enum hrf_status hrf_head_scores_encode(const struct hrf_head_scores *scores, struct hrf_bytes *out,
                                       struct hrf_error *err)
{
    HRF_AUTO_JSON header = json_pack("{so}", "shown", shown_json(scores));
    if (!hrf_fields_write(HRF_FIELDS(fields), scores, header))
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a slide's scores");
    const struct hrf_section sections[] = {
        { "scores", scores->scores, (size_t)scores->n_classes * sizeof scores->scores[0] },
        { "attention", scores->attention,
          (size_t)(scores->n_branches * scores->n_patches) * sizeof scores->attention[0] },
        { "shown", scores->shown_png.data, scores->shown_png.n_bytes }
    };
    return hrf_container_encode(HRF_HEAD_SCORES_KIND, VERSION, &scores->identity, header, sections,
                                3, out, err);
}

static enum hrf_status copy_section(const struct hrf_container *container, const char *name,
                                    size_t n_bytes, const char *where, void **out,
                                    struct hrf_error *err)
{
    struct hrf_section section;
    HRF_TRY(hrf_container_section(container, name, n_bytes, where, &section, err));
    *out = hrf_alloc(n_bytes + 1);
    HRF_CHECK_MEMORY(*out != NULL, err, "%s: no memory for its %s", where, name);
    memcpy(*out, section.data, n_bytes);
    return HRF_OK;
}

static enum hrf_status read_shown(const struct hrf_container *container, const char *where,
                                  struct hrf_head_scores *s, struct hrf_error *err)
{
    json_t *list = NULL;
    struct hrf_section png;
    void *bytes = NULL;
    HRF_TRY(hrf_json_get_array(container->header, "shown", where, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const json_int_t patch = json_integer_value(entry);
        if (i == HRF_HEAD_SHOWN || !json_is_integer(entry) || patch < 0 || patch >= s->n_patches)
            return hrf_error_set(err, HRF_E_USER, "%s: its picture %zu is of no patch", where, i);
        s->shown[i] = patch;
        s->n_shown = (int32_t)i + 1;
    }
    HRF_TRY(hrf_container_section(container, "shown", SIZE_MAX, where, &png, err));
    HRF_TRY(copy_section(container, "shown", png.n_bytes, where, &bytes, err));
    s->shown_png = (struct hrf_bytes){ bytes, png.n_bytes };
    return HRF_OK;
}

static enum hrf_status decode(const struct hrf_container *container, const char *where,
                              struct hrf_head_scores *s, struct hrf_error *err)
{
    void *values = NULL;
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), container->header, where, s, err));
    if (s->n_classes < 1 || s->n_classes > MOST_CLASSES || s->n_patches < 1 ||
        s->n_patches > MOST_PATCHES || s->n_branches < 0 || s->n_branches > MOST_CLASSES)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: it claims %d classes, %lld patches and %d branches of attention",
                             where, s->n_classes, (long long)s->n_patches, s->n_branches);
    HRF_TRY(copy_section(container, "scores", (size_t)s->n_classes * sizeof s->scores[0], where,
                         &values, err));
    s->scores = values;
    if (s->n_branches > 0)
        HRF_TRY(copy_section(container, "attention",
                             (size_t)s->n_branches * (size_t)s->n_patches * sizeof s->attention[0],
                             where, &values, err));
    s->attention = s->n_branches > 0 ? values : NULL;
    return read_shown(container, where, s, err);
}

enum hrf_status hrf_head_scores_decode(const void *bytes, size_t n_bytes,
                                       const struct hrf_record_identity *expected,
                                       const char *where, struct hrf_head_scores **out,
                                       struct hrf_error *err)
{
    struct hrf_container container;
    HRF_AUTO(hrf_head_scores) scores = hrf_calloc(1, sizeof *scores);
    HRF_CHECK_MEMORY(scores != NULL, err, "%s: no memory for a slide's scores", where);
    HRF_TRY(hrf_container_decode(bytes, n_bytes, HRF_HEAD_SCORES_KIND, VERSION, expected, where,
                                 &container, err));
    scores->identity = container.identity;
    const enum hrf_status status = decode(&container, where, scores, err);
    hrf_container_release(&container);
    HRF_TRY(status);
    HRF_MOVE(*out, scores);
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
    HRF_CHECK_MEMORY(list != NULL, err, "no memory for the attention of %lld patches",
                     (long long)n);
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
