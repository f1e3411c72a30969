/* check.c - `hires-engine check`: whether a device computes what the cpu does, the same in every
 * layout of ranks, and how fast.
 *
 * Each row is a line as soon as it is there, so that a machine that ends the program leaves what
 * was found till then. A first start tunes every convolution, which takes its time: rows that would
 * begin after the time given are left out by name. */
#include "base/clock.h"
#include "engine/check/check_rows.h"
#include "engine/cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct hrf_check_part *const parts[] = { &hrf_check_rounding,  &hrf_check_agreement,
                                                      &hrf_check_gradients, &hrf_check_layouts,
                                                      &hrf_check_speed,     &hrf_check_networks,
                                                      &hrf_check_speed_more };
enum { N_PARTS = sizeof parts / sizeof parts[0], LEFT_OUT = 77 };

struct wanted {
    const char *device, *save, *only, *outputs, *networks, *make_outputs;
    bool quick, small, json, list, emulate;
    int64_t seconds; /* 0: as long as it takes */
};

/* "PART:NAME" of a row. */
static void name_of(const struct hrf_check_part *part, int row, char name[96])
{
    char own[64];
    part->name_row(row, own, sizeof own);
    snprintf(name, 96, "%s:%s", part->name, own);
}

/* True if `only` (NULL: everything) is the row, or its part. */
static bool is_wanted(const struct wanted *wanted, const struct hrf_check_part *part, int row,
                      const char *name)
{
    if (wanted->only != NULL)
        return strcmp(wanted->only, name) == 0 || strcmp(wanted->only, part->name) == 0;
    return !wanted->quick || row < part->n_quick;
}

static int for_every_row(const struct wanted *wanted,
                         void (*tell)(void *context, const struct hrf_check_part *part, int row,
                                      const char *name),
                         void *context)
{
    int n = 0;
    for (int p = 0; p < (int)N_PARTS; p++)
        for (int row = 0; row < parts[p]->n_rows; row++) {
            char name[96];
            name_of(parts[p], row, name);
            if (!is_wanted(wanted, parts[p], row, name))
                continue;
            n++;
            if (tell != NULL)
                tell(context, parts[p], row, name);
        }
    return n;
}

static void print_name(void *context, const struct hrf_check_part *part, int row, const char *name)
{
    (void)context, (void)part, (void)row;
    printf("%s\n", name);
}

struct checking {
    const struct wanted *wanted;
    struct hrf_check check;
    double start;
    json_t *all; /* what was found so far */
    bool good;
    int n_run; /* rows that were not left out */
};

static void run_row(void *context, const struct hrf_check_part *part, int row, const char *name)
{
    struct checking *c = context;
    const struct wanted *wanted = c->wanted;
    struct hrf_check_row out = { .good = false };
    if (wanted->seconds > 0 && hrf_clock_seconds() - c->start >= (double)wanted->seconds) {
        if (!wanted->json)
            printf("--    %s: skipped, the time is up\n", name);
        return;
    }
    part->run(&c->check, row, &out);
    c->good &= out.good || out.left_out;
    c->n_run += !out.left_out;
    if (!wanted->json)
        printf("%s %s\n", out.left_out ? "--   " : out.good ? "ok   " : "BAD  ", out.text);
    hrf_json_put_text(out.json, "row", name);
    hrf_json_put_bool(out.json, "good", out.good);
    hrf_json_add(json_object_get(c->all, part->name), out.json);
    hrf_json_put_bool(c->all, "good", c->good);
    struct hrf_error err = { .text = "" };
    if (wanted->save != NULL && hrf_json_write_file(wanted->save, c->all, &err) != HRF_OK)
        fprintf(stderr, "check: %s\n", err.text); /* it is tried again with the next row */
    fflush(stdout);
}

static enum hrf_status check_all(struct checking *c, struct hrf_error *err)
{
    const struct wanted *wanted = c->wanted;
    const struct hrf_backend_ops *ops = NULL;
    struct hrf_device_identity identity;
    char text[512] = "";
    HRF_TRY(hrf_backend_open(wanted->device, &ops, err));
    HRF_TRY(ops->identify(&identity, err));
    hrf_device_identity_text(&identity, text, sizeof text);
    if (!wanted->json)
        printf("%s: %s\n", wanted->device, text);
    c->check = (struct hrf_check){ wanted->device, identity.address, wanted->small, wanted->outputs,
                                   wanted->networks };
    c->all = json_object();
    hrf_json_put_int(c->all, "version", 1);
    hrf_json_put_text(c->all, "device", wanted->device);
    hrf_json_put_text(c->all, "device_in_words", text);
    hrf_json_put_bool(c->all, "good", true);
    hrf_json_put_bool(c->all, "complete", false);
    for (int p = 0; p < (int)N_PARTS; p++)
        hrf_json_put(c->all, parts[p]->name, json_array());
    for_every_row(wanted, run_row, c);
    hrf_json_put_bool(c->all, "complete", true); /* rows left out are said by name */
    if (wanted->json)
        hrf_json_print(c->all);
    return wanted->save != NULL ? hrf_json_write_file(wanted->save, c->all, err) : HRF_OK;
}

int hrf_engine_check(const struct hrf_command *command, int argc, char **argv)
{
    struct wanted wanted = { .device = "cuda" };
    const struct hrf_option options[] = {
        { "device", "D", "the device to check", HRF_OPTION(&wanted.device) },
        { "quick", NULL, "only small networks, and no speed measurements",
          HRF_OPTION(&wanted.quick) },
        { "list", NULL, "only print the names of the rows, PART:NAME", HRF_OPTION(&wanted.list) },
        { "only", "NAME", "only one part, or one row of it", HRF_OPTION(&wanted.only) },
        { "small", NULL, "run every step on small images, to try this program; measures nothing",
          HRF_OPTION(&wanted.small) },
        { "outputs", "DIR", "what the CPU gives for the networks of 'speed', to compare with",
          HRF_OPTION(&wanted.outputs) },
        { "networks", "DIR", "networks that are not built in, as DIR/NAME.onnx",
          HRF_OPTION(&wanted.networks) },
        { "make-outputs", "DIR", "only compute these on this CPU and write them to DIR",
          HRF_OPTION(&wanted.make_outputs) },
        { "emulate", NULL, "with --make-outputs: add what --device, an emulated GPU, gives",
          HRF_OPTION(&wanted.emulate) },
        { "json", NULL, "print JSON", HRF_OPTION(&wanted.json) },
        { "save", "FILE", "also write the JSON to FILE, again after every row",
          HRF_OPTION(&wanted.save) },
        { "seconds", "N", "start no further step after N seconds; 0: no limit",
          HRF_OPTION_NUMBER(&wanted.seconds, 0, HRF_UNBOUNDED) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    if (for_every_row(&wanted, wanted.list ? print_name : NULL, NULL) == 0) {
        (void)hrf_error_set(&err, HRF_E_USER, "no row is called '%s'; see --list", wanted.only);
        return hrf_engine_fail(command->name, &err);
    }
    if (wanted.list)
        return 0;
    const struct hrf_check making = { .device = wanted.emulate ? wanted.device : "cpu",
                                      .outputs = wanted.make_outputs,
                                      .networks = wanted.networks };
    if (wanted.make_outputs != NULL)
        return hrf_check_make_outputs(&making, &err) == HRF_OK
                   ? 0
                   : hrf_engine_fail(command->name, &err);
    struct checking checking = { .wanted = &wanted, .start = hrf_clock_seconds(), .good = true };
    const enum hrf_status status = check_all(&checking, &err);
    json_decref(checking.all);
    if (status != HRF_OK)
        return hrf_engine_fail(command->name, &err);
    if (checking.n_run == 0 && wanted.only != NULL)
        return LEFT_OUT;
    return checking.good ? 0 : 1;
}
