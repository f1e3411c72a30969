/* known_machine.c - gathers measured costs and links of this machine, or those of a machine file
 * (known_machine.h). */
#include "engine/planning/known_machine.h"

#include "base/cache.h"
#include "base/host.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/text.h"
#include "engine/planning/machine_file.h"
#include "engine/run/cost_file.h"

#include <stdio.h>
#include <string.h>

/* A core of a server of the 2020s: products 100 GFLOPS in float32, messages through memory. */
static struct hrf_machine assume_machine(void)
{
    struct hrf_machine m = {
        .name = "this machine",
        .device = "cpu",
        .is_one_process = true,
        .ranks_per_node = hrf_process_cpu_count(),
        .ports_per_node = 1,
        .copy_rate = 4e9,
        .rates = { .operations = { 100e9, 50e9, 100e9, 300e9 }, .bytes = 8e9, .overhead = 2e-6 }
    };
    m.links[m.n_links++] = hrf_link_simple("loop", HRF_PLACEMENT_PROCESS, 10e-6, 2e9);
    return m;
}

static bool has_gpu_links(const struct hrf_machine *m)
{
    bool has = false;
    for (int32_t i = 0; i < m->n_links; i++)
        has |= m->links[i].is_gpus;
    return has;
}

static enum hrf_status find_machine(const struct hrf_known_request *request,
                                    struct hrf_known *known, struct hrf_error *err)
{
    HRF_AUTO_FREE char *tuned = NULL;
    if (request->cluster == NULL)
        HRF_TRY(hrf_known_machine_path(request->cache, &tuned, err));
    const char *path = request->cluster != NULL ? request->cluster : tuned;
    if (request->cluster == NULL && !hrf_path_exists(tuned)) {
        known->machine = assume_machine();
        known->is_assumed = true;
        snprintf(known->machine_source, sizeof known->machine_source,
                 "assumed; 'tune-comm' would measure it");
        return HRF_OK;
    }
    HRF_TRY(hrf_machine_read(path, &known->machine, err));
    snprintf(known->machine_source, sizeof known->machine_source, "%s", path);
    if (request->cluster != NULL)
        return HRF_OK;
    /* tune-comm measures messages and copies, not arithmetic. */
    const struct hrf_machine assumed = assume_machine();
    for (int r = 0; r < HRF_N_RATES; r++)
        known->machine.rates.operations[r] = assumed.rates.operations[r];
    known->machine.n_nodes = 0; /* the question may be about more ranks than there are processors */
    known->machine.has_gpus = request->device != NULL && strcmp(request->device, "cuda") == 0 &&
                              has_gpu_links(&known->machine);
    return HRF_OK;
}

/* Describes this machine as if it had a processor for every rank, and says so. */
static void make_room(const struct hrf_known_request *request, struct hrf_known *known)
{
    struct hrf_machine *m = &known->machine;
    if (request->cluster != NULL || request->n_ranks <= m->ranks_per_node)
        return;
    const size_t n = strlen(known->machine_source);
    snprintf(known->machine_source + n, sizeof known->machine_source - n,
             "; as if it had %d processors instead of %d", request->n_ranks, m->ranks_per_node);
    m->ranks_per_node = request->n_ranks;
}

/* For ranks that are processes: the links that tune-comm measured, or rough ones. */
static void make_processes(const struct hrf_known_request *request, struct hrf_known *known)
{
    struct hrf_machine *m = &known->machine;
    bool has[HRF_N_PLACEMENTS] = { false };
    if (request->cluster != NULL || request->per_node == 0)
        return;
    m->is_one_process = false;
    m->ranks_per_node = request->per_node;
    for (int32_t i = 0; i < m->n_links; i++)
        has[m->links[i].placement] |= m->links[i].is_gpus == m->has_gpus;
    const bool needs[HRF_N_PLACEMENTS] = { [HRF_PLACEMENT_NODE] = request->per_node > 1,
                                           [HRF_PLACEMENT_NETWORK] = request->n_ranks >
                                                                     request->per_node };
    static const double latency[] = { 0, 5e-6, 30e-6 }, bandwidth[] = { 0, 2e9, 1e9 };
    for (int p = HRF_PLACEMENT_NODE; p <= HRF_PLACEMENT_NETWORK; p++) {
        if (has[p] || !needs[p] || m->n_links == HRF_MACHINE_MAX_LINKS)
            continue;
        m->links[m->n_links++] = hrf_link_simple("mpi", (enum hrf_placement)p, latency[p],
                                                 bandwidth[p]);
        m->links[m->n_links - 1].is_gpus = m->has_gpus;
        known->is_assumed = true;
        const size_t n = strlen(known->machine_source);
        snprintf(known->machine_source + n, sizeof known->machine_source - n,
                 "; messages between processes (%s) assumed: 'tune-comm --comm mpi' under the "
                 "starter of ranks would measure them",
                 hrf_placement_name((enum hrf_placement)p));
    }
}

static enum hrf_status read_kept(const struct hrf_known_request *request, int32_t n_at_once,
                                 struct hrf_cost_table *table, char source[512],
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    HRF_TRY(hrf_cost_file_path(request->cache, request->device, request->n_threads, n_at_once,
                               &path, err));
    HRF_TRY(hrf_cost_file_read(path, table, err));
    if (table->n_entries > 0 && source != NULL)
        snprintf(source, 512, "%s", path);
    return HRF_OK;
}

static enum hrf_status find_costs(const struct hrf_known_request *request, struct hrf_known *known,
                                  struct hrf_error *err)
{
    const int32_t n_cores = hrf_process_cpu_count();
    const int32_t n_at_once = request->n_ranks < n_cores ? request->n_ranks : n_cores;
    known->costs.rates = known->single.rates = known->machine.rates;
    snprintf(known->cost_source, sizeof known->cost_source, "%s",
             request->cluster != NULL ? "estimated from the machine's rates"
                                      : "assumed; 'profile' of the network would measure them");
    if (request->costs != NULL) {
        snprintf(known->cost_source, sizeof known->cost_source, "%s", request->costs);
        if (!hrf_path_exists(request->costs))
            return hrf_error_set(err, HRF_E_USER, "%s: the file does not exist", request->costs);
        return hrf_cost_file_read(request->costs, &known->costs, err);
    }
    if (request->cluster != NULL)
        return HRF_OK;
    HRF_TRY(read_kept(request, n_at_once, &known->costs, known->cost_source, err));
    if (known->costs.n_entries == 0)
        HRF_TRY(read_kept(request, n_cores, &known->costs, known->cost_source, err));
    HRF_TRY(read_kept(request, 1, &known->single, NULL, err));
    if (known->costs.n_entries == 0 && known->single.n_entries > 0)
        HRF_TRY(read_kept(request, 1, &known->costs, known->cost_source, err));
    known->is_assumed |= known->costs.n_entries == 0;
    return HRF_OK;
}

enum hrf_status hrf_known_find(const struct hrf_known_request *request, struct hrf_known *out,
                               struct hrf_error *err)
{
    struct hrf_known known = { .is_assumed = false };
    enum hrf_status status = find_machine(request, &known, err);
    make_room(request, &known);
    make_processes(request, &known);
    if (status == HRF_OK)
        status = find_costs(request, &known, err);
    if (status == HRF_OK)
        *out = known;
    else
        hrf_known_release(&known);
    return status;
}

bool hrf_known_gpu_links(struct hrf_machine *out)
{
    HRF_AUTO_FREE char *path = NULL;
    return hrf_known_machine_path(NULL, &path, NULL) == HRF_OK && hrf_path_exists(path) &&
           hrf_machine_read(path, out, NULL) == HRF_OK && has_gpu_links(out);
}

void hrf_known_release(struct hrf_known *known)
{
    hrf_cost_table_release(&known->costs);
    hrf_cost_table_release(&known->single);
}

enum hrf_status hrf_known_machine_path(const char *cache, char **out, struct hrf_error *err)
{
    char host[256];
    HRF_AUTO_FREE char *directory = NULL;
    HRF_TRY(hrf_cache_folder(cache, "machines", &directory, err));
    hrf_process_host_name(host, sizeof host);
    HRF_AUTO_FREE char *name = hrf_text_file_name(host);
    char *path = hrf_format("%s/%s.json", directory, name);
    *out = path;
    return HRF_OK;
}
