/* machine.c - link tables: interpolation and the choice of the fastest link (machine.h). */
#include "engine/plan/machine.h"

#include <stdio.h>
#include <string.h>

static const char *const placement_names[] = { "process", "node", "network" };
_Static_assert(sizeof placement_names / sizeof placement_names[0] == HRF_N_PLACEMENTS,
               "a name for every placement");

const char *hrf_placement_name(enum hrf_placement placement)
{
    return placement_names[placement];
}

struct hrf_link_point hrf_link_at(const struct hrf_link *link, double n_bytes)
{
    int32_t i = 0;
    while (i + 2 < link->n_points && link->points[i + 1].bytes < n_bytes)
        i++;
    const struct hrf_link_point *a = &link->points[i];
    if (link->n_points == 1 || n_bytes <= link->points[0].bytes)
        return (struct hrf_link_point){ n_bytes, link->points[0].send, link->points[0].transit,
                                        link->points[0].receive };
    const double t = (n_bytes - a->bytes) / (a[1].bytes - a->bytes);
    struct hrf_link_point p = { .bytes = n_bytes,
                                .send = a->send + t * (a[1].send - a->send),
                                .transit = a->transit + t * (a[1].transit - a->transit),
                                .receive = a->receive + t * (a[1].receive - a->receive) };
    p.send = p.send > 0 ? p.send : 0; /* a noisy table may fall at its end */
    p.transit = p.transit > 0 ? p.transit : 0;
    p.receive = p.receive > 0 ? p.receive : 0;
    return p;
}

struct hrf_link hrf_link_simple(const char *comm, enum hrf_placement placement, double latency,
                                double bandwidth)
{
    const double n_bytes = 1e9;
    struct hrf_link link = { .placement = placement, .n_points = 2 };
    snprintf(link.comm, sizeof link.comm, "%s", comm);
    link.points[0] = (struct hrf_link_point){ .bytes = 0, .transit = latency };
    link.points[1] = (struct hrf_link_point){ .bytes = n_bytes,
                                              .transit = latency + n_bytes / bandwidth };
    return link;
}

enum hrf_placement hrf_machine_placement(const struct hrf_machine *machine, int32_t a, int32_t b)
{
    if (a / machine->ranks_per_node != b / machine->ranks_per_node)
        return HRF_PLACEMENT_NETWORK;
    return machine->is_one_process ? HRF_PLACEMENT_PROCESS : HRF_PLACEMENT_NODE;
}

const struct hrf_link *hrf_machine_link(const struct hrf_machine *machine,
                                        enum hrf_placement placement, double n_bytes)
{
    const struct hrf_link *best = NULL;
    double soonest = 0;
    for (int32_t i = 0; i < machine->n_links; i++) {
        const struct hrf_link *link = &machine->links[i];
        const struct hrf_link_point p = hrf_link_at(link, n_bytes);
        const double seconds = p.send + p.transit + p.receive;
        if (link->is_gpus != machine->has_gpus || link->placement != placement ||
            (best != NULL && seconds >= soonest))
            continue;
        best = link;
        soonest = seconds;
    }
    if (best == NULL && placement == HRF_PLACEMENT_PROCESS)
        return hrf_machine_link(machine, HRF_PLACEMENT_NODE, n_bytes);
    return best;
}

int hrf_machine_transport(const struct hrf_machine *machine, enum hrf_placement placement,
                          double n_bytes, const char *const *names, int n_names)
{
    int best = -1;
    double soonest = 0;
    for (int32_t i = 0; i < machine->n_links; i++) {
        const struct hrf_link *link = &machine->links[i];
        const struct hrf_link_point p = hrf_link_at(link, n_bytes);
        const double seconds = p.send + p.transit + p.receive;
        int k = 0;
        while (k < n_names && (names[k] == NULL || strcmp(names[k], link->comm) != 0))
            k++;
        if (!link->is_gpus || link->placement != placement || k == n_names ||
            (best >= 0 && seconds >= soonest))
            continue;
        best = k;
        soonest = seconds;
    }
    if (best < 0 && placement == HRF_PLACEMENT_PROCESS)
        return hrf_machine_transport(machine, HRF_PLACEMENT_NODE, n_bytes, names, n_names);
    return best;
}
