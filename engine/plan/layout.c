#include "engine/plan/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    static const char *const names[] = { "data=", "stages=", "microbatches=", "spatial=" };
    int32_t *places[] = { &l->data, &l->stages, &l->microbatches, &l->rows };
    const char *end = "";
    for (int i = 0; i < 4; i++) {
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
    return false;
}

static enum hrf_status check(const struct hrf_layout_plan *l, const char *text,
                             struct hrf_error *err)
{
    const int64_t ranks = (int64_t)l->data * l->stages * l->rows * l->columns;
    if (ranks > HRF_MAX_RANKS)
        return hrf_error_set(err, HRF_E_USER, "layout '%s' has %lld ranks; %d are the most", text,
                             (long long)ranks, HRF_MAX_RANKS);
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
    return HRF_OK;
}

enum hrf_status hrf_layout_parse(const char *text, struct hrf_layout_plan *out,
                                 struct hrf_error *err)
{
    struct hrf_layout_plan l = { 1, 1, 1, 1, 1, false };
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
                                 "spatial=R or spatial=RxC, stages=N, microbatches=N and "
                                 "bidirectional, joined by commas, N from 1 to %d",
                                 text, part, HRF_MAX_RANKS);
        at += n + (at[n] == ',');
    }
    HRF_TRY(check(&l, text, err));
    *out = l;
    return HRF_OK;
}
