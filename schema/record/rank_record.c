/* rank_record.c - the record of one rank of a job (rank_record.h). */
#include "schema/record/rank_record.h"

#include "base/clock.h"
#include "base/fields.h"
#include "base/path.h"

#include <stdio.h>

static const char *const states[] = { "running", "done", "stopped", "failed", NULL };
static const struct hrf_field fields[] = {
#define FIELD(key, type) HRF_FIELD(struct hrf_rank_record, #key, key, HRF_FIELD_##type)
    FIELD(rank, INT),      FIELD(n_ranks, INT),
    FIELD(pid, INT),       FIELD(n_cpus, INT),
    FIELD(begin_ms, INT),  FIELD(end_ms, INT),
    FIELD(n_batches, INT), FIELD(exit_code, INT),
    FIELD(cpus, NOTE),     FIELD(host, NOTE),
    FIELD(reason, NOTE),   HRF_FIELD_ENUM(struct hrf_rank_record, "state", state, states),
    FIELD(cpu_ms, INT),    FIELD(peak_bytes, INT),
#undef FIELD
};

static char *rank_path(const char *directory, int64_t rank)
{
    return hrf_format("%s/rank-%04lld.json", directory, (long long)rank);
}

enum hrf_status hrf_rank_write(const char *directory, const struct hrf_rank_record *r,
                               struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = rank_path(directory, r->rank);
    HRF_AUTO_JSON value = hrf_fields_document(HRF_FIELDS(fields), r);
    return hrf_json_write_file(path, value, err);
}

enum hrf_status hrf_rank_read(const char *directory, int64_t rank, struct hrf_rank_record *out,
                              struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = rank_path(directory, rank);
    HRF_AUTO_JSON value = NULL;
    struct hrf_rank_record found = { .rank = rank };
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_AGAIN, "'%s' is not there", path);
    HRF_TRY(hrf_json_read_file(path, &value, err));
    HRF_TRY(hrf_fields_check_version(value, "record of a rank", path, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), value, path, &found, err));
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
    snprintf(out, size, "rank %lld of %lld on %.64s %s%.200s", (long long)first.rank,
             (long long)n_ranks, first.host,
             first.state == HRF_RANK_FAILED ? "failed: " : "was killed",
             first.state == HRF_RANK_FAILED ? first.reason : "");
}

void hrf_rank_sum_usage(const char *directory, int64_t n_ranks, int64_t *cpu_ms,
                        int64_t *peak_bytes)
{
    int64_t sum_ms = 0, max_bytes = 0;
    *cpu_ms = *peak_bytes = 0;
    for (int64_t i = 0; i < n_ranks; i++) {
        struct hrf_rank_record r;
        if (hrf_rank_read(directory, i, &r, NULL) != HRF_OK || r.cpu_ms == 0)
            return;
        sum_ms += r.cpu_ms;
        max_bytes = r.peak_bytes > max_bytes ? r.peak_bytes : max_bytes;
    }
    *cpu_ms = sum_ms;
    *peak_bytes = max_bytes;
}

int64_t hrf_rank_deadline_ms(void)
{
    return hrf_clock_setting_ms("HRF_RANK_DEADLINE_MS", 1, 120000);
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
