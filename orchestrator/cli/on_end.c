/* on_end.c - starts the command that receives the summary of a run at its end (on_end.h). */
#include "orchestrator/cli/on_end.h"

#include "base/fields.h"
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

enum hrf_status hrf_cli_add_notify(const char *text, struct hrf_option_list *set, char **owned,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) setting = HRF_STRBUF_INIT;
    if (text == NULL)
        return HRF_OK;
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
    set->items[set->n_items++] = *owned = hrf_strbuf_detach(&setting);
    return HRF_OK;
}

/* The slides that failed, the first MAX_FAILED of them. */
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
        if (slide->state == HRF_SLIDE_FAILED) {
            json_t *entry = json_object();
            hrf_json_put_text(entry, "slide", slide->name);
            hrf_json_put_text(entry, "reason", slide->reason);
            hrf_json_add(list, entry);
        }
    }
    return list;
}

void hrf_cli_put_summary(json_t *object, const struct hrf_run_summary *summary)
{
    static const char *const ends[] = { "done", "detached", "cancelled" };
    static const struct hrf_field slides[] = {
        HRF_FIELD(struct hrf_run_summary, "total", n_slides, HRF_FIELD_INT),
        HRF_FIELD(struct hrf_run_summary, "done", n_done, HRF_FIELD_INT),
        HRF_FIELD(struct hrf_run_summary, "failed", n_failed, HRF_FIELD_INT),
        HRF_FIELD(struct hrf_run_summary, "no_tissue", n_no_tissue, HRF_FIELD_INT),
        HRF_FIELD(struct hrf_run_summary, "excluded", n_excluded, HRF_FIELD_INT),
    };
    hrf_json_put_text(object, "end", ends[summary->end]);
    hrf_json_put(object, "slides", hrf_fields_json(HRF_FIELDS(slides), summary));
}

static json_t *end_json(const struct hrf_end *end)
{
    HRF_AUTO_FREE char *directory = NULL;
    json_t *value = hrf_json_document();
    hrf_json_put_text(value, "program", HRF_PROGRAM);
    hrf_json_put_text(value, "release", HRF_VERSION);
    hrf_cli_put_summary(value, end->summary);
    if (end->error != NULL)
        hrf_json_put_text(value, "end", "failed");
    hrf_json_put_text(value, "error", end->error);
    hrf_json_put_text(value, "name", end->workflow->name);
    if (hrf_path_absolute(end->directory, &directory, NULL) != HRF_OK)
        directory = hrf_strdup(end->directory);
    hrf_json_put_text(value, "directory", directory);
    hrf_json_put(value, "failed", failed_json(end->directory));
    hrf_json_put_int(value, "exit_code", end->exit_code);
    hrf_json_put_int(value, "number", end->summary->n_ends);
    hrf_json_put_text(value, "run_id", end->summary->run_id);
    return value;
}

void hrf_cli_run_on_end(const struct hrf_end *end)
{
    const struct hrf_text_list *words = &end->workflow->on_end;
    if (words->n_items == 0)
        return;
    HRF_AUTO_JSON value = end_json(end);
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
