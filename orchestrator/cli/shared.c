#include "base/json.h"
#include "base/path.h"
#include "base/process.h"
#include "orchestrator/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int hrf_cli_fail(const char *command, const struct hrf_error *err)
{
    fprintf(stderr, "%s %s: %s\n", HRF_PROGRAM, command, err->text);
    return err->status == HRF_E_USER || err->status == HRF_E_UNSUPPORTED ? HRF_EXIT_USAGE
                                                                         : HRF_EXIT_FAILED;
}

enum hrf_status hrf_cli_load(const char *path, const struct hrf_option_list *set,
                             struct hrf_workflow **out, struct hrf_error *err)
{
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    enum hrf_status status = hrf_workflow_load(path, set->items, set->n_items, out, &findings, err);
    fputs(findings.text.text, stderr);
    hrf_findings_release(&findings);
    return status;
}

enum hrf_status hrf_cli_open(const char *directory, struct hrf_store **out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "run.db");
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_USER, "no run stands in '%s' (it has no run.db)",
                             directory);
    return hrf_store_open(path, HRF_STORE_READ, out, err);
}

char *hrf_cli_default_directory(const struct hrf_workflow *workflow)
{
    HRF_AUTO_FREE char *name = hrf_text_file_name(workflow->name);
    return name != NULL ? hrf_format("runs/%s", name) : NULL;
}

int hrf_cli_exec_engine(const char *command, const char *verb, int argc, char **argv)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *self = NULL, *directory = NULL, *program = NULL;
    const char *words[64] = { NULL };
    int n = 0;
    if (hrf_process_self(&self, &err) != HRF_OK)
        return hrf_cli_fail(command, &err);
    directory = hrf_path_directory(self);
    program = directory != NULL ? hrf_path_join(directory, "hires-engine") : NULL;
    if (program == NULL || argc > 60)
        return HRF_EXIT_USAGE;
    words[n++] = program;
    words[n++] = verb;
    for (int i = 0; i < argc; i++)
        words[n++] = argv[i];
    execv(program, (char *const *)(uintptr_t)words);
    fprintf(stderr, "%s %s: cannot start '%s': %s\n", HRF_PROGRAM, command, program,
            errno == ENOENT ? "it is not there; build it beside hires-flow" : "it does not run");
    return HRF_EXIT_LACKS;
}

void hrf_cli_print_figures(const json_t *report)
{
    const json_t *list = json_object_get(report, "precisions");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *auc = json_object_get(p, "slide_auc");
        const json_t *ci = json_object_get(p, "slide_auc_ci");
        const char *name = json_string_value(json_object_get(p, "precision"));
        const char *why = json_string_value(json_object_get(p, "slide_auc_reason"));
        printf("%s: %lld patches", name != NULL ? name : "?",
               (long long)json_integer_value(json_object_get(p, "patches")));
        if (json_is_number(auc))
            printf(", slide AUC %.4f (95 %% interval %.4f to %.4f)", json_number_value(auc),
                   json_number_value(json_array_get(ci, 0)),
                   json_number_value(json_array_get(ci, 1)));
        else
            printf(", no slide AUC (%s)", why != NULL ? why : "unknown");
        const json_t *accuracy = json_object_get(p, "slide_accuracy");
        if (json_is_number(accuracy))
            printf(", accuracy %.4f", json_number_value(accuracy));
        printf("\n");
    }
}
