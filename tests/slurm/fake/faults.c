/* faults.c - what goes wrong, by the lines of DIR/faults: COMMAND CALLS ACTION [ARGUMENT...].
 *
 * COMMAND: sbatch, squeue, ... or *. CALLS: which of its calls, from 1: 3, 2-5, 4- or *.
 *   wait S        answers S seconds late, before doing anything
 *   late S        does it, then answers S seconds late
 *   hang          does it and never answers
 *   deaf          never answers and does nothing
 *   fail N TEXT   does nothing, says TEXT on stderr, ends with N
 *   lost N TEXT   does it, but says TEXT on stderr and ends with N, as if it had not
 *   forget        (sbatch) answers as if taken; the job is lost, and its ID is given again
 *   print FILE    prints FILE (in DIR) in place of its output, ends with 0
 *   banner TEXT   prints a line of an administrator before its output
 *   cut N         leaves the last N bytes of the output out
 *   die           does it and is killed before it answers
 * The first line that fits counts.
 */
#include "tests/slurm/fake/fake.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fault {
    char command[16], calls[32], action[16];
    char argument[400];
};

static const char *word(const char *at, char *out, size_t size)
{
    at += strspn(at, " ");
    const size_t n = strcspn(at, " \n");
    snprintf(out, size, "%.*s", (int)n, at);
    return at + n;
}

static bool has_call(const char *calls, int call)
{
    char *end;
    if (strcmp(calls, "*") == 0)
        return true;
    const long from = strtol(calls, &end, 10);
    if (*end != '-')
        return call == from;
    return call >= from && (end[1] == '\0' || call <= strtol(end + 1, NULL, 10));
}

static bool find(const struct fake *fake, struct fault *out)
{
    HRF_AUTO_FREE char *path = hrf_path_join(fake->directory, "faults");
    HRF_AUTO_FREE char *text = NULL;
    size_t n;
    if (path == NULL || hrf_file_read(path, 1 << 20, &text, &n, NULL) != HRF_OK)
        return false;
    for (const char *at = text; *at != '\0';) {
        const size_t length = strcspn(at, "\n");
        const char *rest = word(at, out->command, sizeof out->command);
        rest = word(rest, out->calls, sizeof out->calls);
        rest = word(rest, out->action, sizeof out->action);
        rest += *rest == ' ';
        snprintf(out->argument, sizeof out->argument, "%.*s", (int)strcspn(rest, "\n"), rest);
        if ((strcmp(out->command, "*") == 0 || strcmp(out->command, fake->command) == 0) &&
            has_call(out->calls, fake->call))
            return true;
        at += length + (at[length] == '\n');
    }
    return false;
}

static bool is(const struct fault *fault, const char *action)
{
    return strcmp(fault->action, action) == 0;
}

static void wait_seconds(const char *text)
{
    hrf_clock_sleep_ms((int64_t)(1000 * strtod(text, NULL)));
}

/* "N TEXT": says TEXT, and nothing else. */
static int say(struct fake *fake, const char *argument)
{
    char *rest;
    const long code = strtol(argument, &rest, 10);
    hrf_strbuf_clear(&fake->out);
    hrf_strbuf_clear(&fake->err);
    hrf_strbuf_addf(&fake->err, "%s\n", rest + (*rest == ' '));
    return (int)code;
}

enum fake_mood fake_faults_before(struct fake *fake, int *code)
{
    struct fault fault;
    if (!find(fake, &fault))
        return FAKE_ACT;
    if (is(&fault, "wait"))
        wait_seconds(fault.argument);
    while (is(&fault, "deaf"))
        pause();
    fake->forget = is(&fault, "forget");
    if (!is(&fault, "fail"))
        return FAKE_ACT;
    *code = say(fake, fault.argument);
    return FAKE_REFUSE;
}

static void print_file(struct fake *fake, const char *name)
{
    HRF_AUTO_FREE char *path = hrf_path_join(fake->directory, name);
    HRF_AUTO_FREE char *text = NULL;
    size_t n;
    hrf_strbuf_clear(&fake->out);
    hrf_strbuf_clear(&fake->err);
    if (path != NULL && hrf_file_read(path, 1 << 30, &text, &n, NULL) == HRF_OK)
        hrf_strbuf_add(&fake->out, text, n);
}

void fake_faults_after(struct fake *fake, int *code)
{
    struct fault fault;
    if (!find(fake, &fault))
        return;
    if (is(&fault, "late"))
        wait_seconds(fault.argument);
    while (is(&fault, "hang"))
        pause();
    if (is(&fault, "die"))
        raise(SIGKILL);
    if (is(&fault, "lost"))
        *code = say(fake, fault.argument);
    if (is(&fault, "print")) {
        print_file(fake, fault.argument);
        *code = 0;
    }
    if (is(&fault, "banner")) {
        HRF_AUTO_FREE char *own = hrf_strdup(fake->out.text);
        hrf_strbuf_clear(&fake->out);
        hrf_strbuf_addf(&fake->out, "%s\n%s", fault.argument, own != NULL ? own : "");
    }
    if (is(&fault, "cut")) {
        const size_t cut = (size_t)strtoul(fault.argument, NULL, 10);
        fake->out.length -= cut < fake->out.length ? cut : fake->out.length;
    }
}
