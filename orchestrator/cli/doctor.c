/* doctor.c - `hires-flow doctor`: what this machine has, and what each finding means for a run. */
#include "base/clock.h"
#include "base/json.h"
#include "base/path.h"
#include "base/process.h"
#include "orchestrator/cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum verdict { GOOD, WARNING, BAD };

struct doctor {
    json_t *findings; /* array of {subject, verdict, found, meaning} */
    bool is_bad;
};

static void tell(struct doctor *doctor, enum verdict verdict, const char *subject,
                 const char *meaning, const char *format, ...) HRF_PRINTF(5, 6);

static void tell(struct doctor *doctor, enum verdict verdict, const char *subject,
                 const char *meaning, const char *format, ...)
{
    static const char *const words[] = { "good", "warning", "bad" };
    char found[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(found, sizeof found, format, args);
    va_end(args);
    doctor->is_bad |= verdict == BAD;
    json_array_append_new(doctor->findings,
                          json_pack("{ssssssso}", "subject", subject, "verdict", words[verdict],
                                    "meaning", meaning, "found", hrf_json_string(found)));
}

static void look_at_engine(struct doctor *doctor)
{
    HRF_AUTO_FREE char *self = NULL, *directory = NULL, *program = NULL;
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    struct hrf_process_result result = { .exited = false };
    struct hrf_error err = { .text = "no memory" };
    bool good = false;
    if (hrf_process_self(&self, &err) == HRF_OK && (directory = hrf_path_directory(self)) != NULL &&
        (program = hrf_path_join(directory, "hires-engine")) != NULL) {
        const char *const argv[] = { program, "version", NULL };
        good = hrf_process_run(argv, NULL, NULL, 30000, 4096, &out, NULL, &result, &err) ==
                   HRF_OK &&
               result.exited && result.exit_code == 0;
    }
    if (!good)
        tell(doctor, BAD, "engine", "no infer job can run: put hires-engine beside hires-flow",
             "does not start: %s", err.text);
    for (const char *line = out.text; good && *line != '\0';) {
        const int n = (int)strcspn(line, "\n");
        tell(doctor, GOOD, "engine", "infer jobs can run", "%.*s", n, line);
        line += n + (line[n] == '\n');
    }
    hrf_strbuf_release(&out);
}

/* Where runs would be written: room, and the renames that commits are made of. */
static void look_at_directory(struct doctor *doctor, const char *directory)
{
    enum { LEAST_BYTES = 1 << 30 };
    struct statvfs fs;
    struct hrf_error err = { .status = HRF_OK };
    if (statvfs(directory, &fs) != 0) {
        tell(doctor, BAD, "directory", "runs cannot be written here", "'%s' cannot be read",
             directory);
        return;
    }
    const double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
    tell(doctor, free_bytes < LEAST_BYTES ? WARNING : GOOD, "disk",
         free_bytes < LEAST_BYTES ? "a run stops, and can go on later, when the disk is full"
                                  : "room for a run",
         "%.1f GiB free in '%s'", free_bytes / 0x1p30, directory);
    HRF_AUTO_FREE char *probe = hrf_format("%s/.hires-flow-doctor-%ld", directory, (long)getpid());
    if (probe == NULL)
        return;
    const double start = hrf_clock_seconds();
    if (hrf_file_write_atomic(probe, "probe\n", 6, &err) != HRF_OK)
        tell(doctor, BAD, "commit", "no job can hand in a result here", "%s", err.text);
    else
        tell(doctor, GOOD, "commit", "results are committed by write, fsync and rename",
             "%.1f ms each", 1000 * (hrf_clock_seconds() - start));
    unlink(probe);
}

static void look_at_cores(struct doctor *doctor)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    tell(doctor, GOOD, "cores", "shared out over executor.max_jobs jobs", "%d",
         hrf_process_cpu_count());
    tell(doctor, GOOD, "memory", "a job's need is shown by `hires-flow plan`", "%.1f GiB",
         (double)pages * (double)page / 0x1p30);
}

static void print_text(const struct doctor *doctor)
{
    static const char *const marks[] = { "good", "ok  ", "warning", "!   ", "bad", "BAD " };
    for (size_t i = 0; i < json_array_size(doctor->findings); i++) {
        const json_t *f = json_array_get(doctor->findings, i);
        const char *verdict = json_string_value(json_object_get(f, "verdict"));
        const char *mark = "";
        for (size_t k = 0; k < 6; k += 2)
            if (strcmp(marks[k], verdict) == 0)
                mark = marks[k + 1];
        printf("%s %-10s %s (%s)\n", mark, json_string_value(json_object_get(f, "subject")),
               json_string_value(json_object_get(f, "found")),
               json_string_value(json_object_get(f, "meaning")));
    }
    printf("%s\n",
           doctor->is_bad ? "a run cannot work like this" : "all that a local run needs is there");
}

static void print_json(const struct doctor *doctor)
{
    HRF_AUTO_JSON value = json_pack("{sisbsO}", "version", 1, "good", (int)!doctor->is_bad,
                                    "findings", doctor->findings);
    HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
    printf("%s\n", text != NULL ? text : "{}");
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false;
    const char *directory = ".";
    const struct hrf_option options[] = {
        { "dir", "DIR", "where runs will be written (default here)", HRF_OPTION_TEXT, &directory },
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, &json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    HRF_AUTO_JSON findings = json_array();
    struct doctor doctor = { .findings = findings };
    look_at_engine(&doctor);
    look_at_cores(&doctor);
    look_at_directory(&doctor, directory);
    if (json)
        print_json(&doctor);
    else
        print_text(&doctor);
    return doctor.is_bad ? HRF_EXIT_LACKS : 0;
}

const struct hrf_command hrf_cli_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "tell whether this machine has what a run needs",
    .run = run,
};
