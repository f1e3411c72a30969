/* on_end.c - starts the command that receives the summary of a run at its end (on_end.h). */
#include "orchestrator/cli/on_end.h"

#include "base/path.h"
#include "base/process.h"
#include "schema/yaml/tree.h"

#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 600000, MAX_OUTPUT = 4096, MAX_FAILED = 100 };

/* Appends one word at *at to `word` and moves *at behind it. False: a quote is not closed. */
static bool take_word(const char **at, struct hrf_strbuf *word)
{
    char quote = '\0';
    for (; **at != '\0' && (quote != '\0' || **at != ' '); (*at)++) {
        const char c = **at;
        if (c == quote && quote != '\0')
            quote = '\0';
        else if (quote == '\0' && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'' && (*at)[1] != '\0')
            hrf_strbuf_addc(word, *++*at);
        else
            hrf_strbuf_addc(word, c);
    }
    return quote == '\0';
}

enum hrf_status hrf_cli_notify_setting(const char *text, char **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) setting = HRF_STRBUF_INIT;
    const char *at = text + strspn(text, " ");
    if (*at == '\0')
        return hrf_error_set(err, HRF_E_USER, "--notify: name a command");
    hrf_strbuf_adds(&setting, "on_end=");
    for (const char *before = "["; *at != '\0'; before = ", ") {
        HRF_AUTO_RELEASE(hrf_strbuf) word = HRF_STRBUF_INIT;
        if (!take_word(&at, &word))
            return hrf_error_set(err, HRF_E_USER, "--notify: a quote is not closed: %s", text);
        hrf_strbuf_adds(&setting, before);
        hrf_yaml_add_quoted(&setting, word.text);
        at += strspn(at, " ");
    }
    hrf_strbuf_addc(&setting, ']');
    *out = hrf_strbuf_detach(&setting);
    return HRF_OK;
}

/* The slides that failed, the first MOST_FAILED of them. */
static json_t *failed_json(const char *directory)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    json_t *list = json_array();
    if (hrf_store_open_run(directory, &store, NULL) != HRF_OK ||
        hrf_store_get_slides(store, &slides, NULL) != HRF_OK)
        return list;
    for (size_t i = 0; i < slides.n_items && json_array_size(list) < MAX_FAILED; i++) {
        const struct hrf_slide_row *slide = &slides.items[i];
        if (slide->state == HRF_SLIDE_FAILED)
            json_array_append_new(
                list,
                json_pack("{soso}", "slide", hrf_json_string(slide->name), "reason",
                          slide->reason != NULL ? hrf_json_string(slide->reason) : json_null()));
    }
    return list;
}

static json_t *end_json(const struct hrf_end *end)
{
    static const char *const names[] = { "done", "detached", "cancelled" };
    const struct hrf_run_summary *s = end->summary;
    HRF_AUTO_FREE char *directory = NULL;
    if (hrf_path_absolute(end->directory, &directory, NULL) != HRF_OK)
        return NULL;
    return json_pack(
        "{sissssssso soso so s{sIsIsIsIsI}si sI}", "version", 1, "program", HRF_PROGRAM, "release",
        HRF_VERSION, "end", end->error != NULL ? "failed" : names[s->end], "error",
        end->error != NULL ? hrf_json_string(end->error) : json_null(), "name",
        hrf_json_string(end->workflow->name), "directory", hrf_json_string(directory), "failed",
        failed_json(end->directory), "slides", "total", (json_int_t)s->n_slides, "done",
        (json_int_t)s->n_done, "failed", (json_int_t)s->n_failed, "no_tissue",
        (json_int_t)s->n_no_tissue, "excluded", (json_int_t)s->n_excluded, "exit_code",
        end->exit_code, "number", (json_int_t)s->n_ends);
}

void hrf_cli_run_on_end(const struct hrf_end *end)
{
    const struct hrf_text_list *words = &end->workflow->on_end;
    if (words->n_items == 0)
        return;
    HRF_AUTO_JSON value = end_json(end);
    json_object_set_new(value, "run_id", json_string(end->summary->run_id));
    HRF_AUTO_FREE char *text = hrf_json_text(value);
    HRF_AUTO_FREE const char **argv = hrf_calloc(words->n_items + 1, sizeof *argv);
    HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT;
    struct hrf_process_result result = { .exited = false };
    struct hrf_error err = { .text = "" };
    for (size_t i = 0; i < words->n_items; i++)
        argv[i] = words->items[i];
    const enum hrf_status status = hrf_process_run(argv, NULL, text, PATIENCE_MS, MAX_OUTPUT, NULL,
                                                   &said, &result, &err);
    if (status == HRF_OK && result.exited && result.exit_code == 0)
        return;
    if (status != HRF_OK)
        fprintf(stderr, "%s %s: on_end: %s\n", HRF_PROGRAM, end->command, err.text);
    else
        fprintf(stderr, "%s %s: on_end: '%s' %s %d%s%.*s\n", HRF_PROGRAM, end->command,
                words->items[0],
                result.timed_out ? "was ended after ten minutes, by signal"
                : result.exited  ? "ended with exit code"
                                 : "was ended by signal",
                result.exited ? result.exit_code : result.signal, said.length > 0 ? ": " : "",
                (int)strcspn(said.text, "\n"), said.text);
}
