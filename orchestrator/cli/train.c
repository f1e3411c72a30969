/* train.c - `train`: trains networks of patches, here or as tasks of an executor.
 *
 * Without a section `executor` the engine trains the folds and seeds itself. With one they are
 * tasks of a run without slides, in the folder `out`: the engine checks the file and lists the
 * trainings, the run loop drives them, and the engine writes the summary of those that are done.
 */
#include "base/directory.h"
#include "base/path.h"
#include "base/process.h"
#include "orchestrator/cli/drive.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The engine's request comes first: its rows of options are used as they are. */
struct request {
    struct hrf_train_request engine;
    const char *executor;
    struct hrf_option_list set;
};

static const struct hrf_request_option own_options[] = {
    { "executor", "local|slurm", "trainings are jobs; overrides executor.type",
      HRF_OPTION_OF(struct request, executor) },
    { "set", "KEY=VALUE", "override a key of the section executor; may be repeated",
      HRF_OPTION_OF(struct request, set) },
    { NULL },
};

/* The engine's options and those above, one after the other, with the end of the table. Heap. */
static struct hrf_request_option *list_options(void)
{
    const struct hrf_request_option *const tables[] = { hrf_train_options, own_options };
    struct hrf_request_option *all = NULL;
    size_t n = 0;
    for (int i = 0; i < 2; i++)
        for (const struct hrf_request_option *o = tables[i]; o->name != NULL; o++) {
            all = hrf_realloc_array(all, n + 2, sizeof *all);
            all[n++] = *o;
        }
    all[n] = (struct hrf_request_option){ .name = NULL };
    return all;
}

/* ---- the engine ---- */

/* Runs `hires-engine train` with this request. What it prints goes to where this command's output
 * goes. *code: its exit code. */
static enum hrf_status ask(const char *file, const struct hrf_train_request *request, int *code,
                           struct hrf_error *err)
{
    HRF_AUTO_FREE char *program = NULL;
    pid_t pid = 0, ended;
    int how = 0;
    HRF_TRY(hrf_launch_find_engine(&program, err));
    const char *const first[] = { program, hrf_engine_commands[HRF_ENGINE_TRAIN].name, file, NULL };
    char **argv = hrf_args_write_request(first, hrf_train_options, request,
                                         &hrf_train_request_initial, NULL);
    fflush(stdout);
    const enum hrf_status status = hrf_process_start((const char *const *)argv, NULL, false, &pid,
                                                     err);
    hrf_args_free_words(argv);
    HRF_TRY(status);
    do
        ended = waitpid(pid, &how, 0);
    while (ended < 0 && errno == EINTR);
    const struct hrf_process_result result = hrf_process_decode(how);
    *code = ended == pid && result.exited ? result.exit_code : HRF_EXIT_FAILED;
    return HRF_OK;
}

static enum hrf_status list_in(const char *folder, const char *file,
                               const struct hrf_train_request *wanted,
                               struct hrf_listed_trainings *out, int *code, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "trainings.json");
    const struct hrf_train_request request = { .jobs = wanted->jobs,
                                               .fold = wanted->fold,
                                               .seed = wanted->seed,
                                               .device = wanted->device,
                                               .list = path };
    HRF_TRY(ask(file, &request, code, err));
    return *code == 0 ? hrf_listed_trainings_read(path, out, err) : HRF_OK;
}

/* Has the file and the pictures checked, and reads which trainings there are. *code is not 0: what
 * is wrong has been printed. */
static enum hrf_status list_trainings(const char *file, const struct hrf_train_request *wanted,
                                      struct hrf_listed_trainings *out, int *code,
                                      struct hrf_error *err)
{
    const char *base = getenv("TMPDIR");
    HRF_AUTO_FREE char *folder = hrf_format("%s/hires-flow-train.XXXXXX",
                                            base != NULL && base[0] != '\0' ? base : "/tmp");
    struct hrf_error ignored;
    if (mkdtemp(folder) == NULL)
        return hrf_error_set_errno(err, errno, "cannot make a folder like '%s'", folder);
    const enum hrf_status status = list_in(folder, file, wanted, out, code, err);
    (void)!hrf_path_remove_tree(folder, &ignored);
    return status;
}

/* ---- a run of trainings ---- */

static enum hrf_status check(const struct hrf_workflow *w, const struct hrf_train_request *request,
                             struct hrf_error *err)
{
    static const char *const kinds[] = { "network", NULL };
    if (request->jobs != 1 || request->threads != 0 || strcmp(request->device, "cpu") != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "--jobs, --threads and --device are of trainings without an executor; "
                             "'executor.max_jobs' and 'executor.slurm.cpus_per_rank' are what jobs "
                             "get");
    return hrf_cli_check_slurm(w, kinds, err);
}

/* A job's ranks share a training as its layout says; a job of one rank has them as threads. */
static enum hrf_status check_layout(const struct hrf_workflow *w, const char *layout,
                                    struct hrf_error *err)
{
    const struct hrf_workflow_executor *e = &w->executor;
    const bool is_slurm = e->type == HRF_EXECUTOR_SLURM;
    const int64_t n = is_slurm ? e->slurm.nodes * e->slurm.ranks_per_node : e->local.ranks;
    struct hrf_layout_plan plan;
    HRF_TRY(hrf_layout_parse(layout, &plan, err));
    if (n == 1 || n == hrf_layout_ranks(&plan))
        return hrf_cli_check_ranks(w, err);
    return hrf_error_set(
        err, HRF_E_USER,
        "'train.layout' %s is for %d ranks, and %s is %lld: these have to be the "
        "same, or 1 for threads of one process",
        layout, (int)hrf_layout_ranks(&plan),
        is_slurm ? "executor.slurm: nodes x ranks_per_node" : "executor.local.ranks", (long long)n);
}

static void print_failed(const char *directory, const struct hrf_listed_trainings *list)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_task_rows) tasks = { NULL, 0 };
    HRF_AUTO_FREE char *db = hrf_path_join(directory, "run.db");
    if (hrf_store_open(db, HRF_STORE_READ, &store, NULL) != HRF_OK ||
        hrf_store_get_tasks(store, &tasks, NULL) != HRF_OK)
        return;
    for (size_t i = 0; i < tasks.n_items; i++)
        for (size_t k = 0; k < list->n && tasks.items[i].state == HRF_TASK_BROKEN; k++)
            if (list->items[k].number == tasks.items[i].first_patch)
                fprintf(stderr, "failed: fold %lld seed %lld: %s\n", (long long)list->items[k].fold,
                        (long long)list->items[k].seed,
                        tasks.items[i].reason != NULL ? tasks.items[i].reason : "");
}

struct training_run {
    const char *file; /* as it was given */
    const struct hrf_train_request *request;
    const struct hrf_cli_drive *drive;
};

/* After the run: the summary of all that is done. */
static int summarise(const struct training_run *r, const struct hrf_run_summary *summary,
                     const struct hrf_listed_trainings *list)
{
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_train_request request = { .jobs = 1,
                                               .fold = -1,
                                               .device = r->request->device,
                                               .summary = true,
                                               .json = r->request->json };
    int code = 0;
    if (summary->end != HRF_RUN_DONE) {
        fprintf(stderr, "%s; to continue: %s\n",
                summary->end == HRF_RUN_CANCELLED ? "cancelled" : "detached, jobs continue",
                r->drive->again);
        return HRF_EXIT_INTERRUPTED;
    }
    if (summary->n_failed > 0)
        print_failed(list->out, list);
    if (ask(r->file, &request, &code, &err) != HRF_OK)
        return hrf_cli_fail(r->drive->command, &err);
    return code != 0 ? code : summary->n_failed > 0 ? HRF_EXIT_PARTIAL : 0;
}

static int run_trainings(const struct training_run *r, struct hrf_workflow *w)
{
    HRF_AUTO_RELEASE(hrf_listed_trainings) list = { .items = NULL };
    HRF_AUTO_FREE char *file = NULL;
    struct hrf_run_summary summary = { .n_slides = 0 };
    struct hrf_error err = { .status = HRF_OK };
    int code = 0;
    enum hrf_status status = check(w, r->request, &err);
    if (status == HRF_OK)
        status = hrf_path_absolute(r->file, &file, &err);
    if (status == HRF_OK)
        status = list_trainings(r->file, r->request, &list, &code, &err);
    if (code != 0)
        return code;
    if (status == HRF_OK)
        status = check_layout(w, list.layout, &err);
    if (status != HRF_OK)
        return hrf_cli_fail(r->drive->command, &err);
    const struct hrf_run_trainings trainings = { .file = file, .list = &list };
    const struct hrf_run_options options = { .trainings = &trainings };
    w->model.file = hrf_strdup(list.model); /* a node that lacks it is not used */
    hrf_run_catch_signals();
    if (hrf_run(w, list.out, &options, &summary, &err) == HRF_OK)
        return summarise(r, &summary, &list);
    code = hrf_cli_fail(r->drive->command, &err);
    hrf_cli_print_way_out_of_full_disk(&err, "run the same command again");
    return err.status == HRF_E_UNSUPPORTED ? code : HRF_EXIT_FAILED;
}

/* Reads the section `executor`. *out is NULL if the engine has to tell what is wrong with the file.
 */
static enum hrf_status read_executor(const char *file, struct request *request,
                                     struct hrf_workflow **out, struct hrf_error *err)
{
    char type[64];
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    struct hrf_error why = { .status = HRF_OK };
    if (request->executor != NULL) {
        snprintf(type, sizeof type, "executor.type=%s", request->executor);
        request->set.items[request->set.n_items++] = type;
    }
    const enum hrf_status status = hrf_workflow_load_executor(
        file, request->set.items, request->set.n_items, out, &findings, &why);
    if (status == HRF_OK || request->set.n_items == 0)
        return HRF_OK;
    fputs(findings.text.text, stderr);
    return hrf_error_pass(err, &why);
}

static int train_main(const struct hrf_command *command, int argc, char **argv)
{
    HRF_AUTO_FREE struct hrf_request_option *options = list_options();
    struct request request = { .engine = hrf_train_request_initial };
    const struct hrf_train_request *e = &request.engine;
    struct hrf_args args = hrf_args_parse_request(HRF_PROGRAM, command, options, &request, argc,
                                                  argv);
    if (args.done)
        return args.exit_code;
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_FREE char *again = hrf_cli_command_line(command->name, argc, argv);
    struct hrf_error err = { .status = HRF_OK };
    const bool is_question = e->keys || e->summary || e->list != NULL || args.n_operands != 1;
    if (!is_question && read_executor(args.operands[0], &request, &workflow, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    if (workflow == NULL || !workflow->executor.is_given)
        return hrf_cli_exec_engine(HRF_PROGRAM, command->name, command->name, argc, argv);
    const struct hrf_cli_drive drive = { .command = command->name,
                                         .again = again,
                                         .json = e->json };
    const struct training_run run = { .file = args.operands[0], .request = e, .drive = &drive };
    return run_trainings(&run, workflow);
}

const struct hrf_command hrf_cli_train = {
    .name = "train",
    .operands = "FILE.yaml",
    .summary = "train a network of patches on one's own pictures",
    .details =
        "Fine-tunes the ONNX model that the file names, once for each fold and seed, writes it as "
        "ONNX with its figures, and goes on where it was interrupted. --keys prints what the file "
        "may say. With a section 'executor' (or --executor) the trainings are jobs, here or on "
        "Slurm; Ctrl-C leaves them running, and the same command finds them.",
    .max_operands = 1,
    .run = train_main,
};
