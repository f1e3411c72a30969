/* why.c - `hires-flow why DIR [SLIDE|JOB]`: the evidence behind the state of a slide, a job, or of
 * all that did not go well. */
#include "base/clock.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/ingest/ingest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All that the store knows of tasks and jobs. */
struct evidence {
    const char *directory; /* of the run; borrowed */
    struct hrf_slide_rows slides;
    struct hrf_task_rows tasks;
    struct hrf_attempt_rows attempts;
    json_t *report; /* the last one; NULL: there is none, or it cannot be read */
};

static void evidence_release(struct evidence *e)
{
    hrf_slide_rows_release(&e->slides);
    hrf_task_rows_release(&e->tasks);
    hrf_attempt_rows_release(&e->attempts);
    json_decref(e->report);
}

static enum hrf_status evidence_read(struct hrf_store *store, struct evidence *out,
                                     struct hrf_error *err)
{
    HRF_TRY(hrf_store_get_slides(store, &out->slides, err));
    HRF_TRY(hrf_store_get_tasks(store, &out->tasks, err));
    for (size_t i = 0; i < out->tasks.n_items; i++) {
        const struct hrf_task_row *task = &out->tasks.items[i];
        if (task->kind != HRF_TASK_TRAIN &&
            hrf_slide_rows_find(&out->slides, task->slide_id) == NULL)
            return hrf_error_set(err, HRF_E_USER,
                                 "the run's database is damaged: task %lld belongs to slide %lld, "
                                 "which does not exist; move run.db away to start again",
                                 (long long)task->id, (long long)task->slide_id);
    }
    HRF_AUTO_FREE char *report = hrf_path_join(out->directory, "report/report.json");
    if (hrf_json_read_file(report, &out->report, NULL) != HRF_OK)
        out->report = NULL;
    return hrf_store_get_attempts(store, false, &out->attempts, err);
}

/* Returns what a task works on: a slide, or a training of a slide head; heap. */
static char *subject_of(const struct evidence *e, const struct hrf_task_row *task)
{
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&e->slides, task->slide_id);
    return slide != NULL ? hrf_strdup(slide->name)
                         : hrf_format("training %lld", (long long)task->first_patch);
}

/* Returns why the last report did not use a slide's annotation, or, if that does not mention it,
 * why it cannot be used now; heap. NULL: nothing is wrong with it. */
static char *find_annotation_fault(const struct evidence *e, const struct hrf_slide_row *slide)
{
    const json_t *unused = json_object_get(e->report, "annotations_not_used"), *gap;
    struct hrf_error err = { .text = "" };
    size_t at;
    json_array_foreach(unused, at, gap)
    {
        const char *name = json_string_value(json_object_get(gap, "slide"));
        if (name != NULL && strcmp(name, slide->name) == 0)
            return hrf_strdup(json_string_value(json_object_get(gap, "reason")));
    }
    return slide->annotation != NULL &&
                   hrf_ingest_check_annotation(slide->annotation, &err) != HRF_OK
               ? hrf_strdup(err.text)
               : NULL;
}

/* Describes an attempt that has not ended by its sentinels; heap. */
static char *standing(const char *directory, const struct hrf_attempt_row *attempt)
{
    struct hrf_sentinel word = { .start_ms = 0 };
    char at[24], number[40] = "";
    if (!hrf_cli_read_sentinel(directory, attempt, "start", &word)) {
        hrf_clock_iso8601(attempt->submitted_ms, at);
        return hrf_format(
            "submitted at %s, not started yet (`hires-flow status` shows what it waits for)", at);
    }
    if (word.scheduler_job > 0)
        snprintf(number, sizeof number, ", Slurm's job %lld", (long long)word.scheduler_job);
    hrf_clock_iso8601(word.start_ms, at);
    struct hrf_sentinel done;
    const bool ended = hrf_cli_read_sentinel(directory, attempt, "done", &done);
    HRF_AUTO_FREE char *silence = hrf_cli_silence(directory, attempt);
    return hrf_format("started at %s on %s%s, %s%s%s", at, word.host, number,
                      ended ? "and ended: the next driver imports its results"
                            : "has not reported its end",
                      silence != NULL ? "; " : "", silence != NULL ? silence : "");
}

/* Describes how an attempt ended, or its present state; heap. */
static char *describe_attempt(const char *directory, const struct hrf_attempt_row *attempt)
{
    if (attempt->reason != NULL)
        return hrf_strdup(attempt->reason);
    /* Its slides may have failed all the same: their own lines say so. */
    return attempt->state == HRF_ATTEMPT_ENDED ? hrf_strdup("ended by itself, results imported")
                                               : standing(directory, attempt);
}

static void print_task(const struct hrf_task_row *t)
{
    hrf_cli_printf("  %s%s%s: %s, key %.12s%s", hrf_task_kind_name(t->kind),
                   t->precision[0] != '\0' ? " " : "", t->precision, hrf_task_state_name(t->state),
                   t->key, t->cached ? ", its result was cached before this run" : "");
    if (t->kind == HRF_TASK_INFER)
        hrf_cli_printf(", patches %lld to %lld", (long long)t->first_patch,
                       (long long)(t->first_patch + t->n_patches - 1));
    if (t->n_attempts > 0)
        hrf_cli_printf(", %lld failed attempts", (long long)t->n_attempts);
    hrf_cli_printf("%s%s\n", t->reason != NULL ? ": " : "", t->reason != NULL ? t->reason : "");
}

static void print_tasks(const struct evidence *e, int64_t slide_id)
{
    for (size_t i = 0; i < e->tasks.n_items; i++) {
        if (e->tasks.items[i].slide_id != slide_id)
            continue;
        print_task(&e->tasks.items[i]);
        for (size_t k = 0; k < e->attempts.n_items; k++) {
            const struct hrf_attempt_row *a = &e->attempts.items[k];
            if (!hrf_attempt_has_task(a, e->tasks.items[i].id))
                continue;
            HRF_AUTO_FREE char *text = describe_attempt(e->directory, a);
            hrf_cli_printf("    job %s, attempt %lld: %s (%s/log)\n", a->job_id,
                           (long long)a->attempt, text, a->directory);
        }
    }
}

static enum hrf_status print_events(struct hrf_store *store, const char *subject,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_event_rows) events = { NULL, 0 };
    HRF_TRY(hrf_store_get_events(store, subject, &events, err));
    for (size_t i = 0; i < events.n_items; i++) {
        char at[24];
        hrf_clock_iso8601(events.items[i].at_ms, at);
        hrf_cli_printf("  %s %s\n", at, events.items[i].text);
    }
    return HRF_OK;
}

static json_t *attempt_json(const struct hrf_attempt_row *a)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "job", a->job_id);
    hrf_json_put_int(object, "attempt", a->attempt);
    hrf_json_put_bool(object, "ended", a->state == HRF_ATTEMPT_ENDED);
    hrf_json_put_text(object, "reason", a->reason);
    hrf_json_put_text(object, "directory", a->directory);
    return object;
}

static json_t *attempts_json(const struct evidence *e, int64_t task_id)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->attempts.n_items; i++)
        if (hrf_attempt_has_task(&e->attempts.items[i], task_id))
            hrf_json_add(list, attempt_json(&e->attempts.items[i]));
    return list;
}

static json_t *task_json(const struct hrf_task_row *t)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "kind", hrf_task_kind_name(t->kind));
    hrf_json_put_text(object, "precision", t->precision);
    hrf_json_put_text(object, "state", hrf_task_state_name(t->state));
    hrf_json_put_text(object, "key", t->key);
    hrf_json_put_bool(object, "cached", t->cached);
    hrf_json_put_int(object, "first_patch", t->first_patch);
    hrf_json_put_int(object, "n_patches", t->n_patches);
    hrf_json_put_int(object, "failed_attempts", t->n_attempts);
    hrf_json_put_text(object, "reason", t->reason);
    return object;
}

static json_t *tasks_json(const struct evidence *e, int64_t slide_id)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->tasks.n_items; i++) {
        const struct hrf_task_row *t = &e->tasks.items[i];
        if (t->slide_id != slide_id)
            continue;
        json_t *task = task_json(t);
        hrf_json_put(task, "jobs", attempts_json(e, t->id));
        hrf_json_add(list, task);
    }
    return list;
}

/* Returns one attempt of a job, with its tasks and their slides. New reference. */
static json_t *job_json(const struct evidence *e, const struct hrf_attempt_row *a)
{
    json_t *tasks = json_array();
    for (size_t i = 0; i < e->tasks.n_items; i++) {
        const struct hrf_task_row *t = &e->tasks.items[i];
        if (!hrf_attempt_has_task(a, t->id))
            continue;
        json_t *task = task_json(t);
        HRF_AUTO_FREE char *subject = subject_of(e, t);
        hrf_json_put_text(task, t->kind == HRF_TASK_TRAIN ? "training" : "slide", subject);
        hrf_json_add(tasks, task);
    }
    json_t *object = attempt_json(a);
    hrf_json_put(object, "tasks", tasks);
    return object;
}

static json_t *events_json(const struct hrf_event_rows *events)
{
    json_t *list = json_array();
    for (size_t i = 0; i < events->n_items; i++) {
        char at[24];
        hrf_clock_iso8601(events->items[i].at_ms, at);
        json_t *entry = json_object();
        hrf_json_put_text(entry, "at", at);
        hrf_json_put_text(entry, "text", events->items[i].text);
        hrf_json_add(list, entry);
    }
    return list;
}

/* Returns what the tiler found doubtful about a slide; heap. NULL: nothing, or it is not tiled. */
static char *tiler_warning(struct hrf_store *store, const struct hrf_slide_row *s)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    struct hrf_error ignored;
    char *text = NULL;
    if (s->tile_plan_hash != NULL &&
        hrf_store_get_tile_plan(store, s->id, &plan, &ignored) == HRF_OK)
        HRF_MOVE(text, plan->warning);
    return text;
}

static enum hrf_status print_why_json(struct hrf_store *store, const struct evidence *e,
                                      const struct hrf_slide_row *s, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_event_rows) events = { NULL, 0 };
    HRF_TRY(hrf_store_get_events(store, s->name, &events, err));
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put_text(value, "slide", s->name);
    hrf_json_put_text(value, "state", hrf_slide_state_word(s->state));
    hrf_json_put_text(value, "reason", s->reason);
    hrf_json_put_text(value, "path", s->path);
    hrf_json_put_int(value, "bytes", s->n_bytes);
    hrf_json_put(value, "tasks", tasks_json(e, s->id));
    hrf_json_put(value, "events", events_json(&events));
    HRF_AUTO_FREE char *warning = tiler_warning(store, s), *fault = find_annotation_fault(e, s);
    hrf_json_put_text(value, "warning", warning);
    hrf_json_put_text(value, "annotation_not_used", fault);
    hrf_json_print(value);
    return HRF_OK;
}

static enum hrf_status print_why_text(struct hrf_store *store, const struct evidence *e,
                                      const struct hrf_slide_row *s, struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_text_escaped(s->name), *path = hrf_text_escaped(s->path);
    hrf_cli_printf("%s: %s%s%s\n  file %s, %lld bytes\n", name, hrf_slide_state_text(s->state),
                   s->reason != NULL ? ": " : "", s->reason != NULL ? s->reason : "", path,
                   (long long)s->n_bytes);
    HRF_AUTO_FREE char *warning = tiler_warning(store, s);
    HRF_AUTO_FREE char *shown = warning != NULL ? hrf_text_escaped(warning) : NULL;
    if (shown != NULL)
        hrf_cli_printf("  warning: %s\n", shown);
    HRF_AUTO_FREE char *fault = find_annotation_fault(e, s);
    if (fault != NULL)
        hrf_cli_printf("  its annotation cannot be used: %s\n", fault);
    print_tasks(e, s->id);
    return print_events(store, s->name, err);
}

static void print_attempt_with_tasks(const struct evidence *e, const struct hrf_attempt_row *a)
{
    HRF_AUTO_FREE char *text = describe_attempt(e->directory, a);
    hrf_cli_printf("%s, attempt %lld: %s (%s/log)\n", a->job_id, (long long)a->attempt, text,
                   a->directory);
    for (size_t k = 0; k < e->tasks.n_items; k++) {
        if (!hrf_attempt_has_task(a, e->tasks.items[k].id))
            continue;
        HRF_AUTO_FREE char *subject = subject_of(e, &e->tasks.items[k]);
        HRF_AUTO_FREE char *name = hrf_text_escaped(subject);
        hrf_cli_printf("  %s:\n  ", name);
        print_task(&e->tasks.items[k]);
    }
}

/* Shows all attempts of a job. Returns false if there is no such job. */
static bool show_job(const struct evidence *e, const char *job_id, bool json)
{
    HRF_AUTO_JSON tries = json_array();
    bool found = false;
    for (size_t i = 0; i < e->attempts.n_items; i++) {
        const struct hrf_attempt_row *a = &e->attempts.items[i];
        if (strcmp(a->job_id, job_id) != 0)
            continue;
        found = true;
        if (json)
            hrf_json_add(tries, job_json(e, a));
        else
            print_attempt_with_tasks(e, a);
    }
    if (!json || !found)
        return found;
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put_text(value, "job", job_id);
    hrf_json_put(value, "attempts", json_incref(tries));
    hrf_json_print(value);
    return true;
}

/* ---- everything that failed ---- */

static void show_run(const char *directory, const struct evidence *e, bool json)
{
    const json_t *unused = json_object_get(e->report, "annotations_not_used"), *gap;
    size_t at;
    HRF_AUTO_JSON slides = json_array();
    HRF_AUTO_JSON jobs = json_array();
    size_t n_done = 0;
    for (size_t i = 0; i < e->slides.n_items; i++) {
        const struct hrf_slide_row *s = &e->slides.items[i];
        HRF_AUTO_FREE char *name = hrf_text_escaped(s->name);
        n_done += s->state == HRF_SLIDE_DONE;
        if (s->state == HRF_SLIDE_DONE)
            continue;
        json_t *entry = json_object();
        hrf_json_put_text(entry, "slide", s->name);
        hrf_json_put_text(entry, "state", hrf_slide_state_word(s->state));
        hrf_json_put_text(entry, "reason", s->reason);
        hrf_json_add(slides, entry);
        if (!json)
            hrf_cli_printf("%s: %s%s%s\n", name, hrf_slide_state_text(s->state),
                           s->reason != NULL ? ": " : "", s->reason != NULL ? s->reason : "");
    }
    for (size_t i = 0; i < e->attempts.n_items; i++) {
        const struct hrf_attempt_row *a = &e->attempts.items[i];
        if (a->reason == NULL)
            continue;
        hrf_json_add(jobs, job_json(e, a));
        if (!json)
            hrf_cli_printf("job %s, attempt %lld: %s (%s/log)\n", a->job_id, (long long)a->attempt,
                           a->reason, a->directory);
    }
    json_array_foreach(unused, at, gap)
    {
        HRF_AUTO_FREE char *name = hrf_text_escaped(
            json_string_value(json_object_get(gap, "slide")));
        if (!json)
            hrf_cli_printf("%s: its annotation cannot be used: %s\n", name,
                           json_string_value(json_object_get(gap, "reason")));
    }
    if (!json) {
        hrf_cli_printf("%zu of %zu slides are done\n", n_done, e->slides.n_items);
        return;
    }
    json_t *counts = json_object();
    hrf_json_put_int(counts, "total", (int64_t)e->slides.n_items);
    hrf_json_put_int(counts, "done", (int64_t)n_done);
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put_text(value, "directory", directory);
    hrf_json_put(value, "slides", counts);
    hrf_json_put(value, "not_done", json_incref(slides));
    hrf_json_put(value, "jobs", json_incref(jobs));
    hrf_json_put(value, "annotations_not_used",
                 json_is_array(unused) ? json_deep_copy(unused) : json_array());
    hrf_json_print(value);
}

static enum hrf_status refuse_unknown(const char *directory, const struct evidence *e,
                                      const char *name, struct hrf_error *err)
{
    const size_t n = e->slides.n_items + e->slides.n_sample;
    HRF_AUTO_FREE const char **names = hrf_calloc(n + 1, sizeof *names);
    HRF_AUTO_FREE char *shown = hrf_text_escaped(name);
    for (size_t i = 0; i < n; i++)
        names[i] = e->slides.items[i].name;
    const char *near = hrf_nearest_word(name, names);
    HRF_AUTO_FREE char *hint = near != NULL ? hrf_text_escaped(near) : NULL;
    return hrf_error_set(err, HRF_E_USER, "the run in '%s' has no slide and no job '%s'%s%s%s",
                         directory, shown, hint != NULL ? "; did you mean '" : "",
                         hint != NULL ? hint : "", hint != NULL ? "'?" : "");
}

static enum hrf_status show_named(struct hrf_store *store, const struct evidence *e,
                                  const char *directory, const char *name, bool json,
                                  struct hrf_error *err)
{
    for (size_t i = 0; i < e->slides.n_items + e->slides.n_sample; i++)
        if (strcmp(e->slides.items[i].name, name) == 0)
            return json ? print_why_json(store, e, &e->slides.items[i], err)
                        : print_why_text(store, e, &e->slides.items[i], err);
    return show_job(e, name, json) ? HRF_OK : refuse_unknown(directory, e, name, err);
}

static enum hrf_status explain(const char *directory, const char *name, bool json,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(evidence) e = { .directory = directory };
    HRF_TRY(hrf_cli_open_run(directory, &store, err));
    enum hrf_status status = evidence_read(store, &e, err);
    if (status == HRF_OK && name == NULL)
        show_run(directory, &e, json);
    else if (status == HRF_OK)
        status = show_named(store, &e, directory, name, json, err);
    return status;
}

static int why_main(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false;
    struct hrf_args args = hrf_cli_parse_json(command, argc, argv, &json);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    const char *name = args.n_operands > 1 ? args.operands[1] : NULL;
    if (explain(args.operands[0], name, json, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    return 0;
}

const struct hrf_command hrf_cli_why = {
    .name = "why",
    .operands = "DIR [SLIDE|JOB]",
    .summary = "explain the state of a slide or a job",
    .details =
        "Without a name: every slide that is not done, and every attempt of a job that failed.",
    .min_operands = 1,
    .max_operands = 2,
    .run = why_main,
};
