/* doctor.c - `hires-flow doctor`: what this machine has, and what each finding means for a run. */
#include "orchestrator/cli/doctor.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/own_process.h"
#include "base/process.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/launch/launch.h"
#include "schema/hdf5/hdf5_calls.h"
#include "tiler/slide/slide.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const struct {
    const char *word, *mark; /* in JSON; before its line on a terminal */
} verdicts[] = {
    [HRF_GOOD] = { "good", "ok  " },
    [HRF_WARNING] = { "warning", "!   " },
    [HRF_BAD] = { "bad", "BAD " },
};

void hrf_doctor_add(struct hrf_doctor *doctor, enum hrf_verdict verdict, const char *subject,
                    const char *meaning, const char *format, ...)
{
    char found[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(found, sizeof found, format, args);
    va_end(args);
    doctor->is_bad |= verdict == HRF_BAD;
    json_t *entry = json_object();
    hrf_json_put_text(entry, "subject", subject);
    hrf_json_put_text(entry, "verdict", verdicts[verdict].word);
    hrf_json_put_text(entry, "meaning", meaning);
    hrf_json_put_text(entry, "found", found);
    hrf_json_add(doctor->findings, entry);
}

enum hrf_status hrf_cli_ask_version(struct hrf_engine_version *out, struct hrf_error *err)
{
    const struct hrf_version_request request = { .json = true }, initial = { .json = false };
    const struct hrf_engine_question question = { .command = HRF_ENGINE_VERSION,
                                                  .options = hrf_version_options,
                                                  .request = &request,
                                                  .initial = &initial,
                                                  .patience_ms = 30000 };
    HRF_AUTO_JSON answer = NULL;
    HRF_TRY(hrf_engine_ask_json(&question, &answer, err));
    return hrf_engine_version_read(answer, out, err);
}

/* For each part of the engine: what it means for a run if it is there, and if it is not. */
static const struct {
    const char *subject, *meaning, *without;
    bool is_named; /* what was found does not say what it is */
    enum hrf_verdict lacking;
} parts[HRF_N_ENGINE_PARTS] = {
    [HRF_PART_PROGRAM] = { "engine", "inference jobs can run" },
    [HRF_PART_LIBRARY] = { "engine",
                           "library for device: cpu on this machine; jobs on other machines use "
                           "theirs" },
    [HRF_PART_PROCESSOR] = { "engine", "of this machine; `bench engine` measures its speed",
                             .is_named = true },
    [HRF_PART_DEVICES] = { "engine", "possible values of engine.device", .is_named = true },
    [HRF_PART_PRECISIONS] = { "engine",
                              "possible values of `precision`, and how this machine computes them",
                              .is_named = true },
    [HRF_PART_CPU] = { "engine", NULL, "inference jobs with device: cpu cannot run",
                       .lacking = HRF_BAD },
    [HRF_PART_CUDA] = { "gpu", "device: auto and device: cuda use it",
                        "device: auto uses the CPU, device: cuda is an error" },
    [HRF_PART_NVJPEG] = { "nvjpeg", "engine.decode=gpu and auto decode tiles of slides by it",
                          "tiles of slides are decoded by the CPU" },
    [HRF_PART_NCCL] = { "nccl", "ranks on several GPUs can use it",
                        "ranks on several GPUs exchange through the host's memory" },
    [HRF_PART_MPI] = { "mpi", "jobs of several ranks can run",
                       "jobs have one rank here; `apt install openmpi-bin` for more" },
};

static void look_at_engine(struct hrf_doctor *doctor)
{
    HRF_AUTO_FREE struct hrf_engine_version *engine = hrf_calloc(1, sizeof *engine);
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_cli_ask_version(engine, &err) != HRF_OK) {
        hrf_doctor_add(doctor, HRF_BAD, "engine",
                       "inference jobs cannot run: put hires-engine next to hires-flow",
                       "does not start: %s", err.text);
        return;
    }
    for (int i = 0; i < HRF_N_ENGINE_PARTS; i++) {
        const struct hrf_engine_part_state *part = &engine->parts[i];
        if (part->error.status != HRF_OK)
            hrf_doctor_add(doctor, parts[i].lacking, parts[i].subject, parts[i].without,
                           parts[i].lacking == HRF_BAD ? "%s" : "none: %s", part->error.text);
        else if (part->found[0] != '\0')
            hrf_doctor_add(doctor, HRF_GOOD, parts[i].subject, parts[i].meaning, "%s%s%s",
                           parts[i].is_named ? hrf_engine_part_name((enum hrf_engine_part)i) : "",
                           parts[i].is_named ? ": " : "", part->found);
    }
}

/* Checks the directory where runs are written: free space, and renames, which commits need. */
static void look_at_directory(struct hrf_doctor *doctor, const char *directory)
{
    enum { MIN_BYTES = 1 << 30 };
    struct statvfs fs;
    struct hrf_error err = { .status = HRF_OK };
    if (statvfs(directory, &fs) != 0) {
        hrf_doctor_add(doctor, HRF_BAD, "directory", "runs cannot be written here",
                       "'%s' cannot be read", directory);
        return;
    }
    const double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
    hrf_doctor_add(doctor, free_bytes < MIN_BYTES ? HRF_WARNING : HRF_GOOD, "disk",
                   free_bytes < MIN_BYTES
                       ? "a run stops when the disk is full; it can be continued later"
                       : "enough space for a run",
                   "%.1f GiB and %.0f files free in '%s'", free_bytes / 0x1p30, (double)fs.f_favail,
                   directory);
    bool is_shared;
    const char *name = hrf_file_system_of(directory, &is_shared);
    hrf_doctor_add(doctor, HRF_GOOD, "file system",
                   is_shared ? "run.db uses a rollback journal, which works across machines"
                             : "run.db uses a write-ahead log: drivers must be on this machine",
                   "%s%s", name, is_shared ? ", shared" : "");
    HRF_AUTO_FREE char *probe = hrf_format("%s/.hires-flow-doctor-%ld", directory, (long)getpid());
    const double start = hrf_clock_seconds();
    if (hrf_file_write_atomic(probe, "probe\n", 6, &err) != HRF_OK)
        hrf_doctor_add(doctor, HRF_BAD, "commit", "jobs cannot write results here", "%s", err.text);
    else
        hrf_doctor_add(doctor, HRF_GOOD, "commit",
                       "results are written to a temporary file, synced and renamed",
                       "%.1f ms each", 1000 * (hrf_clock_seconds() - start));
    unlink(probe);
}

static void look_at_slides(struct hrf_doctor *doctor)
{
    struct hrf_slide_library library;
    hrf_slide_library(&library);
    if (library.trouble[0] != '\0')
        hrf_doctor_add(doctor, HRF_BAD, "slides",
                       getenv("HRF_OPENSLIDE") != NULL
                           ? "HRF_OPENSLIDE names a library that is not used"
                           : "OpenSlide is missing: install Debian's libopenslide0",
                       "%s", library.trouble);
    else
        hrf_doctor_add(
            doctor, HRF_GOOD, "slides",
            library.reads_dicom
                ? "reads slides, DICOM too"
                : "reads slides; for DICOM: `pip install openslide-bin`, and HRF_OPENSLIDE "
                  "set to its libopenslide.so.1",
            "OpenSlide %s (%s)", library.version, library.file);
}

static void look_at_hdf5(struct hrf_doctor *doctor)
{
    char version[32];
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_hdf5_look(version, sizeof version, &err) != HRF_OK)
        hrf_doctor_add(doctor, HRF_WARNING, "hdf5",
                       "no embeddings, slide heads and tilings of other programs", "%s", err.text);
    else
        hrf_doctor_add(doctor, HRF_GOOD, "hdf5",
                       "embeddings, and tilings of other programs, are read and written", "HDF5 %s",
                       version);
}

static void look_at_cores(struct hrf_doctor *doctor)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    hrf_doctor_add(doctor, HRF_GOOD, "cores", "of this machine; the jobs of a local run share them",
                   "%d", hrf_process_cpu_count());
    hrf_doctor_add(doctor, HRF_GOOD, "memory", "`hires-flow plan` shows what a job needs",
                   "%.1f GiB", (double)pages * (double)page / 0x1p30);
}

static void print_doctor_text(const struct hrf_doctor *doctor, bool slurm)
{
    for (size_t i = 0; i < json_array_size(doctor->findings); i++) {
        const json_t *f = json_array_get(doctor->findings, i);
        const char *verdict = json_string_value(json_object_get(f, "verdict"));
        const char *mark = "";
        for (size_t k = 0; k < sizeof verdicts / sizeof verdicts[0]; k++)
            if (strcmp(verdicts[k].word, verdict) == 0)
                mark = verdicts[k].mark;
        hrf_cli_printf("%s %-11s %s (%s)\n", mark, json_string_value(json_object_get(f, "subject")),
                       json_string_value(json_object_get(f, "found")),
                       json_string_value(json_object_get(f, "meaning")));
    }
    hrf_cli_printf("%s\n", doctor->is_bad ? "a run cannot work here"
                           : slurm        ? "everything that a run with Slurm needs is available"
                                          : "everything that a local run needs is available");
}

static void print_doctor_json(const struct hrf_doctor *doctor)
{
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put_bool(value, "good", !doctor->is_bad);
    hrf_json_put(value, "findings", json_incref(doctor->findings));
    hrf_json_print(value);
}

/* Loads the Slurm settings of a workflow; without a workflow, the defaults. */
static enum hrf_status load_settings(const char *file, const struct hrf_option_list *set,
                                     struct hrf_workflow **out, struct hrf_error *err)
{
    if (file != NULL)
        return hrf_cli_load(file, set, out, err);
    *out = hrf_calloc(1, sizeof **out);
    return HRF_OK;
}

static int doctor_main(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false, slurm = false, no_probe = false;
    const char *directory = ".";
    struct hrf_option_list set = { .n_items = 0 };
    const struct hrf_option options[] = {
        { "dir", "DIR", "folder where runs will be written (default: the current one)",
          HRF_OPTION(&directory) },
        { "slurm", NULL, "check Slurm even if no workflow needs it", HRF_OPTION(&slurm) },
        { "no-probe", NULL, "do not run the two short test jobs", HRF_OPTION(&no_probe) },
        { "set", "KEY=VALUE", "override a key of the workflow; may be repeated", HRF_OPTION(&set) },
        { "json", NULL, "print JSON", HRF_OPTION(&json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    HRF_AUTO_JSON findings = json_array();
    HRF_AUTO(hrf_workflow) workflow = NULL;
    struct hrf_doctor doctor = { .findings = findings };
    struct hrf_error err = { .status = HRF_OK };
    if (load_settings(args.n_operands > 0 ? args.operands[0] : NULL, &set, &workflow, &err) !=
        HRF_OK)
        return hrf_cli_fail(command->name, &err);
    slurm |= workflow->executor.type == HRF_EXECUTOR_SLURM;
    look_at_engine(&doctor);
    if (hrf_cli_check_ranks(workflow, &err) == HRF_E_EXTERNAL)
        hrf_doctor_add(&doctor, HRF_BAD, "ranks", "no inference job can run", "%s", err.text);
    look_at_cores(&doctor);
    look_at_slides(&doctor);
    look_at_hdf5(&doctor);
    look_at_directory(&doctor, directory);
    hrf_doctor_slurm(&doctor, &workflow->executor, directory, slurm, slurm && !no_probe);
    if (json)
        print_doctor_json(&doctor);
    else
        print_doctor_text(&doctor, slurm);
    return doctor.is_bad ? HRF_EXIT_LACKS : 0;
}

static const char details[] =
    "Each line says what was found and what it means for a run. With a workflow whose executor is\n"
    "slurm, or with --slurm, two short test jobs are run: one writes to the folder for runs, and\n"
    "one starts two ranks that must connect to each other.";

const struct hrf_command hrf_cli_doctor = {
    .name = "doctor",
    .operands = "[FILE.yaml]",
    .summary = "check that this machine and its Slurm have what a run needs",
    .details = details,
    .max_operands = 1,
    .run = doctor_main,
};
