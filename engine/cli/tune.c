/* tune.c - `hires-engine tune-comm`: what messages between ranks cost here, kept for planning. */
#include "engine/run/tune.h"

#include "base/path.h"
#include "base/process.h"
#include "engine/cli/cli.h"
#include "engine/cli/machine_file.h"

#include <stdio.h>
#include <unistd.h>

char *hrf_engine_machine_path(const char *cache)
{
    char host[256];
    HRF_AUTO_FREE char *directory = hrf_cache_directory(cache);
    hrf_process_host_name(host, sizeof host);
    HRF_AUTO_FREE char *name = hrf_text_file_name(host);
    return directory != NULL && name != NULL ? hrf_format("%s/machines/%s.json", directory, name)
                                             : NULL;
}

static enum hrf_status measure(int64_t largest_bytes, struct hrf_machine *m, struct hrf_error *err)
{
    char host[64];
    hrf_process_host_name(host, sizeof host);
    *m = (struct hrf_machine){ .is_one_process = true,
                               .ranks_per_node = hrf_process_cpu_count(),
                               .ports_per_node = 1,
                               .n_nodes = 1,
                               .device = "cpu" };
    snprintf(m->name, sizeof m->name, "%s", host);
    m->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / m->ranks_per_node;
    m->copy_rate = hrf_tune_copy_rate();
    m->rates.bytes = 2 * m->copy_rate;
    HRF_TRY(hrf_tune_loop(largest_bytes, &m->links[0], err));
    m->n_links = 1;
    return HRF_OK;
}

static void print_text(const struct hrf_machine *m, const char *path)
{
    printf("%s: %d ranks, copies %.1f GB/s\n", m->name, m->ranks_per_node, m->copy_rate * 1e-9);
    for (int32_t i = 0; i < m->n_links; i++) {
        const struct hrf_link *link = &m->links[i];
        printf("%s, same %s: microseconds of a message\n%12s %10s %10s %10s %10s\n", link->comm,
               hrf_placement_name(link->placement), "bytes", "send", "transit", "receive", "GB/s");
        for (int32_t k = 0; k < link->n_points; k++) {
            const struct hrf_link_point *p = &link->points[k];
            const double all = p->send + p->transit + p->receive;
            printf("%12.0f %10.2f %10.2f %10.2f %10.2f\n", p->bytes, p->send * 1e6,
                   p->transit * 1e6, p->receive * 1e6, p->bytes / all * 1e-9);
        }
    }
    printf("kept in %s\n", path);
}

static enum hrf_status keep(const struct hrf_machine *m, const char *cache, bool as_json,
                            struct hrf_error *err)
{
    HRF_AUTO_JSON json = hrf_machine_json(m);
    HRF_AUTO_FREE char *path = hrf_engine_machine_path(cache);
    HRF_AUTO_FREE char *directory = path != NULL ? hrf_path_directory(path) : NULL;
    HRF_AUTO_FREE char *text = json != NULL ? hrf_json_text(json) : NULL;
    if (directory == NULL || text == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the table");
    HRF_TRY(hrf_path_make_directories(directory, err));
    HRF_TRY(hrf_json_write_file(path, json, err));
    if (as_json)
        printf("%s\n", text);
    else
        print_text(m, path);
    return HRF_OK;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const char *cache = NULL;
    int64_t largest = (int64_t)16 << 20;
    bool json = false;
    const struct hrf_option options[] = {
        { "largest", "BYTES", "the largest message (default 16 MiB)", HRF_OPTION_INT, &largest },
        { "cache", "DIR", "where the table is kept (default: the user's cache)", HRF_OPTION_TEXT,
          &cache },
        { "json", NULL, "print the table as JSON: a machine file", HRF_OPTION_FLAG, &json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_machine machine;
    enum hrf_status status = HRF_OK;
    if (largest < 256 || largest > (int64_t)1 << 32)
        status = hrf_error_set(&err, HRF_E_USER, "--largest is from 256 bytes to 4 GiB");
    if (status == HRF_OK)
        status = measure(largest, &machine, &err);
    if (status == HRF_OK)
        status = keep(&machine, cache, json, &err);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}

const struct hrf_command hrf_engine_tune_comm = {
    .name = "tune-comm",
    .operands = "",
    .summary = "measure what messages between ranks cost on this machine",
    .details = "The table is kept in the cache, where 'plan' finds it.",
    .run = run,
};
