#include "schema/record/rank.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/path.h"

#include <stdio.h>
#include <string.h>

enum { VERSION = 1 };

static const char *const names[] = { "running", "done", "stopped", "failed" };

static char *rank_path(const char *directory, int64_t rank)
{
    return hrf_format("%s/rank-%04lld.json", directory, (long long)rank);
}

enum hrf_status hrf_rank_write(const char *directory, const struct hrf_rank_record *r,
                               struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = rank_path(directory, r->rank);
    HRF_AUTO_JSON value = json_pack(
        "{sisIsIsIsIsIsIsIsIsssssoso}", "version", VERSION, "rank", (json_int_t)r->rank, "n_ranks",
        (json_int_t)r->n_ranks, "pid", (json_int_t)r->pid, "n_cpus", (json_int_t)r->n_cpus,
        "begin_ms", (json_int_t)r->begin_ms, "end_ms", (json_int_t)r->end_ms, "n_batches",
        (json_int_t)r->n_batches, "exit_code", (json_int_t)r->exit_code, "state", names[r->state],
        "cpus", r->cpus, "host", hrf_json_string(r->host), "reason", hrf_json_string(r->reason));
    if (path == NULL || value == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the record of a rank");
    return hrf_json_write_file(path, value, err);
}

static enum hrf_status parse(const json_t *value, const char *where, struct hrf_rank_record *out,
                             struct hrf_error *err)
{
    const char *state, *cpus, *host, *reason;
    int64_t version;
    HRF_TRY(hrf_json_get_int(value, "version", where, &version, err));
    if (version != VERSION)
        return hrf_error_set(err, HRF_E_USER, "%s: rank record version %lld, this build reads %d",
                             where, (long long)version, VERSION);
    HRF_TRY(hrf_json_get_int(value, "rank", where, &out->rank, err));
    HRF_TRY(hrf_json_get_int(value, "n_ranks", where, &out->n_ranks, err));
    HRF_TRY(hrf_json_get_int(value, "pid", where, &out->pid, err));
    HRF_TRY(hrf_json_get_int(value, "n_cpus", where, &out->n_cpus, err));
    HRF_TRY(hrf_json_get_int(value, "begin_ms", where, &out->begin_ms, err));
    HRF_TRY(hrf_json_get_int(value, "end_ms", where, &out->end_ms, err));
    HRF_TRY(hrf_json_get_int(value, "n_batches", where, &out->n_batches, err));
    HRF_TRY(hrf_json_get_int(value, "exit_code", where, &out->exit_code, err));
    HRF_TRY(hrf_json_get_text(value, "state", where, &state, err));
    HRF_TRY(hrf_json_get_text(value, "cpus", where, &cpus, err));
    HRF_TRY(hrf_json_get_text(value, "host", where, &host, err));
    HRF_TRY(hrf_json_get_text(value, "reason", where, &reason, err));
    snprintf(out->cpus, sizeof out->cpus, "%s", cpus);
    snprintf(out->host, sizeof out->host, "%s", host);
    snprintf(out->reason, sizeof out->reason, "%s", reason);
    for (int i = 0; i < 4; i++) {
        if (strcmp(state, names[i]) == 0) {
            out->state = (enum hrf_rank_state)i;
            return HRF_OK;
        }
    }
    return hrf_error_set(err, HRF_E_USER, "%s: unknown state '%s' of a rank", where, state);
}

enum hrf_status hrf_rank_read(const char *directory, int64_t rank, struct hrf_rank_record *out,
                              struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = rank_path(directory, rank);
    HRF_AUTO_JSON value = NULL;
    struct hrf_rank_record found = { .rank = rank };
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_AGAIN, "'%s' is not there", path);
    HRF_TRY(hrf_json_read_file(path, &value, err));
    HRF_TRY(parse(value, path, &found, err));
    *out = found;
    return HRF_OK;
}

void hrf_rank_find_failed(const char *directory, int64_t n_ranks, char *out, size_t size,
                          int64_t *exit_code)
{
    struct hrf_rank_record first = { .state = HRF_RANK_DONE };
    int64_t n_seen = 0;
    out[0] = '\0';
    *exit_code = 0;
    for (int64_t i = 0; i < n_ranks; i++) {
        struct hrf_rank_record r;
        if (hrf_rank_read(directory, i, &r, NULL) != HRF_OK)
            continue;
        n_seen++;
        const bool worse = r.state == HRF_RANK_FAILED
                               ? first.state != HRF_RANK_FAILED || r.end_ms < first.end_ms
                               : r.state == HRF_RANK_RUNNING && first.state == HRF_RANK_DONE;
        if (worse)
            first = r;
    }
    if (n_seen < n_ranks && first.state != HRF_RANK_FAILED) {
        snprintf(out, size, "only %lld of %lld ranks began", (long long)n_seen, (long long)n_ranks);
        return;
    }
    if (first.state == HRF_RANK_DONE)
        return;
    *exit_code = first.exit_code;
    snprintf(out, size, "rank %lld of %lld on %.64s %s%.150s", (long long)first.rank,
             (long long)n_ranks, first.host,
             first.state == HRF_RANK_FAILED ? "failed: " : "was killed",
             first.state == HRF_RANK_FAILED ? first.reason : "");
}

int64_t hrf_rank_deadline_ms(void)
{
    return hrf_clock_setting_ms("HRF_RANK_DEADLINE_MS", 120000);
}

bool hrf_rank_have_ended(const char *directory, int64_t n_ranks)
{
    int64_t n_ended = 0;
    for (int64_t i = 0; i < n_ranks; i++) {
        struct hrf_rank_record r;
        if (hrf_rank_read(directory, i, &r, NULL) != HRF_OK)
            continue;
        if (r.state == HRF_RANK_FAILED)
            return true;
        n_ended += r.state != HRF_RANK_RUNNING;
    }
    return n_ended == n_ranks;
}
