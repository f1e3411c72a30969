/* layout.c - parses and prints layouts, and divides a batch into groups and micro-batches
 * (layout.h). */
#include "schema/settings/layout.h"

#include "base/strbuf.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const hrf_words_halos[] = { "auto", "plain", "overlap", NULL };
const char *const hrf_words_bands[] = { "auto", "keep", "recompute", NULL };
const char *const hrf_words_attention[] = { "auto", "gather", "ring", NULL };
_Static_assert(sizeof hrf_words_halos / sizeof hrf_words_halos[0] == HRF_N_HALOS + 1 &&
                   sizeof hrf_words_bands / sizeof hrf_words_bands[0] == HRF_N_BANDS_ROWS + 1 &&
                   sizeof hrf_words_attention / sizeof hrf_words_attention[0] ==
                       HRF_N_ATTENTION_KEYS + 1,
               "a word for each");

/* One way to divide work, or how a way is done: the part KEY=VALUE of a layout. */
struct part {
    const char *key;
    enum { COUNT = 1, GRID, FLAG, WORD } kind; /* N; R or RxC; the key alone; one of `words` */
    size_t at;      /* in struct hrf_layout_plan: int32_t, bool, or an enum */
    size_t columns; /* GRID: where C is */
    const char *const *words;
};
#define AT(member) offsetof(struct hrf_layout_plan, member)
static const struct part parts[] = {
    { .key = "data", .kind = COUNT, .at = AT(data) },
    { .key = "spatial", .kind = GRID, .at = AT(rows), .columns = AT(columns) },
    { .key = "tensor", .kind = COUNT, .at = AT(tensor) },
    { .key = "stages", .kind = COUNT, .at = AT(stages) },
    { .key = "microbatches", .kind = COUNT, .at = AT(microbatches) },
    { .key = "bidirectional", .kind = FLAG, .at = AT(bidirectional) },
    { .key = "halos", .kind = WORD, .at = AT(halos), .words = hrf_words_halos },
    { .key = "bands", .kind = WORD, .at = AT(bands), .words = hrf_words_bands },
    { .key = "attention", .kind = WORD, .at = AT(attention), .words = hrf_words_attention },
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };
_Static_assert(sizeof(enum hrf_halos) == sizeof(int) &&
                   sizeof(enum hrf_bands_rows) == sizeof(int) &&
                   sizeof(enum hrf_attention_keys) == sizeof(int),
               "words are read and written as int");

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

/* `value`: what follows the "="; NULL: nothing does. */
static bool read_value(const struct part *part, const char *value, struct hrf_layout_plan *l)
{
    char *base = (char *)l, *member = base + part->at;
    const char *end = "";
    if (part->kind == FLAG) {
        *(bool *)member = true;
        return value == NULL || strcmp(value, "1") == 0;
    }
    if (value == NULL)
        return false;
    for (int word = 0; part->kind == WORD && part->words[word] != NULL; word++)
        if (strcmp(value, part->words[word]) == 0) {
            memcpy(member, &word, sizeof word);
            return true;
        }
    if (part->kind == WORD || !read_number(value, (int32_t *)(void *)member, &end))
        return false;
    if (part->kind == GRID && *end == 'x' &&
        !read_number(end + 1, (int32_t *)(void *)(base + part->columns), &end))
        return false;
    return *end == '\0';
}

static bool read_part(const char *text, struct hrf_layout_plan *l)
{
    const size_t n = strcspn(text, "=");
    for (int i = 0; i < N_PARTS; i++)
        if (strlen(parts[i].key) == n && strncmp(parts[i].key, text, n) == 0)
            return read_value(&parts[i], text[n] == '=' ? text + n + 1 : NULL, l);
    return false;
}

static enum hrf_status refuse_part(const char *text, const char *part, struct hrf_error *err)
{
    struct hrf_strbuf forms = HRF_STRBUF_INIT;
    for (int i = 0; i < N_PARTS; i++) {
        const struct part *p = &parts[i];
        hrf_strbuf_adds(&forms, i == 0 ? "" : i + 1 < N_PARTS ? ", " : " and ");
        hrf_strbuf_adds(&forms, p->key);
        if (p->kind == COUNT)
            hrf_strbuf_adds(&forms, "=N");
        else if (p->kind == GRID)
            hrf_strbuf_addf(&forms, "=R or %s=RxC", p->key);
        for (int word = 0; p->kind == WORD && p->words[word] != NULL; word++)
            hrf_strbuf_addf(&forms, "%s%s",
                            word == 0                    ? "="
                            : p->words[word + 1] != NULL ? ", "
                                                         : " or ",
                            p->words[word]);
    }
    HRF_AUTO_FREE char *all = hrf_strbuf_detach(&forms);
    return hrf_error_set(err, HRF_E_USER,
                         "layout '%s': '%s' is not a part of one; parts are %s, joined by commas, "
                         "N from 1 to %d",
                         text, part, all, HRF_MAX_RANKS);
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
            return refuse_part(text, part, err);
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

enum hrf_status hrf_layout_check_batch_statistics(const struct hrf_layout_plan *l, int64_t n_images,
                                                  struct hrf_error *err)
{
    if (l->microbatches > 1)
        return hrf_error_set(err, HRF_E_USER,
                             "the statistics of the batch are those of all its images, and "
                             "microbatches=%d pass a layer one after the other: use data=, "
                             "spatial= or stages=",
                             l->microbatches);
    if (n_images % l->data != 0)
        return hrf_error_set(
            err, HRF_E_USER,
            "the statistics of the batch are added up over groups of equal size, "
            "and data=%d does not divide a batch of %lld: a batch of %lld would do",
            l->data, (long long)n_images, (long long)((n_images / l->data + 1) * l->data));
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

static void add_part(const struct part *p, const struct hrf_layout_plan *l, struct hrf_strbuf *out)
{
    const char *base = (const char *)l, *member = base + p->at;
    if (p->kind == FLAG) {
        if (*(const bool *)member)
            hrf_strbuf_addf(out, ",%s", p->key);
        return;
    }
    int32_t n, columns = 1;
    memcpy(&n, member, sizeof n);
    if (p->kind == GRID)
        memcpy(&columns, base + p->columns, sizeof columns);
    if (p->kind == WORD && n > 0)
        hrf_strbuf_addf(out, ",%s=%s", p->key, p->words[n]);
    else if (p->kind != WORD && n * columns > 1)
        hrf_strbuf_addf(out, columns > 1 ? ",%s=%dx%d" : ",%s=%d", p->key, n, columns);
}

void hrf_layout_text(const struct hrf_layout_plan *l, char out[128])
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    for (int i = 0; i < N_PARTS; i++)
        add_part(&parts[i], l, &text);
    snprintf(out, 128, "%s", text.length > 0 ? text.text + 1 : "single");
}
