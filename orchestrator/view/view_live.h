/* view_live.h - what happens in a run: its events, and what a job's processes wrote. Read-only. */
#ifndef HRF_ORCHESTRATOR_VIEW_VIEW_LIVE_H
#define HRF_ORCHESTRATOR_VIEW_VIEW_LIVE_H

#include "base/error.h"
#include "base/strbuf.h"

/* The last events (retries, failures, silent jobs), the newest first: [{"at_ms", "subject",
 * "text"}]. */
HRF_CHECKED enum hrf_status hrf_view_events(const char *directory, struct hrf_strbuf *out,
                                            struct hrf_error *err);
/* The end of the log of a job's newest attempt, as text: at most 32 KB, from the begin of a line.
 * HRF_E_USER: there is no such job. HRF_E_AGAIN: it has written nothing, or its folder is gone. */
HRF_CHECKED enum hrf_status hrf_view_log(const char *directory, const char *job_id,
                                         struct hrf_strbuf *out, struct hrf_error *err);

#endif
