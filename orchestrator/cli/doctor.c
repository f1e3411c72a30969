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

void hrf_doctor_tell(struct hrf_doctor *doctor, enum hrf_verdict verdict, const char *subject,
                     const char *meaning, const char *format, ...)
{
    static const char *const words[] = { "good", "warning", "bad" };
    char found[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(found, sizeof found, format, args);
    va_end(args);
    doctor->is_bad |= verdict == HRF_BAD;
    json_array_append_new(doctor->findings,
                          json_pack("{ssssssso}", "subject", subject, "verdict", words[verdict],
                                    "meaning", meaning, "found", hrf_json_string(found)));
}

/* Finds a line of `hires-engine version` by its first words. */
static void tell_line(struct hrf_doctor *doctor, const char *line, int n)
{
    static const struct {
        const char *begin, *subject, *meaning;
        const char *instead; /* of the beginning; NULL: it is told */
        enum hrf_verdict verdict;
    } kinds[] = {
        { "cuda: missing: ", "gpu", "device: auto uses the CPU, device: cuda is an error",
          "none: ", HRF_GOOD },
        { "cuda: ", "gpu", "device: auto and device: cuda use it", "", HRF_GOOD },
        { "mpi: missing: ", "mpi", "jobs have one rank here; `apt install openmpi-bin` for more",
          "none: ", HRF_GOOD },
        { "mpi: ", "mpi", "jobs of several ranks can run", "", HRF_GOOD },
        { "nccl: missing: ", "nccl", "ranks on several GPUs exchange through the host's memory",
          "none: ", HRF_GOOD },
        { "nccl: ", "nccl", "ranks on several GPUs can use it", "", HRF_GOOD },
        { "nvjpeg: missing: ", "nvjpeg", "tiles of slides are decoded by the CPU",
          "none: ", HRF_GOOD },
        { "nvjpeg: ", "nvjpeg", "engine.decode=gpu and auto decode tiles of slides by it", "",
          HRF_GOOD },
        { "cpu: missing: ", "engine", "inference jobs with device: cpu cannot run", "", HRF_BAD },
        { "hires-engine", "engine", "inference jobs can run", NULL, HRF_GOOD },
        { "oneDNN", "engine",
          "library for device: cpu on this machine; jobs on other machines use theirs", NULL,
          HRF_GOOD },
        { "processor", "engine", "of this machine; `bench engine` measures its speed", NULL,
          HRF_GOOD },
        { "devices", "engine", "possible values of engine.device", NULL, HRF_GOOD },
        { "precisions", "engine",
          "possible values of `precision`, and how this machine computes them", NULL, HRF_GOOD },
        { "", "engine", "inference jobs can run", NULL, HRF_GOOD },
    };
    size_t k = 0;
    while (strncmp(line, kinds[k].begin, strlen(kinds[k].begin)) != 0)
        k++;
    const char *instead = kinds[k].instead;
    const int skipped = instead != NULL ? (int)strlen(kinds[k].begin) : 0;
    hrf_doctor_tell(doctor, kinds[k].verdict, kinds[k].subject, kinds[k].meaning, "%s%.*s",
                    instead != NULL ? instead : "", n - skipped, line + skipped);
}

static void look_at_engine(struct hrf_doctor *doctor)
{
    HRF_AUTO_FREE char *program = NULL;
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    struct hrf_process_result result = { .exited = false };
    struct hrf_error err = { .text = "no memory" };
    bool good = false;
    if (hrf_launch_find_engine(&program, &err) == HRF_OK) {
        const char *const argv[] = { program, "version", NULL };
        good = hrf_process_run(argv, NULL, NULL, 30000, 4096, &out, NULL, &result, &err) ==
                   HRF_OK &&
               result.exited && result.exit_code == 0;
    }
    if (!good)
        hrf_doctor_tell(doctor, HRF_BAD, "engine",
                        "inference jobs cannot run: put hires-engine next to hires-flow",
                        "does not start: %s", err.text);
    for (const char *line = out.text; good && *line != '\0';) {
        const int n = (int)strcspn(line, "\n");
        tell_line(doctor, line, n);
        line += n + (line[n] == '\n');
    }
    hrf_strbuf_release(&out);
}

/* Checks the directory where runs are written: free space, and renames, which commits need. */
static void look_at_directory(struct hrf_doctor *doctor, const char *directory)
{
    enum { LEAST_BYTES = 1 << 30 };
    struct statvfs fs;
    struct hrf_error err = { .status = HRF_OK };
    if (statvfs(directory, &fs) != 0) {
        hrf_doctor_tell(doctor, HRF_BAD, "directory", "runs cannot be written here",
                        "'%s' cannot be read", directory);
        return;
    }
    const double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
    hrf_doctor_tell(doctor, free_bytes < LEAST_BYTES ? HRF_WARNING : HRF_GOOD, "disk",
                    free_bytes < LEAST_BYTES
                        ? "a run stops when the disk is full; it can be continued later"
                        : "enough space for a run",
                    "%.1f GiB and %.0f files free in '%s'", free_bytes / 0x1p30,
                    (double)fs.f_favail, directory);
    bool is_shared;
    const char *name = hrf_file_system_of(directory, &is_shared);
    hrf_doctor_tell(doctor, HRF_GOOD, "file system",
                    is_shared ? "run.db uses a rollback journal, which works across machines"
                              : "run.db uses a write-ahead log: drivers must be on this machine",
                    "%s%s", name, is_shared ? ", shared" : "");
    HRF_AUTO_FREE char *probe = hrf_format("%s/.hires-flow-doctor-%ld", directory, (long)getpid());
    if (probe == NULL)
        return;
    const double start = hrf_clock_seconds();
    if (hrf_file_write_atomic(probe, "probe\n", 6, &err) != HRF_OK)
        hrf_doctor_tell(doctor, HRF_BAD, "commit", "jobs cannot write results here", "%s",
                        err.text);
    else
        hrf_doctor_tell(doctor, HRF_GOOD, "commit",
                        "results are written to a temporary file, synced and renamed",
                        "%.1f ms each", 1000 * (hrf_clock_seconds() - start));
    unlink(probe);
}

static void look_at_slides(struct hrf_doctor *doctor)
{
    struct hrf_slide_library library;
    hrf_slide_library(&library);
    if (library.trouble[0] != '\0')
        hrf_doctor_tell(doctor, HRF_BAD, "slides",
                        getenv("HRF_OPENSLIDE") != NULL
                            ? "HRF_OPENSLIDE names a library that is not used"
                            : "OpenSlide is missing: install Debian's libopenslide0",
                        "%s", library.trouble);
    else
        hrf_doctor_tell(
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
        hrf_doctor_tell(doctor, HRF_WARNING, "hdf5",
                        "no embeddings, slide heads and tilings of other programs", "%s", err.text);
    else
        hrf_doctor_tell(doctor, HRF_GOOD, "hdf5",
                        "embeddings, and tilings of other programs, are read and written",
                        "HDF5 %s", version);
}

static void look_at_cores(struct hrf_doctor *doctor)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    hrf_doctor_tell(doctor, HRF_GOOD, "cores",
                    "of this machine; the jobs of a local run share them", "%d",
                    hrf_process_cpu_count());
    hrf_doctor_tell(doctor, HRF_GOOD, "memory", "`hires-flow plan` shows what a job needs",
                    "%.1f GiB", (double)pages * (double)page / 0x1p30);
}

static void print_text(const struct hrf_doctor *doctor, bool slurm)
{
    static const char *const marks[] = { "good", "ok  ", "warning", "!   ", "bad", "BAD " };
    for (size_t i = 0; i < json_array_size(doctor->findings); i++) {
        const json_t *f = json_array_get(doctor->findings, i);
        const char *verdict = json_string_value(json_object_get(f, "verdict"));
        const char *mark = "";
        for (size_t k = 0; k < 6; k += 2)
            if (strcmp(marks[k], verdict) == 0)
                mark = marks[k + 1];
        hrf_cli_printf("%s %-11s %s (%s)\n", mark, json_string_value(json_object_get(f, "subject")),
                       json_string_value(json_object_get(f, "found")),
                       json_string_value(json_object_get(f, "meaning")));
    }
    hrf_cli_printf("%s\n", doctor->is_bad ? "a run cannot work here"
                           : slurm        ? "everything that a run with Slurm needs is available"
                                          : "everything that a local run needs is available");
}

static void print_json(const struct hrf_doctor *doctor)
{
    HRF_AUTO_JSON value = json_pack("{sisbsO}", "version", 1, "good", (int)!doctor->is_bad,
                                    "findings", doctor->findings);
    HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
    puts(text != NULL ? text : "{}");
}

/* The Slurm settings of a workflow; without a workflow, the defaults. */
static enum hrf_status load_settings(const char *file, const struct hrf_option_list *set,
                                     struct hrf_workflow **out, struct hrf_error *err)
{
    if (file != NULL)
        return hrf_cli_load(file, set, out, err);
    *out = hrf_calloc(1, sizeof **out);
    return *out != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory");
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false, slurm = false, no_probe = false;
    const char *directory = ".";
    struct hrf_option_list set = { .n_items = 0 };
    const struct hrf_option options[] = {
        { "dir", "DIR", "folder where runs will be written (default: the current one)",
          HRF_OPTION_TEXT, &directory },
        { "slurm", NULL, "check Slurm even if no workflow needs it", HRF_OPTION_FLAG, &slurm },
        { "no-probe", NULL, "do not run the two short test jobs", HRF_OPTION_FLAG, &no_probe },
        { "set", "KEY=VALUE", "override a key of the workflow; may be repeated", HRF_OPTION_LIST,
          &set },
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, &json },
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
        hrf_doctor_tell(&doctor, HRF_BAD, "ranks", "no inference job can run", "%s", err.text);
    look_at_cores(&doctor);
    look_at_slides(&doctor);
    look_at_hdf5(&doctor);
    look_at_directory(&doctor, directory);
    hrf_doctor_slurm(&doctor, &workflow->executor, directory, slurm, slurm && !no_probe);
    if (json)
        print_json(&doctor);
    else
        print_text(&doctor, slurm);
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
    .run = run,
};
