/* failure.h - how a worker reports a failure: in the task's status if one task failed, in
 * error.json beside the job's spec if the whole job did.
 *
 * With the error it names the file that the worker's machine could not open, if that was the cause.
 * The orchestrator then checks whether its own machine can: if so, the node is at fault.
 */
#ifndef HRF_SCHEMA_RECORD_FAILURE_H
#define HRF_SCHEMA_RECORD_FAILURE_H

#include "base/error.h"
#include "base/json.h"

struct hrf_failure {
    struct hrf_error error; /* status HRF_OK: there was no failure */
    char *lacks;            /* path that the machine `host` could not open; heap; NULL = none */
    int64_t lacks_errno;    /* why not */
    char host[128];
};
void hrf_failure_release(struct hrf_failure *failure);

/* Fills in the error and the first of `paths` that this machine cannot open. NULL entries are
 * skipped. */
void hrf_failure_fill(struct hrf_failure *failure, const struct hrf_error *error,
                      const char *const paths[], size_t n_paths);

json_t *hrf_failure_json(const struct hrf_failure *failure); /* JSON null: no failure */
HRF_CHECKED enum hrf_status hrf_failure_from_json(const json_t *value, const char *where,
                                                  struct hrf_failure *out, struct hrf_error *err);

/* Writes DIRECTORY/error.json. The file only adds to what the exit code tells, so a failure to
 * write it is ignored. */
void hrf_failure_write(const char *directory, const struct hrf_failure *failure);
/* Reads DIRECTORY/error.json. HRF_E_AGAIN: there is no such file. */
HRF_CHECKED enum hrf_status hrf_failure_read(const char *directory, struct hrf_failure *out,
                                             struct hrf_error *err);

#endif
