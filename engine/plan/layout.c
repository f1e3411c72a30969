/* layout.c - parses and prints layouts, and divides a batch into groups and micro-batches
 * (layout.h). */
#include "engine/plan/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const halos_names[] = { "auto", "plain", "overlap" };
_Static_assert(sizeof halos_names / sizeof halos_names[0] == HRF_N_HALOS, "a name for each");
static const char *const bands_names[] = { "auto", "keep", "recompute" };
_Static_assert(sizeof bands_names / sizeof bands_names[0] == HRF_N_BANDS_ROWS, "a name for each");

static const char *const attention_names[] = { "auto", "gather", "ring" };
_Static_assert(sizeof attention_names / sizeof attention_names[0] == HRF_N_ATTENTION_KEYS,
               "a name for each");

static bool read_number(const char *text, int32_t *out, const char **end)
{
    char *stop;
    const long long n = strtoll(text, &stop, 10);
    if (stop == text || n < 1 || n > HRF_MAX_RANKS)
        return false;
    *out = (int32_t)n;
    *end = stop;
    return true;
}

static bool read_part(const char *part, struct hrf_layout_plan *l)
{
    static const char *const names[] = { "data=", "stages=", "microbatches=", "spatial=",
                                         "tensor=" };
    int32_t *places[] = { &l->data, &l->stages, &l->microbatches, &l->rows, &l->tensor };
    const char *end = "";
    for (int i = 0; i < 5; i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(part, names[i], n) != 0)
            continue;
        if (!read_number(part + n, places[i], &end))
            return false;
        if (i == 3 && *end == 'x' && !read_number(end + 1, &l->columns, &end))
            return false;
        return *end == '\0';
    }
    if (strcmp(part, "bidirectional") == 0 || strcmp(part, "bidirectional=1") == 0) {
        l->bidirectional = true;
        return true;
    }
    for (int h = 0; h < HRF_N_HALOS && strncmp(part, "halos=", 6) == 0; h++)
        if (strcmp(part + 6, halos_names[h]) == 0) {
            l->halos = (enum hrf_halos)h;
            return true;
        }
    for (int b = 0; b < HRF_N_BANDS_ROWS && strncmp(part, "bands=", 6) == 0; b++)
        if (strcmp(part + 6, bands_names[b]) == 0) {
            l->bands = (enum hrf_bands_rows)b;
            return true;
        }
    for (int k = 0; k < HRF_N_ATTENTION_KEYS && strncmp(part, "attention=", 10) == 0; k++)
        if (strcmp(part + 10, attention_names[k]) == 0) {
            l->attention = (enum hrf_attention_keys)k;
            return true;
        }
    return false;
}

static enum hrf_status check(const struct hrf_layout_plan *l, const char *text,
                             struct hrf_error *err)
{
    int64_t ranks = 1;
    const int32_t factors[] = { l->data, l->stages, l->rows, l->columns, l->tensor };
    for (int i = 0; i < 5 && ranks <= HRF_MAX_RANKS; i++)
        ranks *= factors[i];
    if (ranks > HRF_MAX_RANKS)
        return hrf_error_set(err, HRF_E_USER, "layout '%s' has %lld ranks; %d are the most", text,
                             (long long)ranks, HRF_MAX_RANKS);
    if (l->bands != HRF_BANDS_AUTO && ranks > 1)
        return hrf_error_set(err, HRF_E_USER,
                             "layout '%s' has %lld ranks, and bands are for one; give each rank "
                             "less of the image (spatial=...) instead",
                             text, (long long)ranks);
    if (l->attention == HRF_ATTENTION_RING && hrf_layout_image_parts(l) < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "layout '%s': attention=ring passes keys and values between the ranks "
                             "of a sequence, so it needs spatial=2 or more",
                             text);
    if (l->bidirectional && l->stages < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "layout '%s': bidirectional mirrors a pipeline, so it needs stages=2 "
                             "or more",
                             text);
    if (l->bidirectional && l->microbatches % 2 != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "layout '%s': bidirectional gives half of the micro-batches to each "
                             "direction, so their number must be even; %d would be right",
                             text, l->microbatches + 1);
    if (ranks == 1 && l->microbatches > 1)
        return hrf_error_set(err, HRF_E_USER,
                             "layout '%s': micro-batches are what several ranks work on at once; "
                             "with one rank leave microbatches= out and take a smaller batch, or "
                             "add stages=%d",
                             text, l->microbatches < 4 ? l->microbatches : 4);
    return HRF_OK;
}

/* Whether the part at `at` has the key of one before it. */
static bool is_again(const char *text, const char *at)
{
    const size_t n = strcspn(at, "=,");
    for (const char *before = text; before < at; before += strcspn(before, ",") + 1)
        if (strcspn(before, "=,") == n && strncmp(before, at, n) == 0)
            return true;
    return false;
}

enum hrf_status hrf_layout_parse(const char *text, struct hrf_layout_plan *out,
                                 struct hrf_error *err)
{
    struct hrf_layout_plan l = hrf_layout_single();
    if (text == NULL || strcmp(text, "single") == 0) {
        *out = l;
        return HRF_OK;
    }
    for (const char *at = text; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        char part[64];
        snprintf(part, sizeof part, "%.*s", (int)n, at);
        if (n >= sizeof part || !read_part(part, &l))
            return hrf_error_set(err, HRF_E_USER,
                                 "layout '%s': '%s' is not a part of one; parts are data=N, "
                                 "spatial=R or spatial=RxC, tensor=N, stages=N, microbatches=N, "
                                 "bidirectional, halos=auto, plain or overlap, bands=auto, keep or "
                                 "recompute and attention=auto, gather or ring, joined by "
                                 "commas, N from 1 to %d",
                                 text, part, HRF_MAX_RANKS);
        if (is_again(text, at))
            return hrf_error_set(err, HRF_E_USER, "layout '%s': '%.*s' is given twice", text,
                                 (int)strcspn(part, "="), part);
        at += n + (at[n] == ',');
    }
    HRF_TRY(check(&l, text, err));
    *out = l;
    return HRF_OK;
}

enum hrf_status hrf_layout_share(const struct hrf_layout_plan *l, int64_t n_images,
                                 struct hrf_batch_split *out, struct hrf_error *err)
{
    const int64_t n_shares = (int64_t)l->data * l->microbatches;
    if (n_shares > n_images)
        return hrf_error_set(err, HRF_E_USER,
                             "a batch of %lld cannot be shared by data=%d groups in "
                             "microbatches=%d; a batch of %lld would do",
                             (long long)n_images, l->data, l->microbatches, (long long)n_shares);
    out->n_images = n_images;
    out->per_group = (n_images + l->data - 1) / l->data;
    out->per_microbatch = (out->per_group + l->microbatches - 1) / l->microbatches;
    return HRF_OK;
}

int64_t hrf_batch_split_images(const struct hrf_batch_split *s, int32_t group, int32_t microbatch,
                               int64_t *first)
{
    const int64_t end_of_group = (group + 1) * s->per_group;
    const int64_t end = end_of_group < s->n_images ? end_of_group : s->n_images;
    *first = group * s->per_group + microbatch * s->per_microbatch;
    const int64_t left = end - *first;
    return left < 0 ? 0 : left < s->per_microbatch ? left : s->per_microbatch;
}

void hrf_layout_text(const struct hrf_layout_plan *l, char out[128])
{
    size_t n = 0;
    out[0] = '\0';
    if (l->data > 1)
        n += (size_t)snprintf(out + n, 128 - n, ",data=%d", l->data);
    if (l->columns > 1)
        n += (size_t)snprintf(out + n, 128 - n, ",spatial=%dx%d", l->rows, l->columns);
    else if (l->rows > 1)
        n += (size_t)snprintf(out + n, 128 - n, ",spatial=%d", l->rows);
    if (l->tensor > 1)
        n += (size_t)snprintf(out + n, 128 - n, ",tensor=%d", l->tensor);
    if (l->stages > 1)
        n += (size_t)snprintf(out + n, 128 - n, ",stages=%d", l->stages);
    if (l->microbatches > 1)
        n += (size_t)snprintf(out + n, 128 - n, ",microbatches=%d", l->microbatches);
    if (l->bidirectional)
        n += (size_t)snprintf(out + n, 128 - n, ",bidirectional");
    if (l->halos != HRF_HALOS_AUTO)
        n += (size_t)snprintf(out + n, 128 - n, ",halos=%s", halos_names[l->halos]);
    if (l->bands != HRF_BANDS_AUTO)
        n += (size_t)snprintf(out + n, 128 - n, ",bands=%s", bands_names[l->bands]);
    if (l->attention != HRF_ATTENTION_AUTO)
        n += (size_t)snprintf(out + n, 128 - n, ",attention=%s", attention_names[l->attention]);
    if (n == 0)
        snprintf(out, 128, "single");
    else
        memmove(out, out + 1, n);
}
