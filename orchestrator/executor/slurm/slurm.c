/* slurm.c - jobs as elements of Slurm arrays: one sbatch a submission, one squeue for all.
 *
 * squeue runs beside us; its last good answer stands until the next. A failed answer changes
 * nothing that was known: it makes the next question later and `trouble` true. What another driver
 * of the same user was told counts as if we had asked.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/path.h"
#include "orchestrator/executor/slurm/board.h"
#include "orchestrator/executor/slurm/command.h"
#include "orchestrator/executor/slurm/parse.h"
#include "orchestrator/executor/slurm/script.h"
#include "orchestrator/executor/slurm/witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Cadence: FAST_MS after a submission and for FAST_FOR_MS, then at least SLOW_MS and QUERY_SHARE
 * times what a query takes, growing to IDLE_MS while nothing changes; LOST_MS is the ceiling while
 * the controller does not answer. */
enum { FAST_MS = 2000, FAST_FOR_MS = 10000, SLOW_MS = 5000, IDLE_MS = 60000, LOST_MS = 120000 };
enum { QUERY_SHARE = 20, CANCEL_BATCH = 200, QUIET_MS = 30000 };
enum { GRACE_MS = 15000, FULL_MS = 5000, TICK_MS = 250, SUBMIT_MS = 1000 };

struct slurm {
    struct hrf_executor base;
    const struct hrf_workflow_executor *settings; /* borrowed */
    char run_id[64];
    char *program;
    struct hrf_slurm_limits limits;
    struct hrf_slurm_partition partition;
    bool has_limits;
    struct hrf_slurm_query *query;
    struct hrf_slurm_board *board;
    struct hrf_slurm_table table;
    int64_t answered_ms; /* when the query of the table was started; 0 = none yet */
    int64_t asked_ms;    /* when our last one was started */
    int64_t heard_ms;    /* when the last answer was asked for, by us or another, good or not */
    int64_t next_ms, interval_ms, busy_until_ms;
    int64_t failing_since_ms;
    uint64_t table_hash;
    char trouble[300];
    char unknown[64]; /* a state word that was warned of */
    bool has_squeue_answer;
};

static int64_t now_ms(void)
{
    return hrf_clock_ns() / 1000000;
}

static struct slurm *slurm_of(struct hrf_executor *executor)
{
    return (struct slurm *)executor;
}

/* For tests: all waits in proportion. */
static int64_t scaled(int64_t ms)
{
    const char *text = getenv("HRF_SLURM_WAIT_PERCENT");
    const int64_t percent = text != NULL ? strtoll(text, NULL, 10) : 100;
    return percent > 0 ? ms * percent / 100 : ms;
}

static void destroy(struct hrf_executor *executor)
{
    struct slurm *s = slurm_of(executor);
    hrf_slurm_query_destroy(s->query);
    hrf_slurm_board_close(s->board);
    hrf_slurm_table_release(&s->table);
    hrf_free(s->program);
    hrf_free(s);
}

/* ---- limits ---- */

/* What is not told now is asked again at the next submission. */
static void find_limits(struct slurm *s)
{
    static const char *const config[] = { "scontrol", "show", "config", NULL };
    static const char *const partitions[] = { "scontrol", "show", "partition", "-o", NULL };
    struct hrf_slurm_output out;
    if (s->has_limits || !hrf_slurm_ask(config, &out))
        return;
    hrf_slurm_config_parse(out.output.text, &s->limits);
    hrf_slurm_output_release(&out);
    if (!hrf_slurm_ask(partitions, &out))
        return;
    hrf_slurm_partition_parse(out.output.text, s->settings->slurm.partition, &s->partition);
    hrf_slurm_output_release(&out);
    s->has_limits = true;
}

static int64_t limit(struct hrf_executor *executor)
{
    struct slurm *s = slurm_of(executor);
    find_limits(s);
    return hrf_slurm_most(&s->limits);
}

/* ---- submit ---- */

static enum hrf_status wrap(struct hrf_executor *executor, const char *kind,
                            struct hrf_text_list *out, struct hrf_error *err)
{
    return hrf_slurm_wrap(slurm_of(executor)->settings, kind, out, err);
}

static int64_t threads(const struct hrf_executor *executor, const char *kind, int64_t most_jobs)
{
    (void)most_jobs; /* a job has machines of its own */
    const struct slurm *s = (const struct slurm *)executor;
    return strcmp(kind, "tile") == 0 ? 1 : s->settings->slurm.cpus_per_rank;
}

static int64_t ranks(const struct hrf_executor *executor, const char *kind)
{
    return hrf_slurm_ranks(((const struct slurm *)executor)->settings, kind);
}

/* The script and the folder of the elements' output, which Slurm does not make. */
static enum hrf_status write_script(const struct hrf_slurm_job *job, struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_slurm_directory(job->submission->number);
    HRF_AUTO_FREE char *directory = name != NULL
                                        ? hrf_path_join(job->submission->run_directory, name)
                                        : NULL;
    HRF_AUTO_FREE char *path = directory != NULL ? hrf_path_join(directory, "job.sh") : NULL;
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    HRF_TRY(hrf_path_make_directories(directory, err));
    struct hrf_strbuf script = HRF_STRBUF_INIT;
    hrf_slurm_script(job, &script);
    enum hrf_status status = hrf_strbuf_status(&script, err);
    if (status == HRF_OK)
        status = hrf_file_write_atomic(path, script.text, script.length, err);
    hrf_strbuf_release(&script);
    return status;
}

static enum hrf_status judge_answer(struct slurm *s, const struct hrf_slurm_output *out,
                                    struct hrf_job_handle *handles, size_t n,
                                    enum hrf_submit_outcome *outcome, struct hrf_error *err)
{
    char line[400], cluster[64];
    int64_t id = 0;
    enum hrf_slurm_answer answer = hrf_slurm_sbatch_answer(hrf_slurm_is_well(out), out->output.text,
                                                           out->errors.text, &id, cluster);
    if (out->result.timed_out)
        answer = HRF_SLURM_UNSURE;
    hrf_slurm_error_line(out->errors.text, line, sizeof line);
    s->busy_until_ms = now_ms() + scaled(FAST_FOR_MS);
    s->next_ms = now_ms() + scaled(FAST_MS);
    switch (answer) {
    case HRF_SLURM_TAKEN:
        for (size_t i = 0; i < n; i++)
            handles[i].id = id;
        *outcome = HRF_SUBMIT_TAKEN;
        return HRF_OK;
    case HRF_SLURM_FULL:
        *outcome = HRF_SUBMIT_FULL;
        hrf_error_set(err, HRF_E_AGAIN, "sbatch: %s", line);
        return HRF_OK;
    case HRF_SLURM_UNSURE:
        *outcome = HRF_SUBMIT_UNSURE;
        hrf_error_set(err, HRF_E_AGAIN, "sbatch: %s",
                      out->result.timed_out ? "no answer"
                      : line[0] != '\0'     ? line
                                            : "it named no job");
        return HRF_OK;
    case HRF_SLURM_REFUSED:
        break;
    }
    return hrf_error_set(err, HRF_E_USER,
                         "Slurm refuses the jobs: %s; see executor.slurm in the "
                         "workflow",
                         line);
}

static enum hrf_status submit(struct hrf_executor *executor,
                              const struct hrf_submission *submission,
                              struct hrf_job_handle *handles, enum hrf_submit_outcome *outcome,
                              struct hrf_error *err)
{
    struct slurm *s = slurm_of(executor);
    struct hrf_text_list words = { NULL, 0 };
    struct hrf_slurm_output out;
    const struct hrf_slurm_job job = { .settings = s->settings,
                                       .submission = submission,
                                       .program = s->program,
                                       .max_minutes = s->partition.max_minutes,
                                       .max_memory_bytes = s->partition.max_mem_bytes };
    HRF_TRY(write_script(&job, err));
    enum hrf_status status = hrf_slurm_sbatch(&job, &words, err);
    const char **argv = status == HRF_OK ? hrf_calloc(words.n_items + 1, sizeof *argv) : NULL;
    if (status == HRF_OK && argv == NULL)
        status = hrf_error_set(err, HRF_E_NOMEM, "no memory for a command line");
    for (size_t i = 0; i < words.n_items && status == HRF_OK; i++)
        argv[i] = words.items[i];
    if (status == HRF_OK)
        status = hrf_slurm_run(argv, HRF_SLURM_SUBMIT_DEADLINE_MS, &out, err);
    hrf_free(argv);
    hrf_words_release(&words);
    HRF_TRY(status);
    hrf_crash_point("slurm.sbatch.after");
    for (size_t i = 0; i < submission->n_jobs; i++)
        handles[i].since_ms = now_ms();
    status = judge_answer(s, &out, handles, submission->n_jobs, outcome, err);
    hrf_slurm_output_release(&out);
    return status;
}

/* ---- poll ---- */

/* FNV-1a: whether anything in an answer is another than before. */
static uint64_t hash(const char *text, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    return h;
}

static void note_failure(struct slurm *s, const char *text)
{
    const int64_t now = now_ms();
    if (s->failing_since_ms == 0) {
        s->failing_since_ms = now;
        s->interval_ms = scaled(SLOW_MS);
        hrf_log_warning("slurm", "the controller does not answer, jobs go on: %s", text);
    }
    snprintf(s->trouble, sizeof s->trouble, "%.*s", (int)sizeof s->trouble - 1, text);
    s->interval_ms = s->interval_ms * 2 < scaled(LOST_MS) ? s->interval_ms * 2 : scaled(LOST_MS);
    s->next_ms = now + s->interval_ms;
}

static void note_answer(struct slurm *s, bool changed, int64_t took_ms)
{
    const int64_t now = now_ms();
    const int64_t least = scaled(SLOW_MS) > QUERY_SHARE * took_ms ? scaled(SLOW_MS)
                                                                  : QUERY_SHARE * took_ms;
    if (s->failing_since_ms != 0)
        hrf_log_info("slurm", "the controller answers again after %.0f s",
                     (double)(now - s->failing_since_ms) / 1000);
    s->failing_since_ms = 0;
    s->trouble[0] = '\0';
    if (changed || s->interval_ms == 0)
        s->interval_ms = least;
    else
        s->interval_ms += s->interval_ms / 2;
    if (s->interval_ms > scaled(IDLE_MS))
        s->interval_ms = scaled(IDLE_MS);
    s->next_ms = now + (now < s->busy_until_ms ? scaled(FAST_MS) : s->interval_ms);
}

static void warn_unknown(struct slurm *s)
{
    if (s->table.unknown == NULL || strcmp(s->table.unknown, s->unknown) == 0)
        return;
    snprintf(s->unknown, sizeof s->unknown, "%s", s->table.unknown);
    hrf_log_warning("slurm",
                    "squeue shows a job in the state '%s', which is not known here; it "
                    "counts as running",
                    s->unknown);
}

/* Nothing may be submitted twice; should it be, the first one counts. */
static void cancel_twins(struct slurm *s)
{
    for (size_t i = 0; i < s->table.n_entries; i++) {
        const struct hrf_slurm_entry *e = &s->table.entries[i];
        const struct hrf_slurm_entry *twin = hrf_slurm_table_twin(&s->table, e);
        if (twin == NULL || twin->sight == HRF_JOB_ENDED || e->sight == HRF_JOB_ENDED)
            continue;
        char id[64];
        struct hrf_slurm_output out;
        snprintf(id, sizeof id, "%lld", (long long)twin->id);
        const char *const argv[] = { "scancel", id, NULL };
        hrf_log_warning("slurm", "array %s is a second one of the same jobs as %lld: it is ended",
                        id, (long long)e->id);
        if (hrf_slurm_ask(argv, &out))
            hrf_slurm_output_release(&out);
        return; /* the others are of the same array, or turn comes with the next answer */
    }
}

/* An answer of squeue, ours or another driver's; takes over its text. True: the table is new. */
static bool hear(struct slurm *s, struct hrf_slurm_news *news)
{
    struct hrf_slurm_table table;
    struct hrf_error err = { .status = HRF_OK };
    s->heard_ms = news->asked_ms;
    if (!news->well) {
        note_failure(s, news->text);
        hrf_free(news->text);
        return false;
    }
    const uint64_t new_hash = hash(news->text, news->n_bytes);
    if (hrf_slurm_table_parse(news->text, news->n_bytes, s->run_id, &table, &err) != HRF_OK) {
        note_failure(s, err.text);
        return false;
    }
    hrf_slurm_table_release(&s->table);
    s->table = table;
    s->answered_ms = news->asked_ms;
    note_answer(s, new_hash != s->table_hash, news->took_ms);
    s->table_hash = new_hash;
    warn_unknown(s);
    cancel_twins(s);
    return true;
}

/* Our question's answer, when it is there: heard, and put up for the others. */
static bool take_answer(struct slurm *s)
{
    struct hrf_slurm_output out;
    enum hrf_status status;
    struct hrf_error err = { .status = HRF_OK };
    char line[300];
    struct hrf_slurm_news news = { .asked_ms = s->asked_ms };
    if (!hrf_slurm_query_take(s->query, &out, &status, &err))
        return false;
    news.took_ms = now_ms() - s->asked_ms;
    if (status == HRF_OK) {
        hrf_slurm_error_line(out.errors.text, line, sizeof line);
        news.well = hrf_slurm_is_well(&out);
        if (news.well) {
            news.n_bytes = out.output.length;
            news.text = hrf_strbuf_detach(&out.output);
        } else {
            news.text = hrf_strdup(out.result.timed_out ? "squeue gives no answer" : line);
        }
        hrf_slurm_output_release(&out);
    } else {
        news.text = hrf_strdup(err.text);
    }
    if (news.text == NULL) { /* no memory: as if it had not been asked */
        hrf_slurm_board_give_back(s->board);
        return false;
    }
    if (!news.well)
        news.n_bytes = strlen(news.text);
    hrf_slurm_board_put(s->board, &news);
    return hear(s, &news);
}

static void start_query(struct slurm *s)
{
    struct hrf_error err;
    char user[32];
    snprintf(user, sizeof user, "%ld", (long)getuid());
    const char *const argv[] = { "squeue", "-h", "-t", "all",
                                 "-u",     user, "-o", HRF_SLURM_SQUEUE_FORMAT,
                                 NULL };
    s->asked_ms = now_ms();
    s->next_ms = s->asked_ms + scaled(FAST_MS);
    if (hrf_slurm_query_start(s->query, argv, &err) == HRF_OK)
        return;
    hrf_slurm_board_give_back(s->board);
    note_failure(s, err.text);
}

static void poll_squeue(struct hrf_executor *executor, bool *is_new)
{
    struct slurm *s = slurm_of(executor);
    struct hrf_slurm_news news;
    *is_new = take_answer(s);
    if (hrf_slurm_query_is_busy(s->query))
        return;
    if (hrf_slurm_board_read(s->board, s->heard_ms, &news))
        *is_new |= hear(s, &news);
    if (now_ms() >= s->next_ms &&
        hrf_slurm_board_take_turn(s->board, now_ms(), HRF_SLURM_DEADLINE_MS + SLOW_MS))
        start_query(s);
}

static void fill_view(const struct hrf_slurm_entry *e, struct hrf_job_view *out)
{
    *out = (struct hrf_job_view){ .sight = e->sight, .cause = e->cause, .id = e->id };
    snprintf(out->state, sizeof out->state, "%.*s", (int)sizeof out->state - 1, e->state);
    if (strcmp(e->reason, "None") != 0)
        snprintf(out->reason, sizeof out->reason, "%.*s", (int)sizeof out->reason - 1, e->reason);
    if (strpbrk(e->nodes, ",[") == NULL)
        snprintf(out->node, sizeof out->node, "%.*s", (int)sizeof out->node - 1, e->nodes);
    /* Its start failed, most often for want of the machine. */
    if (strcmp(e->reason, "JobLaunchFailure") == 0 && e->cause == HRF_CAUSE_FAILED)
        out->cause = HRF_CAUSE_NODE;
}

static void look(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                 struct hrf_job_view *out)
{
    struct slurm *s = slurm_of(executor);
    *out = (struct hrf_job_view){ .sight = HRF_JOB_UNKNOWN, .id = handle->id };
    if (s->answered_ms == 0)
        return;
    const struct hrf_slurm_entry *e = hrf_slurm_table_find(&s->table, handle->submission,
                                                           handle->place);
    if (e != NULL)
        fill_view(e, out);
    else if (s->answered_ms > handle->since_ms) /* asked after it was submitted */
        out->sight = HRF_JOB_GONE;
}

static void explain(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                    struct hrf_job_view *view)
{
    struct slurm *s = slurm_of(executor);
    find_limits(s);
    if (!hrf_slurm_witness(&s->limits, s->run_id, handle, view))
        hrf_log_debug("slurm", "nobody knows how job %lld_%lld ended", (long long)handle->id,
                      (long long)handle->place);
}

/* ---- cancel ---- */

static void scancel(const char *const ids[], size_t n, bool hard)
{
    const char *argv[CANCEL_BATCH + 4];
    struct hrf_slurm_output out;
    size_t k = 0;
    argv[k++] = "scancel";
    if (hard)
        argv[k++] = "--signal=KILL";
    for (size_t i = 0; i < n; i++)
        argv[k++] = ids[i];
    argv[k] = NULL;
    if (hrf_slurm_ask(argv, &out))
        hrf_slurm_output_release(&out);
}

/* Elements of arrays as few words: "12_[0-4,7]", each of which is one message to the controller. */
struct cancel_list {
    char words[CANCEL_BATCH][1024];
    size_t n, length; /* of the last word, without its ']' */
    int64_t id;       /* the last word's array */
    bool hard;
};

static void send_cancels(struct cancel_list *list)
{
    const char *ids[CANCEL_BATCH];
    for (size_t i = 0; i < list->n; i++)
        ids[i] = list->words[i];
    if (list->n > 0)
        scancel(ids, list->n, list->hard);
    list->n = 0;
    list->id = 0;
}

static void end_word(struct cancel_list *list)
{
    if (list->n > 0)
        snprintf(list->words[list->n - 1] + list->length, 2, "]");
}

static void add_cancel(struct cancel_list *list, int64_t id, int64_t place)
{
    enum { ROOM = 24 }; /* for one more element and the bracket */
    if (list->n > 0 && id == list->id && list->length + ROOM < sizeof list->words[0]) {
        char *word = list->words[list->n - 1];
        list->length += (size_t)snprintf(word + list->length, ROOM, ",%lld", (long long)place);
        return;
    }
    end_word(list);
    if (list->n == CANCEL_BATCH)
        send_cancels(list);
    list->id = id;
    list->length = (size_t)snprintf(list->words[list->n++], sizeof list->words[0], "%lld_[%lld",
                                    (long long)id, (long long)place);
}

static void cancel(struct hrf_executor *executor, const struct hrf_job_handle *handles, size_t n,
                   bool hard)
{
    struct slurm *s = slurm_of(executor);
    struct cancel_list *list = hrf_calloc(1, sizeof *list);
    if (list == NULL)
        return; /* seen not to end, and told so */
    list->hard = hard;
    for (size_t i = 0; i < n; i++) {
        const struct hrf_slurm_entry *e = hrf_slurm_table_find(&s->table, handles[i].submission,
                                                               handles[i].place);
        const int64_t id = e != NULL ? e->id : handles[i].id;
        if (id > 0 && (e == NULL || e->sight != HRF_JOB_ENDED))
            add_cancel(list, id, handles[i].place);
    }
    end_word(list);
    send_cancels(list);
    hrf_free(list);
    s->next_ms = now_ms();
    s->busy_until_ms = now_ms() + scaled(FAST_FOR_MS);
}

static char *output_path(struct hrf_executor *executor, const char *run_directory,
                         const struct hrf_job_handle *handle)
{
    (void)executor;
    HRF_AUTO_FREE char *name = hrf_slurm_output_path(handle->submission, handle->place);
    return name != NULL ? hrf_path_join(run_directory, name) : NULL;
}

static const char *say(const struct hrf_job_view *view, bool *never)
{
    const char *text = hrf_slurm_reason(view->reason[0] != '\0' ? view->reason : "None", never);
    return text != NULL ? text : "for a reason that is not known here";
}

static const char *trouble(const struct hrf_executor *executor)
{
    return ((const struct slurm *)executor)->trouble;
}

static const struct hrf_executor_ops ops = {
    .name = "slurm",
    .destroy = destroy,
    .limit = limit,
    .wrap = wrap,
    .threads = threads,
    .ranks = ranks,
    .submit = submit,
    .poll = poll_squeue,
    .look = look,
    .explain = explain,
    .cancel = cancel,
    .output_path = output_path,
    .say = say,
    .trouble = trouble,
};

enum hrf_status hrf_executor_slurm_create(const struct hrf_workflow_executor *settings,
                                          const char *run_id, struct hrf_executor **out,
                                          struct hrf_error *err)
{
    struct slurm *s = hrf_calloc(1, sizeof *s);
    if (s == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the Slurm executor");
    s->base = (struct hrf_executor){ .ops = &ops,
                                     .quiet_ms = scaled(QUIET_MS),
                                     .grace_ms = scaled(GRACE_MS),
                                     .full_ms = scaled(FULL_MS),
                                     .tick_ms = TICK_MS,
                                     .submit_ms = scaled(SUBMIT_MS) };
    s->settings = settings;
    s->heard_ms = now_ms(); /* an earlier answer may be from before our own jobs */
    snprintf(s->run_id, sizeof s->run_id, "%s", run_id);
    enum hrf_status status = hrf_process_self(&s->program, err);
    if (status == HRF_OK)
        status = hrf_slurm_query_create(&s->query, err);
    struct hrf_error why = { .status = HRF_OK };
    if (status == HRF_OK)
        status = hrf_slurm_board_open(NULL, &s->board, &why);
    if (why.status != HRF_OK)
        hrf_log_warning("slurm", "this run asks squeue for itself, besides your others: %s",
                        why.text);
    if (status != HRF_OK) {
        destroy(&s->base);
        return status;
    }
    *out = &s->base;
    return HRF_OK;
}
