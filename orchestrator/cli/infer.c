/* infer.c - `hires-flow infer`: one slide or a folder of them scored without a workflow file. It
 * writes the file that would say the same, DIR/request.yaml, and runs that. */
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/sort.h"
#include "orchestrator/cli/cli.h"
#include "schema/yaml/tree.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char details[] =
    "The operand is a slide, or a folder of slides (svs, tif, tiff, ndpi, mrxs, scn, vms, vmu,\n"
    "bif, svslide). Running again on the same directory continues. The equivalent workflow file\n"
    "is written to DIR/request.yaml; --set sets any other key of it.";

struct request {
    const char *model, *out, *classes, *positive, *precision, *device;
    int64_t size, batch;
    double mpp, slide_mpp;
    struct hrf_option_list set;
    bool json;
};

static bool is_slide_name(const char *name)
{
    static const char *const known[] = { "svs", "tif", "tiff", "ndpi", "mrxs",
                                         "scn", "vms", "vmu",  "bif",  "svslide" };
    HRF_AUTO_FREE char *extension = hrf_path_extension(name);
    for (size_t i = 0; extension != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(extension, known[i]) == 0)
            return true;
    return false;
}

static void add_quoted(struct hrf_strbuf *yaml, const char *before, const char *text)
{
    HRF_AUTO_FREE char *quoted = hrf_yaml_quote(text);
    hrf_strbuf_addf(yaml, "%s%s\n", before, quoted != NULL ? quoted : "");
    yaml->failed |= quoted == NULL;
}

/* `list` is what the command line gave, "a, b": one item of a YAML list for each. */
static void add_list(struct hrf_strbuf *yaml, const char *key, const char *list)
{
    hrf_strbuf_addf(yaml, "%s:\n", key);
    for (const char *at = list;; at++) {
        at += strspn(at, " ");
        size_t n = strcspn(at, ",");
        const char *end = at + n;
        while (n > 0 && at[n - 1] == ' ')
            n--;
        HRF_AUTO_FREE char *item = hrf_strndup(at, n);
        yaml->failed |= item == NULL;
        if (item != NULL)
            add_quoted(yaml, "    - ", item);
        if (*(at = end) == '\0')
            return;
    }
}

/* The path as a glob pattern that matches only this path. */
static void add_file(struct hrf_strbuf *yaml, const char *path)
{
    struct hrf_strbuf pattern = HRF_STRBUF_INIT;
    for (const char *at = path; *at != '\0'; at++) {
        if (strchr("*?[]\\", *at) != NULL)
            hrf_strbuf_addc(&pattern, '\\');
        hrf_strbuf_addc(&pattern, *at);
    }
    add_quoted(yaml, "    - ", pattern.text);
    hrf_strbuf_release(&pattern);
}

static enum hrf_status list_folder(const char *folder, char ***names, size_t *n,
                                   struct hrf_error *err)
{
    enum { MOST = 1 << 20 };
    DIR *stream = opendir(folder);
    if (stream == NULL)
        return hrf_error_set(err, HRF_E_USER, "folder '%s' cannot be read", folder);
    enum hrf_status status = HRF_OK;
    for (struct dirent *entry; status == HRF_OK && (entry = readdir(stream)) != NULL;) {
        if (entry->d_name[0] == '.' || !is_slide_name(entry->d_name))
            continue;
        char **grown = hrf_realloc_array(*names, *n + 1, sizeof **names);
        if (grown != NULL)
            *names = grown;
        if (grown == NULL || (grown[*n] = hrf_strdup(entry->d_name)) == NULL || ++*n == MOST)
            status = hrf_error_set(err, HRF_E_NOMEM, "no memory for the slides of '%s'", folder);
    }
    closedir(stream);
    if (status == HRF_OK && *n == 0)
        status = hrf_error_set(err, HRF_E_USER, "folder '%s' contains no slide", folder);
    if (*n > 0)
        qsort(*names, *n, sizeof **names, hrf_compare_texts);
    return status;
}

static enum hrf_status add_files(struct hrf_strbuf *yaml, const char *operand,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE char *full = NULL;
    HRF_TRY(hrf_path_absolute(operand, &full, err));
    if (!hrf_path_exists(full))
        return hrf_error_set(err, HRF_E_USER, "'%s' does not exist", operand);
    if (!hrf_path_is_directory(full)) {
        add_file(yaml, full);
        return HRF_OK;
    }
    char **names = NULL;
    size_t n = 0;
    enum hrf_status status = list_folder(full, &names, &n, err);
    for (size_t i = 0; i < n; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(full, names[i]);
        if (status == HRF_OK && path != NULL)
            add_file(yaml, path);
        hrf_free(names[i]);
    }
    hrf_free(names);
    return status;
}

static enum hrf_status write_request(const struct request *r, const char *operand, const char *path,
                                     struct hrf_error *err)
{
    struct hrf_strbuf yaml = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *model = NULL;
    enum hrf_status status = hrf_path_absolute(r->model, &model, err);
    hrf_strbuf_adds(&yaml, "# Written by hires-flow infer.\nversion: 1\nname: infer\ndataset:\n"
                           "  layout: files\n  files:\n");
    if (status == HRF_OK)
        status = add_files(&yaml, operand, err);
    if (r->slide_mpp > 0)
        hrf_strbuf_addf(&yaml, "  mpp: %.9g\n", r->slide_mpp);
    hrf_strbuf_addf(&yaml, "tiler: {patch: {size: %lld, mpp: %.9g}}\n", (long long)r->size, r->mpp);
    add_list(&yaml, "precision", r->precision);
    hrf_strbuf_addf(&yaml, "engine:\n  batch: %lld\n", (long long)r->batch);
    add_quoted(&yaml, "  device: ", r->device);
    hrf_strbuf_adds(&yaml, "model:\n");
    add_list(&yaml, "  classes", r->classes);
    if (r->positive != NULL)
        add_quoted(&yaml, "  positive: ", r->positive);
    if (model != NULL)
        add_quoted(&yaml, "  file: ", model);
    if (status == HRF_OK)
        status = hrf_strbuf_status(&yaml, err);
    if (status == HRF_OK)
        status = hrf_file_write_atomic(path, yaml.text, yaml.length, err);
    hrf_strbuf_release(&yaml);
    return status;
}

/* Calls `run` with the file, the directory and the options that were given. */
static int hand_over(const struct request *r, const char *path)
{
    const char *argv[2 * HRF_OPTION_LIST_MAX + 8];
    int argc = 0;
    argv[argc++] = path;
    argv[argc++] = "--out";
    argv[argc++] = r->out;
    if (r->json)
        argv[argc++] = "--json";
    for (size_t i = 0; i < r->set.n_items; i++) {
        argv[argc++] = "--set";
        argv[argc++] = r->set.items[i];
    }
    return hrf_cli_run.run(&hrf_cli_run, argc, (char **)(uintptr_t)argv);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .out = "runs/infer",
                         .classes = "normal, tumor",
                         .precision = "fp32",
                         .device = "auto",
                         .size = 256,
                         .batch = 32,
                         .mpp = 0.5 };
    const struct hrf_option options[] = {
        { "model", "FILE.onnx", "the model; required", HRF_OPTION_TEXT, &r.model },
        { "out", "DIR", "run directory (default runs/infer)", HRF_OPTION_TEXT, &r.out },
        { "classes", "A,B,...", "class names, one for each output (default normal,tumor)",
          HRF_OPTION_TEXT, &r.classes },
        { "positive", "CLASS", "the class that makes a slide positive (default: the last)",
          HRF_OPTION_TEXT, &r.positive },
        { "size", "PX", "patch size (default 256)", HRF_OPTION_INT, &r.size },
        { "mpp", "UM", "resolution of patches in um/px (default 0.5)", HRF_OPTION_REAL, &r.mpp },
        { "slide-mpp", "UM", "resolution of slides that state none", HRF_OPTION_REAL,
          &r.slide_mpp },
        { "precision", "P,...", "one or more of fp32, tf32, fp16, bf16, int8 (default fp32)",
          HRF_OPTION_TEXT, &r.precision },
        { "device", "D", "auto, cpu or cuda (default auto)", HRF_OPTION_TEXT, &r.device },
        { "batch", "N", "patches in a batch (default 32)", HRF_OPTION_INT, &r.batch },
        { "set", "KEY=VALUE", "set any other key of the workflow; may be repeated", HRF_OPTION_LIST,
          &r.set },
        { "json", NULL, "print the summary as JSON", HRF_OPTION_FLAG, &r.json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    if (r.model == NULL) {
        fprintf(stderr, "%s infer: name the model with --model FILE.onnx\n", HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *path = hrf_path_join(r.out, "request.yaml");
    if (path == NULL)
        return HRF_EXIT_FAILED;
    if (hrf_path_make_directories(r.out, &err) != HRF_OK ||
        write_request(&r, args.operands[0], path, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    return hand_over(&r, path);
}

const struct hrf_command hrf_cli_infer = {
    .name = "infer",
    .operands = "SLIDE|FOLDER",
    .summary = "score one slide or a folder of them, without a workflow file",
    .details = details,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
