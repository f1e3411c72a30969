/* view_live.c - events and logs of a run for the viewer's page. */
#include "orchestrator/view/view_live.h"

#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "schema/record/start.h"
#include "schema/store/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_EVENTS = 200, LOG_BYTES = 32768 };

enum hrf_status hrf_view_events(const char *directory, struct hrf_strbuf *out,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_event_rows) events = { NULL, 0 };
    HRF_AUTO_JSON list = json_array();
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_TRY(hrf_store_get_events(store, NULL, &events, err));
    for (size_t i = events.n_items; i-- > 0 && json_array_size(list) < MAX_EVENTS;) {
        const struct hrf_event_row *event = &events.items[i];
        if (strcmp(event->subject, "task") == 0) /* there is one for each result */
            continue;
        json_t *entry = json_object();
        hrf_json_put_int(entry, "at_ms", event->at_ms);
        hrf_json_put_text(entry, "subject", event->subject);
        hrf_json_put_text(entry, "text", event->text);
        hrf_json_add(list, entry);
    }
    HRF_AUTO_FREE char *text = hrf_json_text(list);
    hrf_strbuf_adds(out, text);
    return HRF_OK;
}

/* Finds the folder of the job's newest attempt, relative to the run directory; *out is heap. */
static enum hrf_status find_attempt(const char *directory, const char *job_id, char **out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_attempt_rows) attempts = { NULL, 0 };
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_TRY(hrf_store_get_attempts(store, false, &attempts, err));
    const struct hrf_attempt_row *found = NULL;
    for (size_t i = 0; i < attempts.n_items; i++)
        if (strcmp(attempts.items[i].job_id, job_id) == 0)
            found = &attempts.items[i];
    if (found == NULL)
        return hrf_error_set(err, HRF_E_USER, "there is no job '%s'", job_id);
    *out = hrf_strdup(found->directory);
    return HRF_OK;
}

/* The end of the log of the newest start that has one: a scheduler may start an attempt again. */
static enum hrf_status read_log(const char *directory, const char *attempt, char **text, size_t *n,
                                bool *is_cut, struct hrf_error *err)
{
    enum hrf_status status = HRF_E_AGAIN;
    for (int k = HRF_MAX_STARTS - 1; k >= 0 && status != HRF_OK; k--) {
        HRF_AUTO_FREE char *start = hrf_start_directory(attempt, k);
        HRF_AUTO_FREE char *path = hrf_path_join(start, "log");
        status = hrf_file_read_tail_below(directory, path, LOG_BYTES, text, n, is_cut, err);
    }
    return status;
}

enum hrf_status hrf_view_log(const char *directory, const char *job_id, struct hrf_strbuf *out,
                             struct hrf_error *err)
{
    HRF_AUTO_FREE char *attempt = NULL, *text = NULL;
    size_t n = 0;
    bool is_cut = false;
    struct hrf_error why = { .status = HRF_OK };
    HRF_TRY(find_attempt(directory, job_id, &attempt, err));
    const enum hrf_status status = read_log(directory, attempt, &text, &n, &is_cut, &why);
    if (status != HRF_OK && why.native == ENOENT)
        return hrf_error_set(err, HRF_E_AGAIN, "%s has no log (yet), or it was removed", job_id);
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s", why.text);
    const char *begin = is_cut ? memchr(text, '\n', n) : NULL;
    begin = begin != NULL ? begin + 1 : text;
    hrf_strbuf_add(out, begin, (size_t)(text + n - begin));
    return HRF_OK;
}
