/* site.c - prints sbatch command lines, and tests one with `sbatch --test-only` and what the
 * partition has. */
#include "orchestrator/executor/slurm/site.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/own_process.h"
#include "orchestrator/executor/slurm/command.h"
#include "orchestrator/executor/slurm/node_fit.h"
#include "orchestrator/executor/slurm/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t hrf_slurm_array_limit(void)
{
    static const char *const config[] = { "scontrol", "show", "config", NULL };
    struct hrf_slurm_limits limits = { .max_array_size = 0 };
    struct hrf_slurm_output out;
    if (hrf_slurm_run(config, HRF_SLURM_DEADLINE_MS, &out, NULL) == HRF_OK) {
        hrf_slurm_config_parse(out.output.text, &limits);
        hrf_slurm_output_release(&out);
    }
    return hrf_slurm_max_array(&limits);
}

static void add_words(const struct hrf_text_list *words, struct hrf_strbuf *out)
{
    for (size_t i = 0; i < words->n_items; i++) {
        hrf_strbuf_adds(out, i > 0 ? " " : "");
        hrf_strbuf_add_word(out, words->items[i]);
    }
    hrf_strbuf_addc(out, '\n');
}

void hrf_slurm_describe(const struct hrf_workflow_executor *settings, const char *kind,
                        int64_t n_jobs, int64_t max, const char *directory, int64_t *number,
                        struct hrf_strbuf *out)
{
    struct hrf_slurm_offer offer;
    const bool is_known = n_jobs > 0 &&
                          hrf_slurm_offer_ask(settings->slurm.partition, NULL, &offer);
    for (int64_t left = n_jobs; left > 0; left -= max) {
        const int64_t n = left < max ? left : max;
        struct hrf_text_list words = { NULL, 0 };
        const struct hrf_submission submission = { .run_directory = directory,
                                                   .run_id = "RUN",
                                                   .number = *number,
                                                   .kind = kind,
                                                   .n_jobs = (size_t)n,
                                                   .exclude = "" };
        struct hrf_slurm_job job = { .settings = settings, .submission = &submission };
        if (is_known)
            hrf_slurm_offer_limits(&offer, &job);
        hrf_slurm_sbatch(&job, &words);
        add_words(&words, out);
        hrf_text_list_release(&words);
        *number += n;
    }
}

/* Makes a temporary directory with a script as a run would have it. sbatch reads the script but
 * does not run it. */
static enum hrf_status make_test_directory(const struct hrf_slurm_job *job, char *directory,
                                           size_t size, struct hrf_error *err)
{
    const char *parent = getenv("TMPDIR");
    HRF_AUTO_RELEASE(hrf_strbuf) script = HRF_STRBUF_INIT;
    snprintf(directory, size, "%s/hires-flow-check-XXXXXX", parent != NULL ? parent : "/tmp");
    if (mkdtemp(directory) == NULL)
        return hrf_error_set(err, HRF_E_EXTERNAL, "cannot make a folder '%s'", directory);
    HRF_AUTO_FREE char *jobs = hrf_format("%s/jobs/array-0001", directory);
    HRF_AUTO_FREE char *path = hrf_format("%s/jobs/array-0001/job.sh", directory);
    HRF_TRY(hrf_path_make_directories(jobs, err));
    hrf_slurm_script(job, &script);
    return hrf_file_write_atomic(path, script.text, script.length, err);
}

static enum hrf_status ask_test_only(const struct hrf_text_list *words, struct hrf_strbuf *out,
                                     struct hrf_error *err)
{
    struct hrf_slurm_output answer;
    char line[400], cluster[64];
    int64_t id;
    HRF_AUTO_FREE const char **argv = hrf_calloc(words->n_items + 2, sizeof *argv);
    argv[0] = words->items[0];
    argv[1] = "--test-only";
    for (size_t i = 1; i < words->n_items; i++)
        argv[i + 1] = words->items[i];
    HRF_TRY(hrf_slurm_run(argv, HRF_SLURM_DEADLINE_MS, &answer, err));
    const bool well = hrf_slurm_succeeded(&answer), late = answer.result.timed_out;
    const enum hrf_slurm_answer judged = hrf_slurm_sbatch_answer(false, answer.output.text,
                                                                 answer.errors.text, &id, cluster);
    hrf_slurm_error_line(answer.errors.text, line, sizeof line);
    hrf_slurm_output_release(&answer);
    if (well) {
        hrf_strbuf_adds(out, strncmp(line, "sbatch: ", 8) == 0 ? line + 8 : line);
        return HRF_OK;
    }
    if (late)
        return hrf_error_set(err, HRF_E_AGAIN, "sbatch --test-only gives no answer");
    return hrf_error_set(err, judged == HRF_SLURM_REFUSED ? HRF_E_USER : HRF_E_AGAIN, "%s", line);
}

enum hrf_status hrf_slurm_try(const struct hrf_workflow_executor *settings, const char *kind,
                              struct hrf_strbuf *out, struct hrf_error *err)
{
    char directory[512];
    HRF_AUTO_FREE char *self = NULL;
    HRF_AUTO_RELEASE(hrf_text_list) words = { NULL, 0 };
    static const char *const specs[] = { "jobs/none/spec.json" };
    HRF_TRY(hrf_process_self(&self, err));
    const struct hrf_submission submission = { .run_directory = directory,
                                               .run_id = "check",
                                               .number = 1,
                                               .kind = kind,
                                               .spec_paths = specs,
                                               .n_jobs = 1,
                                               .exclude = "" };
    struct hrf_slurm_job job = { .settings = settings, .submission = &submission, .program = self };
    struct hrf_slurm_offer offer;
    if (hrf_slurm_offer_ask(settings->slurm.partition, NULL, &offer))
        hrf_slurm_offer_limits(&offer, &job);
    /* This check comes first because its message has numbers. sbatch itself refuses a job that
     * would never run only if the site sets EnforcePartLimits. */
    HRF_TRY(hrf_slurm_fit_ask(settings, kind, err));
    enum hrf_status status = make_test_directory(&job, directory, sizeof directory, err);
    hrf_slurm_sbatch(&job, &words);
    if (status == HRF_OK)
        status = ask_test_only(&words, out, err);
    struct hrf_error ignored;
    const enum hrf_status removed = hrf_path_remove_tree(directory, &ignored);
    (void)removed; /* a temporary directory that stays behind does no harm */
    return status;
}
