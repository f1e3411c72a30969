/* calibrate.c - `hires-flow calibrate`: makes a workflow's calibration, and keeps the store of
 * them. */
#include "base/cache.h"
#include "base/json.h"
#include "base/path.h"
#include "calibrate/fit/budget.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/run/run.h"
#include "schema/store/calibrations.h"

#include <stdio.h>
#include <string.h>

static const char details[] =
    "calibrate FILE.yaml tiles the slides, runs a sample of patches in float32 and stores the "
    "INT8\n"
    "ranges in a database that all runs share. A run with the same model, preprocessing, sample\n"
    "and method uses them. The options --list, --show, --import and --drop manage that database.";

struct request {
    const char *out, *show, *drop, *export_to, *import_from, *cache;
    struct hrf_option_list set;
    bool list, json;
};

static void print_tensors(const struct hrf_calibration *c)
{
    hrf_cli_printf(
        "key      %s\nmethod   %s, %lld patches, %.1f s, %s\nmodel    %.16s...\nsample   "
        "%.16s...\n",
        c->key, c->method, (long long)c->n_samples, c->seconds, c->created, c->graph, c->sample);
    hrf_cli_printf("%12s %12s %8s %-10s %8s tensor\n", "low", "high", "SQNR dB", "method",
                   "smoothed");
    for (size_t i = 0; i < c->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &c->tensors[i];
        char strength[16] = "-";
        if (t->strength > 0)
            snprintf(strength, sizeof strength, "%.2f", (double)t->strength);
        hrf_cli_printf("%12.5g %12.5g %8.1f %-10s %8s %s\n", (double)t->low, (double)t->high,
                       t->sqnr_db, t->method, strength, t->name);
    }
    for (size_t i = 0; i < c->n_keep; i++)
        hrf_cli_printf("kept in %s: %s (%s)\n",
                       c->keep[i].precision == HRF_BF16 ? "bfloat16" : "float32", c->keep[i].name,
                       c->keep[i].reason);
    HRF_AUTO_FREE char *words = hrf_fit_budget_text(c);
    if (words != NULL && words[0] != '\0')
        hrf_cli_printf("%s\n", words);
    HRF_AUTO_FREE char *lost = hrf_fit_loss_text(c);
    if (lost != NULL && lost[0] != '\0')
        hrf_cli_printf("%s\n", lost);
}

/* Reads the calibration of a key that is listed. */
static enum hrf_status get(struct hrf_calibrations *store, const char *key,
                           struct hrf_calibration **out, struct hrf_error *err)
{
    HRF_TRY(hrf_calibrations_get(store, key, out, err));
    return *out != NULL ? HRF_OK
                        : hrf_error_set(err, HRF_E_EXTERNAL,
                                        "calibration %.12s is no longer in the database", key);
}

static enum hrf_status calibrate_list(struct hrf_calibrations *store, bool json,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE char **keys = NULL;
    size_t n = 0, n_bad = 0;
    HRF_TRY(hrf_calibrations_keys(store, &keys, &n, err));
    HRF_AUTO_JSON all = json_array();
    for (size_t i = 0; i < n; i++) {
        HRF_AUTO(hrf_calibration) c = NULL;
        struct hrf_error why = { .status = HRF_OK };
        const bool good = get(store, keys[i], &c, &why) == HRF_OK;
        n_bad += !good;
        if (json && good) {
            json_t *entry = json_object();
            hrf_json_put_text(entry, "key", c->key);
            hrf_json_put_text(entry, "method", c->method);
            hrf_json_put_int(entry, "samples", c->n_samples);
            hrf_json_put_int(entry, "tensors", (int64_t)c->n_tensors);
            hrf_json_put_text(entry, "created", c->created);
            hrf_json_add(all, entry);
        } else if (good)
            hrf_cli_printf("%s  %-10s %6lld patches  %4zu tensors  %s\n", c->key, c->method,
                           (long long)c->n_samples, c->n_tensors, c->created);
        else
            fprintf(stderr, "%s\n", why.text);
        hrf_free(keys[i]);
    }
    if (n == 0 && !json)
        fprintf(stderr, "no calibration is stored yet; 'hires-flow calibrate FILE.yaml' makes one\n"
                        "");
    if (json)
        hrf_json_print(all);
    return n_bad == 0 ? HRF_OK
                      : hrf_error_set(err, HRF_E_EXTERNAL,
                                      "%zu of %zu calibrations cannot be read; --drop KEY removes "
                                      "one, and a run makes it anew",
                                      n_bad, n);
}

/* Finds the only key that begins with `prefix`; *out is heap. */
static enum hrf_status find_key(struct hrf_calibrations *store, const char *prefix, char **out,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char **keys = NULL;
    size_t n = 0, n_found = 0;
    HRF_TRY(hrf_calibrations_keys(store, &keys, &n, err));
    *out = NULL;
    for (size_t i = 0; i < n; i++) {
        const bool fits = strncmp(keys[i], prefix, strlen(prefix)) == 0;
        n_found += fits;
        if (fits && *out == NULL)
            *out = keys[i];
        else
            hrf_free(keys[i]);
    }
    if (n_found == 1)
        return HRF_OK;
    hrf_free(*out);
    return hrf_error_set(err, HRF_E_USER, "%s calibration begins with '%s'; see --list",
                         n_found == 0 ? "no" : "more than one", prefix);
}

static enum hrf_status print_calibrations(struct hrf_calibrations *store, const char *prefix,
                                          const char *to, bool json, struct hrf_error *err)
{
    HRF_AUTO_FREE char *key = NULL, *text = NULL;
    HRF_AUTO(hrf_calibration) c = NULL;
    HRF_TRY(find_key(store, prefix, &key, err));
    HRF_TRY(get(store, key, &c, err));
    if (to != NULL)
        return hrf_calibration_write(c, to, err);
    if (!json) {
        print_tensors(c);
        return HRF_OK;
    }
    HRF_TRY(hrf_calibration_encode(c, &text, err));
    puts(text);
    return HRF_OK;
}

static enum hrf_status drop(struct hrf_calibrations *store, const char *prefix,
                            struct hrf_error *err)
{
    HRF_AUTO_FREE char *key = NULL;
    bool found;
    HRF_TRY(find_key(store, prefix, &key, err));
    HRF_TRY(hrf_calibrations_drop(store, key, &found, err));
    hrf_cli_printf("dropped %s\n", key);
    return HRF_OK;
}

static enum hrf_status import(struct hrf_calibrations *store, const char *from,
                              struct hrf_error *err)
{
    HRF_AUTO(hrf_calibration) c = NULL;
    HRF_TRY(hrf_calibration_read(from, &c, err));
    HRF_TRY(hrf_calibrations_put(store, c, err));
    hrf_cli_printf("kept %s\n", c->key);
    return HRF_OK;
}

static enum hrf_status manage(const struct request *r, struct hrf_error *err)
{
    HRF_AUTO_FREE char *cache = hrf_cache_directory(r->cache);
    HRF_AUTO(hrf_calibrations) store = NULL;
    HRF_TRY(hrf_calibrations_open(cache, &store, err));
    if (hrf_calibrations_put_aside(store) != NULL)
        fprintf(
            stderr,
            "the database of calibrations was damaged; it was renamed to '%s', and a new one is "
            "begun\n",
            hrf_calibrations_put_aside(store));
    if (r->list)
        return calibrate_list(store, r->json, err);
    if (r->drop != NULL)
        return drop(store, r->drop, err);
    if (r->import_from != NULL)
        return import(store, r->import_from, err);
    return print_calibrations(store, r->show, r->export_to, r->json, err);
}

static enum hrf_status calibrate_make(const struct request *r, const char *file,
                                      struct hrf_error *err)
{
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_FREE char *standard = NULL;
    struct hrf_run_summary summary;
    struct hrf_option_list set = r->set;
    set.items[set.n_items++] = "precision=[fp32, int8]";
    HRF_TRY(hrf_cli_load(file, &set, &workflow, err));
    /* Relative to the working directory, as for the options that manage it. */
    if (r->cache != NULL) {
        hrf_free(workflow->cache);
        workflow->cache = NULL;
        HRF_TRY(hrf_path_absolute(r->cache, &workflow->cache, err));
    }
    HRF_TRY(hrf_cli_check_model(workflow, false, err));
    const char *directory = r->out;
    if (directory == NULL)
        directory = standard = hrf_cli_default_directory(workflow);
    hrf_run_catch_signals();
    const struct hrf_run_options options = { .calibrate_only = true };
    HRF_TRY(hrf_run(workflow, directory, &options, &summary, err));
    if (summary.end != HRF_RUN_DONE)
        return hrf_error_set(err, HRF_E_AGAIN,
                             "interrupted; run the same command again to continue");
    if (r->json) {
        HRF_AUTO_JSON answer = hrf_json_document();
        hrf_json_put_bool(answer, "cached", summary.calibration_cached);
        hrf_json_put_text(answer, "key", summary.calibration);
        hrf_json_print(answer);
    } else {
        hrf_cli_printf("%s %s\n",
                       summary.calibration_cached ? "found in the cache:" : "calibrated:",
                       summary.calibration);
    }
    return HRF_OK;
}

static int calibrate_main(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .out = NULL };
    const struct hrf_option options[] = {
        { "out", "DIR", "run directory (default as for run)", HRF_OPTION(&r.out) },
        { "set", "KEY=VALUE", "override a key, e.g. calibrate.method=entropy; may be repeated",
          HRF_OPTION(&r.set) },
        { "list", NULL, "list the stored calibrations", HRF_OPTION(&r.list) },
        { "show", "KEY", "show one; the first digits of its key are enough", HRF_OPTION(&r.show) },
        { "export", "FILE", "with --show: write the calibration to a file",
          HRF_OPTION(&r.export_to) },
        { "import", "FILE", "read a calibration from a file", HRF_OPTION(&r.import_from) },
        { "drop", "KEY", "delete one", HRF_OPTION(&r.drop) },
        { "cache", "DIR", "folder of the database (default: the workflow's 'cache', or the user's)",
          HRF_OPTION(&r.cache) },
        { "json", NULL, "print JSON", HRF_OPTION(&r.json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    const bool manages = r.list || r.show != NULL || r.drop != NULL || r.import_from != NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (manages == (args.n_operands == 1)) {
        fprintf(stderr,
                "%s calibrate: name a workflow file, or one of --list, --show, --drop, "
                "--import\n",
                HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    enum hrf_status status = manages ? manage(&r, &err)
                                     : calibrate_make(&r, args.operands[0], &err);
    return status == HRF_OK ? 0 : hrf_cli_fail(command->name, &err);
}

const struct hrf_command hrf_cli_calibrate = {
    .name = "calibrate",
    .operands = "[FILE.yaml]",
    .summary = "make a workflow's INT8 calibration, or manage stored calibrations",
    .details = details,
    .min_operands = 0,
    .max_operands = 1,
    .run = calibrate_main,
};
