/* drive.c - checks a workflow, runs it and says how that ended (drive.h). */
#include "orchestrator/cli/drive.h"

#include "base/json.h"
#include "base/path.h"
#include "orchestrator/cli/on_end.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/run/run.h"
#include "schema/hdf5/hdf5_calls.h"

#include <stdio.h>
#include <string.h>

char *hrf_cli_command_line(const char *command, int argc, char *const *argv)
{
    struct hrf_strbuf line = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&line, "%s %s", HRF_PROGRAM, command);
    for (int i = 0; i < argc; i++) {
        hrf_strbuf_addc(&line, ' ');
        hrf_strbuf_add_word(&line, argv[i]);
    }
    return hrf_strbuf_detach(&line);
}

static int drive_fail(const struct hrf_cli_drive *drive, struct hrf_error *err)
{
    return hrf_cli_fail(drive->command, err);
}

static enum hrf_status refuse_unsupported(const struct hrf_workflow *w, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_workflow_unsupported(w, &text);
    enum hrf_status status = HRF_OK;
    if (text.length > 0) {
        text.text[text.length - 1] = '\0';
        for (char *end = text.text; (end = strchr(end, '\n')) != NULL;)
            *end = ';';
        status = hrf_error_set(err, HRF_E_UNSUPPORTED,
                               "'%s' needs something that this build lacks: %s", w->path,
                               text.text);
    }
    return status;
}

/* A pattern that matches nothing or a wrong label file is reported before anything is written, as
 * by `plan`. The run reads the dataset again. */
static enum hrf_status check_dataset(const struct hrf_workflow *w, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    return hrf_ingest(w, NULL, &slides, NULL, err);
}

int hrf_cli_prepare(const struct hrf_cli_drive *drive, const struct hrf_workflow *w)
{
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = refuse_unsupported(w, &err);
    if (status == HRF_OK)
        status = check_dataset(w, &err);
    if (status == HRF_OK)
        status = hrf_cli_check_slurm(w, NULL, &err);
    if (status == HRF_OK)
        status = hrf_cli_check_ranks(w, &err);
    if (status == HRF_OK && w->model.output == HRF_OUTPUT_EMBEDDING)
        status = hrf_hdf5_look(NULL, 0, &err); /* a lack is found now, not after hours */
    if (status == HRF_OK)
        status = hrf_cli_check_model(w, false, &err);
    if (status == HRF_OK)
        return 0;
    const int code = drive_fail(drive, &err);
    return status == HRF_E_EXTERNAL ? HRF_EXIT_LACKS : code;
}

static void print_drive_json(const struct hrf_run_summary *s, const char *directory)
{
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_cli_put_summary(value, s);
    hrf_json_put_text(value, "directory", directory);
    hrf_json_put_int(value, "tasks_run", s->n_tasks_run);
    hrf_json_put_int(value, "tasks_cached", s->n_tasks_cached);
    hrf_json_print(value);
}

static int print_summary(const struct hrf_cli_drive *drive, const struct hrf_run_summary *s,
                         const struct hrf_workflow *w, const char *directory)
{
    HRF_AUTO_FREE char *labels = hrf_path_join(directory, "results/labels.csv");
    HRF_AUTO_FREE char *page = hrf_path_join(directory, "report/index.html");
    if (drive->json) {
        print_drive_json(s, directory);
    } else if (s->end != HRF_RUN_DONE) {
        hrf_cli_printf("%s; to continue: %s\n",
                       s->end == HRF_RUN_CANCELLED ? "cancelled" : "detached, jobs continue",
                       drive->again);
    } else {
        hrf_cli_printf("%lld slides: %lld done, %lld failed, %lld without tissue, %lld excluded\n",
                       (long long)s->n_slides, (long long)s->n_done, (long long)s->n_failed,
                       (long long)s->n_no_tissue, (long long)s->n_excluded);
        hrf_cli_print_failed(directory);
        HRF_AUTO_FREE char *path = hrf_path_join(directory, "report/report.json");
        HRF_AUTO_JSON report = NULL;
        if (hrf_json_read_file(path, &report, NULL) == HRF_OK)
            hrf_cli_print_figures(report);
        hrf_cli_printf("labels: %s\nreport: %s\n", labels,
                       w->report.html ? page : "(not requested)");
    }
    if (s->end != HRF_RUN_DONE)
        return HRF_EXIT_INTERRUPTED;
    return s->n_failed > 0 ? HRF_EXIT_PARTIAL : 0;
}

/* Reports on stderr why a run could not finish, and returns its exit code. */
static int fail_run(const struct hrf_cli_drive *drive, struct hrf_error *err)
{
    drive_fail(drive, err);
    hrf_cli_print_way_out_of_full_disk(err, "run the same command again");
    return err->status == HRF_E_UNSUPPORTED ? HRF_EXIT_USAGE : HRF_EXIT_FAILED;
}

int hrf_cli_drive(const struct hrf_cli_drive *drive, const struct hrf_workflow *w,
                  const char *directory)
{
    const struct hrf_run_options options = { .quiet = false };
    struct hrf_run_summary summary = { .n_slides = 0 };
    struct hrf_error err = { .status = HRF_OK };
    hrf_run_catch_signals();
    const enum hrf_status status = hrf_run(w, directory, &options, &summary, &err);
    const int code = status == HRF_OK ? print_summary(drive, &summary, w, directory)
                                      : fail_run(drive, &err);
    fflush(stdout);
    const struct hrf_end end = { .command = drive->command,
                                 .workflow = w,
                                 .directory = directory,
                                 .summary = &summary,
                                 .error = status != HRF_OK ? err.text : NULL,
                                 .exit_code = code };
    if (summary.run_id[0] != '\0') /* "": it never began, for example because another driver runs */
        hrf_cli_run_on_end(&end);
    return code;
}
