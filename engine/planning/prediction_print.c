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
    json_t *json = json_object();
    hrf_json_put_int(json, "stage", p->stage);
    hrf_json_put_text(json, "first_node",
                      p->first_node >= 0 ? o->graph->nodes[p->first_node].name : NULL);
    hrf_json_put_text(json, "last_node",
                      p->last_node >= 0 ? o->graph->nodes[p->last_node].name : NULL);
    hrf_json_put(json, "rows", hrf_json_ints((const int64_t[]){ b->lo[0], b->hi[0] }, 2));
    hrf_json_put(json, "columns", hrf_json_ints((const int64_t[]){ b->lo[1], b->hi[1] }, 2));
    hrf_json_put_int(json, "activation_bytes", p->activation_bytes);
    hrf_json_put_int(json, "weight_bytes", p->weight_bytes);
    hrf_json_put_int(json, "workspace_bytes", p->workspace_bytes);
    hrf_json_put_int(json, "sent_bytes", s->sent_bytes);
    hrf_json_put_int(json, "messages", s->n_sent);
    for (int k = 0; k < HRF_SIM_N_KINDS; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s_seconds", hrf_sim_kind_name((enum hrf_sim_kind)k));
        hrf_json_put_number(json, key, s->seconds[k]);
    }
    return json;
}

static json_t *origins_json(const struct hrf_prediction *p)
{
    const double all = p->computing[HRF_COST_MEASURED] + p->computing[HRF_COST_SCALED] +
                       p->computing[HRF_COST_MODELLED];
    json_t *object = json_object();
    hrf_json_put_number(object, "measured", p->computing[HRF_COST_MEASURED] / all);
    hrf_json_put_number(object, "scaled", p->computing[HRF_COST_SCALED] / all);
    hrf_json_put_number(object, "modelled", p->computing[HRF_COST_MODELLED] / all);
    return object;
}

static json_t *bands_json(const struct hrf_outlook *o)
{
    const struct hrf_bands_prediction *b = o->bands;
    json_t *object = json_object();
    hrf_json_put_int(object, "bands", b->plan.n_bands);
    hrf_json_put_text(object, "rows", b->plan.keeps ? "kept" : "recomputed");
    hrf_json_put_int(object, "kept_bytes", b->plan.line_cache_bytes);
    hrf_json_put_number(object, "recomputed", b->plan.recomputed);
    hrf_json_put_number(object, "seconds", b->seconds);
    hrf_json_put_number(object, "images_per_second", (double)o->prediction->n_images / b->seconds);
    hrf_json_put_text(object, "first_node_whole", o->graph->nodes[b->plan.cut].name);
    hrf_json_put_int(object, "peak_memory_bytes", hrf_bands_memory_total(&b->memory));
    hrf_json_put_int(object, "activation_bytes", b->memory.activation_bytes);
    hrf_json_put_int(object, "weight_bytes", b->memory.weight_bytes);
    hrf_json_put_int(object, "workspace_bytes", b->memory.workspace_bytes);
    return object;
}

json_t *hrf_outlook_json(const struct hrf_outlook *o, bool with_ranks)
{
    char layout[128];
    const struct hrf_prediction *p = o->prediction;
    hrf_layout_text(&p->layout, layout);
    json_t *json = json_object();
    hrf_json_put_int(json, "ranks", p->n_ranks);
    hrf_json_put_text(json, "layout", layout);
    hrf_json_put_number(json, "seconds", p->seconds);
    hrf_json_put_number(json, "images_per_second", images_per_second(o));
    hrf_json_put_number(json, "speedup", o->single_seconds / p->seconds);
    hrf_json_put_number(json, "efficiency", hrf_outlook_efficiency(o));
    hrf_json_put_int(json, "peak_memory_bytes", hrf_prediction_peak_bytes(p));
    hrf_json_put_bool(json, "fits", o->fits);
    hrf_json_put_number(json, "tops", o->operations / p->seconds * 1e-12);
    hrf_json_put(json, "cost_origins", origins_json(p));
    const struct hrf_predicted_halos *h = &p->halos;
    json_t *halos = json_object();
    hrf_json_put_int(halos, "exchanges", h->n_exchanges);
    hrf_json_put_int(halos, "overlapped", h->n_overlapped);
    hrf_json_put_int(halos, "fused_values", h->n_fused);
    hrf_json_put(json, "halos", halos);
    if (o->bands != NULL)
        hrf_json_put(json, "in_bands", bands_json(o));
    else if (o->bands_refusal != NULL)
        hrf_json_put_text(json, "in_bands_error", o->bands_refusal);
    if (!with_ranks)
        return json;
    json_t *ranks = json_array();
    for (int32_t r = 0; r < p->n_ranks; r++)
        hrf_json_add(ranks, rank_json(o, r));
    hrf_json_put(json, "per_rank", ranks);
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
        const double small_seconds = small.send + small.transit + small.receive;
        const double large_seconds = large.send + large.transit + large.receive;
        fprintf(out, "link      %s, same %s: %.1f us, then %.1f GB/s\n", m->links[i].comm,
                hrf_placement_name(m->links[i].placement), small_seconds * 1e6,
                (1 << 20) / (large_seconds - small_seconds) * 1e-9);
    }
}

json_t *hrf_known_json(const struct hrf_known *known)
{
    json_t *object = json_object();
    hrf_json_put(object, "machine", hrf_machine_json(&known->machine));
    hrf_json_put_bool(object, "assumed", known->is_assumed);
    hrf_json_put_text(object, "machine_source", known->machine_source);
    hrf_json_put_text(object, "cost_source", known->cost_source);
    return object;
}
