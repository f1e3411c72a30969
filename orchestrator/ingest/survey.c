/* survey.c - see survey.h. */
#include "orchestrator/ingest/survey.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/guard.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { FRESH_S = 60, WAIT_MS = 1000 };

struct opening {
    const struct hrf_slide_rows *rows;
    double workflow_mpp;
    struct hrf_survey *survey;
};

static const struct {
    const char *word, *text;
} kinds[HRF_N_FINDING_KINDS] = {
    [HRF_SLIDE_IS_READY] = { "ready", "that can be scored" },
    [HRF_SLIDE_IS_EXCLUDED] = { "excluded", "excluded" },
    [HRF_SLIDE_IS_MISSING] = { "missing", "missing" },
    [HRF_SLIDE_IS_UNREADABLE] = { "unreadable", "that cannot be opened" },
    [HRF_SLIDE_IS_CUT_SHORT] = { "cut-short", "cut short" },
    [HRF_SLIDE_IS_CHANGING] = { "changing", "still being copied" },
    [HRF_SLIDE_HAS_NO_MPP] = { "no-resolution", "without a resolution" },
};

const char *hrf_finding_word(enum hrf_finding_kind kind)
{
    return kinds[kind].word;
}

const char *hrf_finding_text(enum hrf_finding_kind kind)
{
    return kinds[kind].text;
}

void hrf_survey_release(struct hrf_survey *survey)
{
    for (size_t i = 0; i < survey->n_items; i++)
        hrf_free(survey->items[i].reason);
    hrf_free(survey->items);
    *survey = (struct hrf_survey){ .items = NULL };
}

static void set_finding(struct hrf_slide_finding *finding, enum hrf_finding_kind kind,
                        const char *reason)
{
    finding->kind = kind;
    hrf_free(finding->reason);
    finding->reason = hrf_strdup(reason);
}

static void survey_slide(const struct opening *opening, const struct hrf_slide_row *row,
                         struct hrf_slide_finding *finding)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (row->state == HRF_SLIDE_EXCLUDED || row->state == HRF_SLIDE_FAILED) {
        set_finding(finding,
                    row->state == HRF_SLIDE_FAILED ? HRF_SLIDE_IS_MISSING : HRF_SLIDE_IS_EXCLUDED,
                    row->reason != NULL ? row->reason : "excluded");
        return;
    }
    if (hrf_slide_open(row->path, &slide, &err) != HRF_OK) {
        char text[128];
        const bool is_cut = hrf_slide_is_cut_short(row->path, text, sizeof text);
        set_finding(finding, is_cut ? HRF_SLIDE_IS_CUT_SHORT : HRF_SLIDE_IS_UNREADABLE, err.text);
        return;
    }
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    snprintf(finding->vendor, sizeof finding->vendor, "%s", info->vendor);
    snprintf(finding->scanner, sizeof finding->scanner, "%s", info->scanner);
    finding->width = info->width;
    finding->height = info->height;
    if (info->n_cut_off > 0) {
        HRF_AUTO_FREE char *text = hrf_format(
            "%lld tiles lie beyond the end of the file: it is cut short; copy it again",
            (long long)info->n_cut_off);
        set_finding(finding, HRF_SLIDE_IS_CUT_SHORT, text);
    } else if (hrf_slide_resolution(slide, row->mpp_csv, opening->workflow_mpp, &finding->mpp_x,
                                    &finding->mpp_y, &finding->source, &err) != HRF_OK) {
        set_finding(finding, HRF_SLIDE_HAS_NO_MPP, err.text);
    }
}

/* Runs in a child process. The answer is the finding and its reason, which ends with a NUL. */
static enum hrf_status survey_in_child(void *context, const void *question,
                                       struct hrf_strbuf *answer, struct hrf_error *err)
{
    const struct opening *opening = context;
    const size_t i = *(const size_t *)question;
    struct hrf_slide_finding finding = { .reason = NULL };
    (void)err;
    survey_slide(opening, &opening->rows->items[i], &finding);
    hrf_strbuf_add(answer, &finding, sizeof finding);
    if (finding.reason != NULL)
        hrf_strbuf_add(answer, finding.reason, strlen(finding.reason) + 1);
    hrf_free(finding.reason);
    return HRF_OK;
}

static const char *path_of(void *context, size_t i)
{
    const struct opening *opening = context;
    return opening->rows->items[i].path;
}

static void take_finding(void *context, size_t i, enum hrf_status status,
                         const struct hrf_strbuf *answer, const struct hrf_error *err)
{
    const struct opening *opening = context;
    struct hrf_slide_finding *finding = &opening->survey->items[i];
    if (status != HRF_OK) {
        set_finding(finding, HRF_SLIDE_IS_UNREADABLE, err->text);
        return;
    }
    memcpy(finding, answer->text, sizeof *finding);
    finding->reason = finding->reason != NULL ? hrf_strdup(answer->text + sizeof *finding) : NULL;
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
            set_finding(finding, HRF_SLIDE_IS_CHANGING, text);
    }
}

enum hrf_status hrf_survey_make(const struct hrf_slide_rows *rows, double workflow_mpp,
                                int32_t n_children, struct hrf_survey *out, struct hrf_error *err)
{
    const double start = hrf_clock_seconds();
    struct hrf_survey survey = { .items = hrf_calloc(rows->n_items + 1, sizeof *survey.items),
                                 .n_items = rows->n_items };
    struct opening opening = { .rows = rows, .workflow_mpp = workflow_mpp, .survey = &survey };
    const struct hrf_guard_batch batch = { .n_items = rows->n_items,
                                           .n_children = n_children,
                                           .work = survey_in_child,
                                           .path = path_of,
                                           .take = take_finding,
                                           .context = &opening };
    const enum hrf_status status = hrf_guard_ask_all(&batch, err);
    if (status != HRF_OK) {
        hrf_survey_release(&survey);
        return status;
    }
    survey.seconds = hrf_clock_seconds() - start;
    find_changing(rows, &survey);
    *out = survey;
    return HRF_OK;
}
