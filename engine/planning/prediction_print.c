/* prediction_print.c - prints predictions as text and as JSON (prediction_print.h). */
#include "engine/planning/prediction_print.h"

#include "engine/planning/machine_file.h"

double hrf_outlook_efficiency(const struct hrf_outlook *o)
{
    return o->single_seconds / o->prediction->seconds / o->prediction->n_ranks;
}

static double images_per_second(const struct hrf_outlook *o)
{
    return (double)o->prediction->n_images / o->prediction->seconds;
}

static void print_part(const struct hrf_predicted_rank *r, FILE *out)
{
    char part[96] = "-";
    const struct hrf_box *b = &r->input;
    if (!hrf_box_is_empty(b))
        snprintf(part, sizeof part, "%lld..%lld x %lld..%lld", (long long)b->lo[0],
                 (long long)b->hi[0], (long long)b->lo[1], (long long)b->hi[1]);
    fprintf(out, "%-24s", part);
}

static void print_nodes(const struct hrf_outlook *o, const struct hrf_predicted_rank *r, FILE *out)
{
    if (r->first_node < 0)
        fprintf(out, "  nothing\n");
    else
        fprintf(out, "  %s to %s\n", o->graph->nodes[r->first_node].name,
                o->graph->nodes[r->last_node].name);
}

void hrf_outlook_print_ranks(const struct hrf_outlook *o, FILE *out)
{
    const struct hrf_predicted_halos *h = &o->prediction->halos;
    if (h->n_exchanges > 0)
        fprintf(out,
                "exchanges %d halo exchanges, %d of them while the interior is computed; %d "
                "tensors computed on wider parts (fused halos)\n",
                h->n_exchanges, h->n_overlapped, h->n_fused);
    fprintf(out, "%5s %5s  %-24s %8s %8s %8s %8s %8s %8s %9s %6s  %s\n", "rank", "stage",
            "is fed rows x columns", "GiB", "weights", "compute", "copy", "messages", "wait",
            "sends MB", "in", "computes");
    for (int32_t r = 0; r < o->prediction->n_ranks; r++) {
        const struct hrf_predicted_rank *p = &o->prediction->ranks[r];
        const struct hrf_sim_rank *s = &o->prediction->simulation->ranks[r];
        fprintf(out, "%5d %5d  ", r, p->stage);
        print_part(p, out);
        fprintf(out, " %8.3f %8.3f %6.1f ms %5.1f ms %5.1f ms %5.1f ms %9.2f %6lld",
                (double)(p->activation_bytes + p->weight_bytes + p->workspace_bytes) / 0x1p30,
                (double)p->weight_bytes / 0x1p30, s->seconds[HRF_SIM_COMPUTE] * 1e3,
                s->seconds[HRF_SIM_COPY] * 1e3,
                (s->seconds[HRF_SIM_SEND] + s->seconds[HRF_SIM_RECEIVE]) * 1e3,
                s->seconds[HRF_SIM_WAIT] * 1e3, (double)s->sent_bytes * 1e-6, (long long)s->n_sent);
        print_nodes(o, p, out);
    }
}

void hrf_outlook_print_head(FILE *out)
{
    fprintf(out, "%5s  %-44s %10s %10s %8s %10s %10s\n", "ranks", "layout", "ms a batch",
            "images/s", "speed-up", "efficiency", "GiB a rank");
}

static void print_bands(const struct hrf_outlook *o, FILE *out)
{
    char layout[128];
    const struct hrf_bands_prediction *b = o->bands;
    hrf_bands_text(&b->plan, layout);
    fprintf(out, "%5d  %-44s %10.2f %10.3g %8.2f %8.0f %% %10.3f\n", 1, layout, b->seconds * 1e3,
            (double)o->prediction->n_images / b->seconds, o->single_seconds / b->seconds,
            100 * o->single_seconds / b->seconds,
            (double)hrf_bands_memory_total(&b->memory) / 0x1p30);
}

void hrf_outlook_print_line(const struct hrf_outlook *o, FILE *out)
{
    char layout[128];
    const struct hrf_prediction *p = o->prediction;
    hrf_layout_text(&p->layout, layout);
    fprintf(out, "%5d  %-44s %10.2f %10.3g %8.2f %8.0f %% %10.3f%s\n", p->n_ranks, layout,
            p->seconds * 1e3, images_per_second(o), o->single_seconds / p->seconds,
            100 * hrf_outlook_efficiency(o), (double)hrf_prediction_peak_bytes(p) / 0x1p30,
            o->fits ? "" : "  does not fit");
    if (o->bands != NULL)
        print_bands(o, out);
    else if (o->bands_refusal != NULL)
        fprintf(out, "       nor in bands: %s\n", o->bands_refusal);
}

static json_t *rank_json(const struct hrf_outlook *o, int32_t r)
{
    const struct hrf_predicted_rank *p = &o->prediction->ranks[r];
    const struct hrf_sim_rank *s = &o->prediction->simulation->ranks[r];
    const struct hrf_box *b = &p->input;
    json_t *json = json_pack(
        "{siss?ss?s[II]s[II]sIsIsIsIsI}", "stage", p->stage, "first_node",
        p->first_node >= 0 ? o->graph->nodes[p->first_node].name : NULL, "last_node",
        p->last_node >= 0 ? o->graph->nodes[p->last_node].name : NULL, "rows", (json_int_t)b->lo[0],
        (json_int_t)b->hi[0], "columns", (json_int_t)b->lo[1], (json_int_t)b->hi[1],
        "activation_bytes", (json_int_t)p->activation_bytes, "weight_bytes",
        (json_int_t)p->weight_bytes, "workspace_bytes", (json_int_t)p->workspace_bytes,
        "sent_bytes", (json_int_t)s->sent_bytes, "messages", (json_int_t)s->n_sent);
    for (int k = 0; k < HRF_SIM_N_KINDS && json != NULL; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s_seconds", hrf_sim_kind_name((enum hrf_sim_kind)k));
        json_object_set_new(json, key, hrf_json_number(s->seconds[k]));
    }
    return json;
}

static json_t *origins_json(const struct hrf_prediction *p)
{
    const double all = p->computing[HRF_COST_MEASURED] + p->computing[HRF_COST_SCALED] +
                       p->computing[HRF_COST_MODELLED];
    return json_pack("{sososo}", "measured", hrf_json_number(p->computing[HRF_COST_MEASURED] / all),
                     "scaled", hrf_json_number(p->computing[HRF_COST_SCALED] / all), "modelled",
                     hrf_json_number(p->computing[HRF_COST_MODELLED] / all));
}

static json_t *bands_json(const struct hrf_outlook *o)
{
    const struct hrf_bands_prediction *b = o->bands;
    return json_pack(
        "{sisssIsosososssIsIsIsI}", "bands", b->plan.n_bands, "rows",
        b->plan.keeps ? "kept" : "recomputed", "kept_bytes", (json_int_t)b->plan.line_cache_bytes,
        "recomputed", hrf_json_number(b->plan.recomputed), "seconds", hrf_json_number(b->seconds),
        "images_per_second", hrf_json_number((double)o->prediction->n_images / b->seconds),
        "first_node_whole", o->graph->nodes[b->plan.cut].name, "peak_memory_bytes",
        (json_int_t)hrf_bands_memory_total(&b->memory), "activation_bytes",
        (json_int_t)b->memory.activation_bytes, "weight_bytes", (json_int_t)b->memory.weight_bytes,
        "workspace_bytes", (json_int_t)b->memory.workspace_bytes);
}

json_t *hrf_outlook_json(const struct hrf_outlook *o, bool with_ranks)
{
    char layout[128];
    const struct hrf_prediction *p = o->prediction;
    hrf_layout_text(&p->layout, layout);
    json_t *json = json_pack(
        "{sisssososososIsbsoso}", "ranks", p->n_ranks, "layout", layout, "seconds",
        hrf_json_number(p->seconds), "images_per_second", hrf_json_number(images_per_second(o)),
        "speedup", hrf_json_number(o->single_seconds / p->seconds), "efficiency",
        hrf_json_number(hrf_outlook_efficiency(o)), "peak_memory_bytes",
        (json_int_t)hrf_prediction_peak_bytes(p), "fits", (int)o->fits, "tops",
        hrf_json_number(o->operations / p->seconds * 1e-12), "cost_origins", origins_json(p));
    const struct hrf_predicted_halos *h = &p->halos;
    if (json != NULL)
        json_object_set_new(json, "halos",
                            json_pack("{sisisi}", "exchanges", h->n_exchanges, "overlapped",
                                      h->n_overlapped, "fused_values", h->n_fused));
    if (json != NULL && o->bands != NULL)
        json_object_set_new(json, "in_bands", bands_json(o));
    else if (json != NULL && o->bands_refusal != NULL)
        json_object_set_new(json, "in_bands_error", json_string(o->bands_refusal));
    if (!with_ranks || json == NULL)
        return json;
    json_t *ranks = json_array();
    for (int32_t r = 0; r < p->n_ranks; r++)
        json_array_append_new(ranks, rank_json(o, r));
    json_object_set_new(json, "per_rank", ranks);
    return json;
}

void hrf_known_print(const struct hrf_known *known, FILE *out)
{
    const struct hrf_machine *m = &known->machine;
    fprintf(out, "machine   %s: %d ranks on each node (%s)\n", m->name, m->ranks_per_node,
            known->machine_source);
    fprintf(out, "costs     %s\n", known->cost_source);
    fprintf(out, "rates    ");
    for (int r = 0; r < HRF_N_RATES; r++)
        if (known->costs.rates.operations[r] > 0)
            fprintf(out, " %s %.4g TOPS,", hrf_rate_name((enum hrf_rate)r),
                    known->costs.rates.operations[r] * 1e-12);
    fprintf(out, " memory %.4g GB/s, a kernel %.3g us\n", known->costs.rates.bytes * 1e-9,
            known->costs.rates.overhead * 1e6);
    for (int32_t i = 0; i < m->n_links; i++) {
        const struct hrf_link_point small = hrf_link_at(&m->links[i], 0);
        const struct hrf_link_point large = hrf_link_at(&m->links[i], 1 << 20);
        const double least = small.send + small.transit + small.receive;
        const double most = large.send + large.transit + large.receive;
        fprintf(out, "link      %s, same %s: %.1f us, then %.1f GB/s\n", m->links[i].comm,
                hrf_placement_name(m->links[i].placement), least * 1e6,
                (1 << 20) / (most - least) * 1e-9);
    }
}

json_t *hrf_known_json(const struct hrf_known *known)
{
    return json_pack("{sosbssss}", "machine", hrf_machine_json(&known->machine), "assumed",
                     (int)known->is_assumed, "machine_source", known->machine_source, "cost_source",
                     known->cost_source);
}
