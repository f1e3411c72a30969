/* why.c - `hires-flow why DIR SLIDE`: the evidence behind a slide's state. */
#include "base/clock.h"
#include "base/json.h"
#include "base/path.h"
#include "orchestrator/cli/cli.h"
#include "schema/store/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum hrf_status print_tasks(struct hrf_store *store, int64_t slide_id, struct hrf_error *err)
{
    struct hrf_task_rows tasks;
    HRF_TRY(hrf_store_get_tasks(store, &tasks, err));
    for (size_t i = 0; i < tasks.n_items; i++) {
        const struct hrf_task_row *t = &tasks.items[i];
        if (t->slide_id != slide_id)
            continue;
        printf("  %s %s%s%s, key %.12s%s", hrf_task_kind_name(t->kind), t->precision,
               t->precision[0] != '\0' ? ": " : ": ", hrf_task_state_name(t->state), t->key,
               t->cached ? ", its result was known before this run" : "");
        if (t->kind == HRF_TASK_INFER)
            printf(", patches %lld to %lld", (long long)t->first_patch,
                   (long long)(t->first_patch + t->n_patches - 1));
        if (t->n_attempts > 0)
            printf(", %lld failed attempts", (long long)t->n_attempts);
        printf("%s%s\n", t->reason != NULL ? ": " : "", t->reason != NULL ? t->reason : "");
    }
    hrf_task_rows_release(&tasks);
    return HRF_OK;
}

static enum hrf_status print_events(struct hrf_store *store, const char *subject,
                                    struct hrf_error *err)
{
    struct hrf_event_rows events;
    HRF_TRY(hrf_store_get_events(store, subject, &events, err));
    for (size_t i = 0; i < events.n_items; i++) {
        char at[24];
        hrf_clock_iso8601(events.items[i].at_ms, at);
        printf("  %s %s\n", at, events.items[i].text);
    }
    hrf_event_rows_release(&events);
    return HRF_OK;
}

static json_t *tasks_json(const struct hrf_task_rows *tasks, int64_t slide_id)
{
    json_t *list = json_array();
    for (size_t i = 0; i < tasks->n_items; i++) {
        const struct hrf_task_row *t = &tasks->items[i];
        if (t->slide_id == slide_id)
            json_array_append_new(
                list, json_pack("{sssssssssbsIsIsIss?}", "kind", hrf_task_kind_name(t->kind),
                                "precision", t->precision, "state", hrf_task_state_name(t->state),
                                "key", t->key, "cached", (int)t->cached, "first_patch",
                                (json_int_t)t->first_patch, "n_patches", (json_int_t)t->n_patches,
                                "failed_attempts", (json_int_t)t->n_attempts, "reason", t->reason));
    }
    return list;
}

static json_t *events_json(const struct hrf_event_rows *events)
{
    json_t *list = json_array();
    for (size_t i = 0; i < events->n_items; i++) {
        char at[24];
        hrf_clock_iso8601(events->items[i].at_ms, at);
        json_array_append_new(
            list, json_pack("{ssso}", "at", at, "text", hrf_json_string(events->items[i].text)));
    }
    return list;
}

static enum hrf_status print_json(struct hrf_store *store, const struct hrf_slide_row *s,
                                  struct hrf_error *err)
{
    struct hrf_task_rows tasks = { NULL, 0 };
    struct hrf_event_rows events = { NULL, 0 };
    HRF_TRY(hrf_store_get_tasks(store, &tasks, err));
    enum hrf_status status = hrf_store_get_events(store, s->name, &events, err);
    if (status == HRF_OK) {
        HRF_AUTO_JSON value = json_pack(
            "{sisossss?sosIsoso}", "version", 1, "slide", hrf_json_string(s->name), "state",
            hrf_slide_state_name(s->state), "reason", s->reason, "path", hrf_json_string(s->path),
            "bytes", (json_int_t)s->n_bytes, "tasks", tasks_json(&tasks, s->id), "events",
            events_json(&events));
        HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
        printf("%s\n", text != NULL ? text : "{}");
    }
    hrf_event_rows_release(&events);
    hrf_task_rows_release(&tasks);
    return status;
}

static enum hrf_status print_text(struct hrf_store *store, const struct hrf_slide_row *s,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_text_printable(s->name), *path = hrf_text_printable(s->path);
    printf("%s: %s%s%s\n  file %s, %lld bytes\n", name != NULL ? name : "?",
           hrf_slide_state_name(s->state), s->reason != NULL ? ": " : "",
           s->reason != NULL ? s->reason : "", path != NULL ? path : "?", (long long)s->n_bytes);
    HRF_TRY(print_tasks(store, s->id, err));
    return print_events(store, s->name, err);
}

static enum hrf_status why(const char *directory, const char *name, bool json,
                           struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    struct hrf_slide_rows slides;
    HRF_TRY(hrf_cli_open(directory, &store, err));
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    enum hrf_status status = hrf_error_set(err, HRF_E_USER, "the run in '%s' has no slide '%s'",
                                           directory, name);
    for (size_t i = 0; i < slides.n_items; i++) {
        const struct hrf_slide_row *s = &slides.items[i];
        if (strcmp(s->name, name) != 0)
            continue;
        status = json ? print_json(store, s, err) : print_text(store, s, err);
        break;
    }
    hrf_slide_rows_release(&slides);
    return status;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false;
    const struct hrf_option options[] = {
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, &json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    if (why(args.operands[0], args.operands[1], json, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    return 0;
}

const struct hrf_command hrf_cli_why = {
    .name = "why",
    .operands = "DIR SLIDE",
    .summary = "tell why a slide is as it is",
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
