/* survey.c - see survey.h. The lock guards the next slide to open; each finding belongs to the
 * thread that took it. */
#include "orchestrator/ingest/survey.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { FRESH_S = 60, WAIT_MS = 1000 };

struct opening {
    const struct hrf_slide_rows *rows;
    double workflow_mpp;
    struct hrf_survey *survey;
    pthread_mutex_t lock;
    size_t next;
};

const char *hrf_finding_word(enum hrf_finding_kind kind)
{
    static const char *const words[] = { "ready",     "excluded", "missing",      "unreadable",
                                         "cut-short", "changing", "no-resolution" };
    return words[kind];
}

void hrf_survey_release(struct hrf_survey *survey)
{
    for (size_t i = 0; i < survey->n_items; i++)
        hrf_free(survey->items[i].reason);
    hrf_free(survey->items);
    *survey = (struct hrf_survey){ .items = NULL };
}

static void say(struct hrf_slide_finding *finding, enum hrf_finding_kind kind, const char *reason)
{
    finding->kind = kind;
    hrf_free(finding->reason);
    finding->reason = hrf_strdup(reason);
}

static void describe(const struct hrf_slide_info *info, struct hrf_slide_finding *finding)
{
    snprintf(finding->vendor, sizeof finding->vendor, "%s", info->vendor);
    snprintf(finding->scanner, sizeof finding->scanner, "%s", info->scanner);
    finding->width = info->width;
    finding->height = info->height;
}

static void look_at(const struct opening *opening, const struct hrf_slide_row *row,
                    struct hrf_slide_finding *finding)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (row->state == HRF_SLIDE_EXCLUDED || row->state == HRF_SLIDE_FAILED) {
        say(finding, row->state == HRF_SLIDE_FAILED ? HRF_SLIDE_IS_MISSING : HRF_SLIDE_IS_EXCLUDED,
            row->reason != NULL ? row->reason : "excluded");
        return;
    }
    if (hrf_slide_open(row->path, &slide, &err) != HRF_OK) {
        char text[128];
        const bool is_cut = hrf_slide_is_cut_short(row->path, text, sizeof text);
        say(finding, is_cut ? HRF_SLIDE_IS_CUT_SHORT : HRF_SLIDE_IS_UNREADABLE, err.text);
        return;
    }
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    describe(info, finding);
    if (info->n_cut_off > 0) {
        HRF_AUTO_FREE char *text = hrf_format(
            "%lld tiles lie beyond the end of the file: it is cut "
            "short; copy it again",
            (long long)info->n_cut_off);
        say(finding, HRF_SLIDE_IS_CUT_SHORT, text != NULL ? text : "it is cut short");
    } else if (hrf_slide_resolution(slide, row->mpp_csv, opening->workflow_mpp, &finding->mpp_x,
                                    &finding->mpp_y, &finding->source, &err) != HRF_OK) {
        say(finding, HRF_SLIDE_HAS_NO_MPP, err.text);
    }
}

static void *open_some(void *context)
{
    struct opening *opening = context;
    for (;;) {
        pthread_mutex_lock(&opening->lock);
        const size_t i = opening->next;
        opening->next += i < opening->survey->n_items;
        pthread_mutex_unlock(&opening->lock);
        if (i >= opening->survey->n_items)
            return NULL;
        look_at(opening, &opening->rows->items[i], &opening->survey->items[i]);
    }
}

static enum hrf_status open_all(struct opening *opening, int32_t n_threads, struct hrf_error *err)
{
    HRF_AUTO_FREE pthread_t *threads = hrf_alloc_array((size_t)n_threads, sizeof *threads);
    int32_t n = 0;
    int native = 0;
    HRF_CHECK_MEMORY(threads != NULL, err, "no memory for %d threads", n_threads);
    while (n < n_threads && native == 0) {
        native = pthread_create(&threads[n], NULL, open_some, opening);
        n += native == 0;
    }
    for (int32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return n > 0 ? HRF_OK : hrf_error_set_errno(err, native, "cannot start a thread");
}

static bool is_fresh(const struct hrf_slide_row *row, int64_t now_s)
{
    return row->n_bytes > 0 && now_s - row->mtime_ns / 1000000000 < FRESH_S;
}

/* Files that grow, and incomplete ones that were written a moment ago, are copies in progress. */
static void find_changing(const struct hrf_slide_rows *rows, struct hrf_survey *survey)
{
    const int64_t now_s = (int64_t)time(NULL);
    bool any = false;
    for (size_t i = 0; i < survey->n_items; i++)
        any |= is_fresh(&rows->items[i], now_s);
    if (any)
        nanosleep(&(struct timespec){ .tv_nsec = (WAIT_MS - 1) * 1000000L }, NULL);
    for (size_t i = 0; i < survey->n_items; i++) {
        const struct hrf_slide_row *row = &rows->items[i];
        struct hrf_slide_finding *finding = &survey->items[i];
        struct stat st;
        if (finding->kind == HRF_SLIDE_IS_EXCLUDED || finding->kind == HRF_SLIDE_IS_MISSING ||
            stat(row->path, &st) != 0)
            continue;
        const bool is_incomplete = finding->kind == HRF_SLIDE_IS_UNREADABLE ||
                                   finding->kind == HRF_SLIDE_IS_CUT_SHORT;
        HRF_AUTO_FREE char *text = NULL;
        if (st.st_size != row->n_bytes)
            text = hrf_format("its size changes (%lld bytes, then %lld): it is being copied",
                              (long long)row->n_bytes, (long long)st.st_size);
        else if (is_incomplete && is_fresh(row, now_s))
            text = hrf_format("written less than a minute ago, perhaps it is being copied: %s",
                              finding->reason != NULL ? finding->reason : "");
        if (text != NULL)
            say(finding, HRF_SLIDE_IS_CHANGING, text);
    }
}

enum hrf_status hrf_survey_make(const struct hrf_slide_rows *rows, double workflow_mpp,
                                int32_t n_threads, struct hrf_survey *out, struct hrf_error *err)
{
    const double start = hrf_clock_seconds();
    struct hrf_survey survey = { .items = hrf_calloc(rows->n_items + 1, sizeof *survey.items),
                                 .n_items = rows->n_items };
    HRF_CHECK_MEMORY(survey.items != NULL, err, "no memory for %zu slides", rows->n_items);
    struct opening opening = { .rows = rows, .workflow_mpp = workflow_mpp, .survey = &survey };
    pthread_mutex_init(&opening.lock, NULL);
    const enum hrf_status status = open_all(&opening, n_threads, err);
    pthread_mutex_destroy(&opening.lock);
    if (status != HRF_OK) {
        hrf_survey_release(&survey);
        return status;
    }
    survey.seconds = hrf_clock_seconds() - start;
    find_changing(rows, &survey);
    *out = survey;
    return HRF_OK;
}
