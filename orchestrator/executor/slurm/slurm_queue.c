/* slurm_queue.c - when squeue is asked, what follows from its answers, and what is known of each
 * job in between. */
#include "orchestrator/executor/slurm/slurm_queue.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "orchestrator/executor/slurm/command.h"
#include "orchestrator/executor/slurm/queue_cache.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Time between two questions: FAST_MS for the first FAST_FOR_MS after a submission; then at least
 * SLOW_MS and at least QUERY_SHARE times the duration of a query, growing up to IDLE_MS while
 * nothing changes. While the controller does not answer, the time grows up to LOST_MS. READ_MS is
 * the time between two reads of the queue cache; each read is a message to the file server. */
enum { FAST_MS = 2000, FAST_FOR_MS = 10000, SLOW_MS = 5000, IDLE_MS = 60000, LOST_MS = 120000 };
enum { QUERY_SHARE = 20, READ_MS = 1000 };

struct hrf_slurm_queue {
    char run_id[64];
    struct hrf_slurm_limits *limits; /* borrowed */
    bool has_asked_limits;
    bool query_is_for_limits; /* the running query is scontrol's, not squeue's */
    struct hrf_slurm_query *query;
    struct hrf_queue_cache *cache; /* NULL until the site is known */
    bool has_opened_cache;
    struct hrf_slurm_table table;
    bool has_table;
    int64_t table_ms;         /* when this machine asked for the table; 0: another machine asked, so
                                 a job that the table does not show may still exist */
    bool is_missing;          /* look() was asked for a job that such a table does not show */
    int64_t asked_ms;         /* when our last question was started */
    int64_t last_asked_ms;    /* when this machine asked for its last answer, good or not */
    int64_t last_received_ms; /* when the last answer arrived, from any machine */
    int64_t cache_read_ms;    /* when the queue cache was read last */
    int64_t next_ms, interval_ms, busy_until_ms;
    int64_t failing_since_ms;
    uint64_t table_hash;
    char trouble[300];
    char unknown[64]; /* the last unknown job state that a warning was logged for */
};

struct hrf_slurm_queue *hrf_slurm_queue_create(const char *run_id, struct hrf_slurm_limits *limits)
{
    struct hrf_slurm_queue *q = hrf_calloc(1, sizeof *q);
    snprintf(q->run_id, sizeof q->run_id, "%s", run_id);
    q->limits = limits;
    q->last_asked_ms = hrf_clock_ms(); /* earlier answers may be older than our own jobs */
    q->query = hrf_slurm_query_create();
    return q;
}

void hrf_slurm_queue_destroy(struct hrf_slurm_queue *q)
{
    if (q == NULL)
        return;
    hrf_slurm_query_destroy(q->query);
    hrf_queue_cache_close(q->cache);
    hrf_slurm_table_release(&q->table);
    hrf_free(q);
}

/* ---- an answer ---- */

/* Returns true if this failure has another text than the one before. */
static bool note_failure(struct hrf_slurm_queue *q, const char *text)
{
    const int64_t now = hrf_clock_ms();
    const bool is_new = strncmp(q->trouble, text, sizeof q->trouble - 1) != 0;
    if (q->failing_since_ms == 0) {
        q->failing_since_ms = now;
        q->interval_ms = hrf_slurm_wait_ms(SLOW_MS);
        hrf_log_warning("slurm", "the controller does not answer, jobs go on: %s", text);
    }
    snprintf(q->trouble, sizeof q->trouble, "%.*s", (int)sizeof q->trouble - 1, text);
    q->interval_ms *= 2;
    if (q->interval_ms > hrf_slurm_wait_ms(LOST_MS))
        q->interval_ms = hrf_slurm_wait_ms(LOST_MS);
    q->next_ms = now + q->interval_ms;
    return is_new;
}

static void note_answer(struct hrf_slurm_queue *q, bool changed, int64_t took_ms)
{
    const int64_t now = hrf_clock_ms(), slow = hrf_slurm_wait_ms(SLOW_MS);
    const int64_t min = slow > QUERY_SHARE * took_ms ? slow : QUERY_SHARE * took_ms;
    if (q->failing_since_ms != 0)
        hrf_log_info("slurm", "the controller answers again after %.0f s",
                     (double)(now - q->failing_since_ms) / 1000);
    q->failing_since_ms = 0;
    q->trouble[0] = '\0';
    if (changed || q->interval_ms == 0)
        q->interval_ms = min;
    else
        q->interval_ms += q->interval_ms / 2;
    if (q->interval_ms > hrf_slurm_wait_ms(IDLE_MS))
        q->interval_ms = hrf_slurm_wait_ms(IDLE_MS);
    q->next_ms = now + (now < q->busy_until_ms ? hrf_slurm_wait_ms(FAST_MS) : q->interval_ms);
}

static void warn_unknown(struct hrf_slurm_queue *q)
{
    if (q->table.unknown == NULL || strcmp(q->table.unknown, q->unknown) == 0)
        return;
    snprintf(q->unknown, sizeof q->unknown, "%s", q->table.unknown);
    hrf_log_warning("slurm",
                    "squeue shows a job in the state '%s', which is not known here; it "
                    "counts as running",
                    q->unknown);
}

/* The same jobs must not be submitted twice. If they were, the first array counts and the others
 * are cancelled. */
static void cancel_duplicates(struct hrf_slurm_queue *q)
{
    for (size_t i = 0; i < q->table.n_entries; i++) {
        const struct hrf_slurm_entry *e = &q->table.entries[i];
        const struct hrf_slurm_entry *duplicate = hrf_slurm_table_duplicate(&q->table, e);
        if (duplicate == NULL || duplicate->observed == HRF_JOB_ENDED ||
            e->observed == HRF_JOB_ENDED)
            continue;
        char id[64];
        struct hrf_slurm_output out;
        snprintf(id, sizeof id, "%lld", (long long)duplicate->id);
        const char *const argv[] = { "scancel", id, NULL };
        hrf_log_warning("slurm", "array %s is a second one of the same jobs as %lld: it is ended",
                        id, (long long)e->id);
        if (hrf_slurm_ask(argv, &out))
            hrf_slurm_output_release(&out);
        return; /* further duplicates belong to this array, or are found in the next answer */
    }
}

/* Takes in an answer of squeue, our own or another driver's, and takes over its text. Returns true
 * if the table or the text of trouble() is new. */
static bool accept_answer(struct hrf_slurm_queue *q, struct hrf_queue_answer *answer)
{
    struct hrf_slurm_table table;
    struct hrf_error err = { .status = HRF_OK };
    q->last_received_ms = hrf_clock_ms();
    if (!answer->is_from_other_host)
        q->last_asked_ms = answer->asked_ms;
    if (!answer->succeeded) {
        const bool is_new = note_failure(q, answer->text);
        hrf_free(answer->text);
        return is_new;
    }
    const uint64_t new_hash = hrf_hash_fnv(answer->text, answer->n_bytes);
    if (hrf_slurm_table_parse(answer->text, answer->n_bytes, q->run_id, &table, &err) != HRF_OK)
        return note_failure(q, err.text);
    hrf_slurm_table_release(&q->table);
    q->table = table;
    q->has_table = true;
    q->is_missing = false;
    q->table_ms = answer->asked_ms; /* 0 if another machine asked */
    note_answer(q, new_hash != q->table_hash, answer->took_ms);
    q->table_hash = new_hash;
    warn_unknown(q);
    cancel_duplicates(q);
    return true;
}

/* ---- the controller's limits and the queue cache ---- */

static void open_queue_cache(struct hrf_slurm_queue *q)
{
    struct hrf_error why = { .status = HRF_OK };
    if (q->has_opened_cache || q->limits->site[0] == '\0')
        return;
    q->has_opened_cache = true;
    q->cache = hrf_queue_cache_open(NULL, NULL, q->limits->site, &why);
    if (q->cache == NULL)
        hrf_log_warning("slurm",
                        "this run queries squeue by itself instead of sharing the answers with "
                        "your other runs: %s",
                        why.text);
    else if (why.status != HRF_OK)
        hrf_log_info("slurm", "your runs on other machines query squeue by themselves: %s",
                     why.text);
}

/* Takes scontrol's answer if it has arrived. If it failed, the next submission asks again; until
 * then this run shares no queue cache. */
static void take_limits(struct hrf_slurm_queue *q)
{
    struct hrf_slurm_output out;
    enum hrf_status status;
    if (!hrf_slurm_query_take(q->query, &out, &status, NULL))
        return;
    q->query_is_for_limits = false;
    if (status != HRF_OK)
        return;
    if (hrf_slurm_succeeded(&out) && q->limits->site[0] == '\0')
        hrf_slurm_config_parse(out.output.text, q->limits);
    hrf_slurm_output_release(&out);
}

void hrf_slurm_queue_wait_for_limits(struct hrf_slurm_queue *q)
{
    for (; q->query_is_for_limits; hrf_clock_sleep_ms(2))
        take_limits(q);
}

/* Returns true if the question was started. */
static bool ask_limits(struct hrf_slurm_queue *q)
{
    static const char *const config[] = { "scontrol", "show", "config", NULL };
    if (q->has_asked_limits || q->limits->site[0] != '\0')
        return false;
    q->has_asked_limits = true;
    q->query_is_for_limits = hrf_slurm_query_start(q->query, config, NULL) == HRF_OK;
    return q->query_is_for_limits;
}

/* ---- asking ---- */

/* Returns what squeue printed, or why there is no answer; heap. */
static char *text_of(struct hrf_slurm_output *out, struct hrf_queue_answer *answer)
{
    char line[300];
    answer->succeeded = hrf_slurm_succeeded(out);
    if (answer->succeeded) {
        answer->n_bytes = out->output.length;
        return hrf_strbuf_detach(&out->output);
    }
    hrf_slurm_error_line(out->errors.text, line, sizeof line);
    if (out->result.timed_out)
        snprintf(line, sizeof line, "squeue gives no answer");
    answer->n_bytes = strlen(line);
    return hrf_strdup(line);
}

/* Takes in the answer to our question if it has arrived, and publishes it for other drivers. */
static bool take_answer(struct hrf_slurm_queue *q)
{
    struct hrf_slurm_output out;
    enum hrf_status status;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_queue_answer answer = { .asked_ms = q->asked_ms };
    if (!hrf_slurm_query_take(q->query, &out, &status, &err))
        return false;
    answer.took_ms = hrf_clock_ms() - q->asked_ms;
    if (status == HRF_OK) {
        answer.text = text_of(&out, &answer);
        hrf_slurm_output_release(&out);
    } else {
        answer.text = hrf_strdup(err.text);
        answer.n_bytes = strlen(err.text);
    }
    hrf_queue_cache_put(q->cache, &answer);
    return accept_answer(q, &answer);
}

static void ask_squeue(struct hrf_slurm_queue *q)
{
    struct hrf_error err;
    char user[32];
    snprintf(user, sizeof user, "%ld", (long)getuid());
    const char *const argv[] = { "squeue", "-h", "-t", "all",
                                 "-u",     user, "-o", HRF_SLURM_SQUEUE_FORMAT,
                                 NULL };
    q->asked_ms = hrf_clock_ms();
    q->next_ms = q->asked_ms + hrf_slurm_wait_ms(FAST_MS);
    if (hrf_slurm_query_start(q->query, argv, &err) == HRF_OK)
        return;
    hrf_queue_cache_unlock(q->cache);
    note_failure(q, err.text);
}

/* A question is also due if another machine's answer did not show one of our jobs. */
static bool is_due(const struct hrf_slurm_queue *q)
{
    const int64_t now = hrf_clock_ms();
    return now >= q->next_ms ||
           (q->is_missing && now >= q->last_received_ms + hrf_slurm_wait_ms(FAST_MS) &&
            q->failing_since_ms == 0);
}

static bool read_cache(struct hrf_slurm_queue *q)
{
    struct hrf_queue_answer answer;
    const int64_t now = hrf_clock_ms();
    if (now - q->cache_read_ms < hrf_slurm_wait_ms(READ_MS) && now < q->next_ms)
        return false;
    q->cache_read_ms = now;
    return hrf_queue_cache_read(q->cache, q->last_asked_ms, &answer) && accept_answer(q, &answer);
}

bool hrf_slurm_queue_poll(struct hrf_slurm_queue *q)
{
    bool is_new = false;
    if (q->query_is_for_limits)
        take_limits(q);
    else
        is_new = take_answer(q);
    if (hrf_slurm_query_is_busy(q->query) || ask_limits(q))
        return is_new;
    open_queue_cache(q);
    is_new |= read_cache(q);
    if (is_due(q) &&
        hrf_queue_cache_lock(q->cache, hrf_clock_ms(), HRF_SLURM_DEADLINE_MS + SLOW_MS))
        ask_squeue(q);
    return is_new;
}

/* ---- what is known of a job ---- */

static void fill_view(const struct hrf_slurm_entry *e, struct hrf_job_view *out)
{
    *out = (struct hrf_job_view){ .observed = e->observed, .cause = e->cause, .id = e->id };
    snprintf(out->state, sizeof out->state, "%.*s", (int)sizeof out->state - 1, e->state);
    if (strcmp(e->reason, "None") != 0)
        snprintf(out->reason, sizeof out->reason, "%.*s", (int)sizeof out->reason - 1, e->reason);
    if (strpbrk(e->nodes, ",[") == NULL)
        snprintf(out->node, sizeof out->node, "%.*s", (int)sizeof out->node - 1, e->nodes);
    /* Slurm could not start the job and holds it until a person releases it. The fault is the
     * machine's, so the job counts as ended and its tasks run elsewhere. */
    if (strcmp(e->reason, "launch failed requeued held") == 0 ||
        strcmp(e->reason, "launch_failed_requeued_held") == 0) {
        out->observed = HRF_JOB_ENDED;
        out->cause = HRF_CAUSE_NODE;
    }
}

void hrf_slurm_queue_look(struct hrf_slurm_queue *q, const struct hrf_job_handle *handle,
                          struct hrf_job_view *out)
{
    *out = (struct hrf_job_view){ .observed = HRF_JOB_UNKNOWN, .id = handle->id };
    if (!q->has_table)
        return;
    const struct hrf_slurm_entry *e = hrf_slurm_table_find(&q->table, handle->submission,
                                                           handle->array_index);
    if (e != NULL) {
        fill_view(e, out);
        out->asked_ms = q->table_ms;
    } else if (q->table_ms > handle->since_ms) /* asked after the job was submitted */
        out->observed = HRF_JOB_GONE;
    else
        q->is_missing = true;
}

int64_t hrf_slurm_queue_live_id(const struct hrf_slurm_queue *q,
                                const struct hrf_job_handle *handle)
{
    const struct hrf_slurm_entry *e = hrf_slurm_table_find(&q->table, handle->submission,
                                                           handle->array_index);
    if (e == NULL)
        return handle->id;
    return e->observed == HRF_JOB_ENDED ? 0 : e->id;
}

void hrf_slurm_queue_ask_soon(struct hrf_slurm_queue *q, int64_t ms)
{
    const int64_t now = hrf_clock_ms();
    q->busy_until_ms = now + hrf_slurm_wait_ms(FAST_FOR_MS);
    q->next_ms = now + hrf_slurm_wait_ms(ms);
}

const char *hrf_slurm_queue_trouble(const struct hrf_slurm_queue *q)
{
    return q->trouble;
}
