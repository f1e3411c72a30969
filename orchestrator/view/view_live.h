/* view_live.h - the events of a run and the logs of its jobs, for the viewer. Read-only. */
#ifndef HRF_ORCHESTRATOR_VIEW_VIEW_LIVE_H
#define HRF_ORCHESTRATOR_VIEW_VIEW_LIVE_H

#include "base/error.h"
#include "base/strbuf.h"

/* The last events (retries, failures, silent jobs), the newest first: [{"at_ms", "subject",
 * "text"}]. */
HRF_CHECKED enum hrf_status hrf_view_events(const char *directory, struct hrf_strbuf *out,
                                            struct hrf_error *err);
/* The end of the log of a job's newest attempt: at most 32 KB, from the beginning of a line.
 * HRF_E_USER: there is no such job. HRF_E_AGAIN: it has no log yet, or its folder is gone. */
HRF_CHECKED enum hrf_status hrf_view_log(const char *directory, const char *job_id,
                                         struct hrf_strbuf *out, struct hrf_error *err);

#endif
