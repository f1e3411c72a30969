/* machine_file.c - reads and writes machine files (machine_file.h). */
#include "engine/planning/machine_file.h"

#include "base/args.h"
#include "base/file.h"
#include "schema/yaml/tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1 };

/* ---- reading ---- */

static enum hrf_status wrong(const char *where, const struct hrf_yaml_node *node, const char *what,
                             const char *right, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER, "%s:%d:%d: %s; %s", where, node->line, node->column, what,
                         right);
}

static enum hrf_status check_map(const struct hrf_yaml_node *map, const char *name,
                                 const char *const keys[], const char *where, struct hrf_error *err)
{
    char what[160], right[160];
    snprintf(right, sizeof right, "see 'plan --help' for the format of a machine file");
    if (map->kind != HRF_YAML_MAP) {
        snprintf(what, sizeof what, "'%s' is not a map", name);
        return wrong(where, map, what, right, err);
    }
    for (size_t i = 0; i < map->n_items; i++) {
        const struct hrf_yaml_node *key = map->items[i].key;
        size_t k = 0;
        while (keys[k] != NULL && strcmp(keys[k], key->text) != 0)
            k++;
        const char *near = keys[k] == NULL ? hrf_nearest_word(key->text, keys) : NULL;
        if (near != NULL)
            snprintf(right, sizeof right, "did you mean '%s'?", near);
        snprintf(what, sizeof what, "'%.60s' is %s '%s'", key->text,
                 keys[k] == NULL ? "not a key of" : "given twice in", name);
        if (keys[k] == NULL || map->items[i].duplicate_of != 0)
            return wrong(where, key, what, right, err);
    }
    return HRF_OK;
}

static enum hrf_status read_number(const struct hrf_yaml_node *node, const char *name, double min,
                                   double max, const char *where, double *out,
                                   struct hrf_error *err)
{
    char what[160], right[96], *end = NULL;
    double value = NAN;
    if (node->kind == HRF_YAML_SCALAR)
        value = strtod(node->text, &end);
    if (end != NULL && end != node->text && *end == '\0' && value >= min && value <= max) {
        *out = value;
        return HRF_OK;
    }
    snprintf(what, sizeof what, "'%s' is not right", name);
    snprintf(right, sizeof right, "it must be a number from %g to %g", min, max);
    return wrong(where, node, what, right, err);
}

/* If the key is missing, *out does not change. */
static enum hrf_status get_number(const struct hrf_yaml_node *map, const char *key, double min,
                                  double max, const char *where, double *out, struct hrf_error *err)
{
    const struct hrf_yaml_node *node = hrf_yaml_find(map, key);
    return node != NULL ? read_number(node, key, min, max, where, out, err) : HRF_OK;
}

static enum hrf_status get_text(const struct hrf_yaml_node *map, const char *key, const char *where,
                                char *out, size_t size, struct hrf_error *err)
{
    const struct hrf_yaml_node *node = hrf_yaml_find(map, key);
    if (node == NULL)
        return HRF_OK;
    if (node->kind != HRF_YAML_SCALAR || strlen(node->text) >= size)
        return wrong(where, node, key, "it must be a short text", err);
    snprintf(out, size, "%s", node->text);
    return HRF_OK;
}

static enum hrf_status read_device(const struct hrf_yaml_node *map, const char *where,
                                   struct hrf_machine *m, struct hrf_error *err)
{
    static const char *const keys[] = { "name",     "memory_gib", "overhead_us",
                                        "gb_per_s", "tops",       NULL };
    const char *rates[HRF_N_RATES + 1] = { NULL };
    double memory = 0, overhead = 0, bytes = 0;
    HRF_TRY(check_map(map, "device", keys, where, err));
    HRF_TRY(get_text(map, "name", where, m->device, sizeof m->device, err));
    HRF_TRY(get_number(map, "memory_gib", 0, 1e6, where, &memory, err));
    HRF_TRY(get_number(map, "overhead_us", 0, 1e6, where, &overhead, err));
    HRF_TRY(get_number(map, "gb_per_s", 1e-3, 1e6, where, &bytes, err));
    m->memory_bytes = (int64_t)(memory * 0x1p30);
    m->rates.overhead = overhead * 1e-6;
    m->rates.bytes = bytes * 1e9;
    m->copy_rate = bytes * 1e9 / 2; /* a copy reads and writes */
    const struct hrf_yaml_node *tops = hrf_yaml_find(map, "tops");
    if (tops == NULL)
        return HRF_OK;
    for (int r = 0; r < HRF_N_RATES; r++)
        rates[r] = hrf_rate_name((enum hrf_rate)r);
    HRF_TRY(check_map(tops, "tops", rates, where, err));
    for (int r = 0; r < HRF_N_RATES; r++) {
        double value = 0;
        HRF_TRY(get_number(tops, hrf_rate_name((enum hrf_rate)r), 1e-6, 1e6, where, &value, err));
        m->rates.operations[r] = value * 1e12;
    }
    return HRF_OK;
}

static enum hrf_status read_point(const struct hrf_yaml_node *node, const char *where,
                                  struct hrf_link *link, struct hrf_error *err)
{
    struct hrf_link_point *p = &link->points[link->n_points];
    double v[4];
    if (node->kind != HRF_YAML_SEQUENCE || node->n_items != 4)
        return wrong(where, node, "a point of a link is not four numbers",
                     "it must be [bytes, send_us, transit_us, receive_us]", err);
    for (int i = 0; i < 4; i++)
        HRF_TRY(read_number(node->items[i].value, "point", 0, 1e15, where, &v[i], err));
    *p = (struct hrf_link_point){ v[0], v[1] * 1e-6, v[2] * 1e-6, v[3] * 1e-6 };
    if (link->n_points > 0 && p->bytes <= p[-1].bytes)
        return wrong(where, node, "the points of a link are not in order",
                     "each must have more bytes than the one before", err);
    link->n_points++;
    return HRF_OK;
}

static enum hrf_status read_points(const struct hrf_yaml_node *list, const char *where,
                                   struct hrf_link *link, struct hrf_error *err)
{
    if (list->kind != HRF_YAML_SEQUENCE || list->n_items < 1 || list->n_items > HRF_LINK_MAX_POINTS)
        return wrong(where, list, "'points' is not a list of 1 to 32 points",
                     "each is [bytes, send_us, transit_us, receive_us]", err);
    for (size_t i = 0; i < list->n_items; i++)
        HRF_TRY(read_point(list->items[i].value, where, link, err));
    return HRF_OK;
}

static enum hrf_status read_link(const struct hrf_yaml_node *map, const char *where,
                                 struct hrf_machine *m, struct hrf_error *err)
{
    static const char *const keys[] = { "comm",   "placement", "latency_us", "gb_per_s",
                                        "points", "gpus",      NULL };
    struct hrf_link *link = &m->links[m->n_links];
    char placement[16] = "", gpus[8] = "false";
    double latency = 0, bandwidth = 0;
    int p = 0;
    HRF_TRY(check_map(map, "links", keys, where, err));
    if (m->n_links == HRF_MACHINE_MAX_LINKS)
        return wrong(where, map, "too many links", "at most 16 are allowed", err);
    HRF_TRY(get_text(map, "placement", where, placement, sizeof placement, err));
    while (p < HRF_N_PLACEMENTS &&
           strcmp(placement, hrf_placement_name((enum hrf_placement)p)) != 0)
        p++;
    if (p == HRF_N_PLACEMENTS)
        return wrong(where, map, "a link has no known placement",
                     "it must be process, node or network", err);
    HRF_TRY(get_number(map, "latency_us", 0, 1e9, where, &latency, err));
    HRF_TRY(get_number(map, "gb_per_s", 1e-6, 1e6, where, &bandwidth, err));
    const struct hrf_yaml_node *points = hrf_yaml_find(map, "points");
    if ((points == NULL) == (bandwidth == 0))
        return wrong(where, map, "a link's speed is given twice or not at all",
                     "it must have either latency_us and gb_per_s, or points", err);
    *link = hrf_link_simple("", (enum hrf_placement)p, latency * 1e-6,
                            points != NULL ? 1 : bandwidth * 1e9);
    HRF_TRY(get_text(map, "comm", where, link->comm, sizeof link->comm, err));
    HRF_TRY(get_text(map, "gpus", where, gpus, sizeof gpus, err));
    link->is_gpus = strcmp(gpus, "true") == 0;
    if (points != NULL) {
        link->n_points = 0;
        HRF_TRY(read_points(points, where, link, err));
    }
    m->n_links++;
    return HRF_OK;
}

static enum hrf_status read_numbers(const struct hrf_yaml_node *root, const char *where,
                                    struct hrf_machine *m, struct hrf_error *err)
{
    double version = 0, ranks = 1, ports = 1, nodes = 0;
    char one_process[8] = "false";
    HRF_TRY(get_number(root, "version", VERSION, VERSION, where, &version, err));
    HRF_TRY(get_number(root, "ranks_per_node", 1, 4096, where, &ranks, err));
    HRF_TRY(get_number(root, "ports_per_node", 1, 4096, where, &ports, err));
    HRF_TRY(get_number(root, "nodes", 1, 1e6, where, &nodes, err));
    HRF_TRY(get_text(root, "one_process", where, one_process, sizeof one_process, err));
    HRF_TRY(get_text(root, "name", where, m->name, sizeof m->name, err));
    if (version != VERSION)
        return wrong(where, root, "there is no 'version'", "it must be 1", err);
    m->ranks_per_node = (int32_t)ranks;
    m->ports_per_node = (int32_t)ports;
    m->n_nodes = (int32_t)nodes;
    m->is_one_process = strcmp(one_process, "true") == 0;
    return HRF_OK;
}

static enum hrf_status read_root(const struct hrf_yaml_node *root, const char *where,
                                 struct hrf_machine *m, struct hrf_error *err)
{
    static const char *const keys[] = { "version",        "name",           "device",
                                        "ranks_per_node", "ports_per_node", "nodes",
                                        "one_process",    "links",          NULL };
    HRF_TRY(check_map(root, "machine", keys, where, err));
    HRF_TRY(read_numbers(root, where, m, err));
    const struct hrf_yaml_node *device = hrf_yaml_find(root, "device");
    const struct hrf_yaml_node *links = hrf_yaml_find(root, "links");
    if (device != NULL)
        HRF_TRY(read_device(device, where, m, err));
    if (links != NULL && links->kind != HRF_YAML_SEQUENCE)
        return wrong(where, links, "'links' is not a list", "each link is a map", err);
    for (size_t i = 0; links != NULL && i < links->n_items; i++)
        HRF_TRY(read_link(links->items[i].value, where, m, err));
    return HRF_OK;
}

enum hrf_status hrf_machine_parse(const char *text, size_t n_bytes, const char *where,
                                  struct hrf_machine *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_yaml) yaml = NULL;
    struct hrf_machine machine = { .n_links = 0 };
    HRF_TRY(hrf_yaml_parse(text, n_bytes, where, &yaml, err));
    HRF_TRY(read_root(hrf_yaml_root(yaml), where, &machine, err));
    *out = machine;
    return HRF_OK;
}

enum hrf_status hrf_machine_read(const char *path, struct hrf_machine *out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes;
    HRF_TRY(hrf_file_read(path, HRF_YAML_MAX_BYTES, &text, &n_bytes, err));
    return hrf_machine_parse(text, n_bytes, path, out, err);
}

/* ---- writing ---- */

static json_t *link_json(const struct hrf_link *link)
{
    json_t *points = json_array();
    for (int32_t i = 0; i < link->n_points; i++) {
        const struct hrf_link_point *p = &link->points[i];
        const double point[] = { p->bytes, p->send * 1e6, p->transit * 1e6, p->receive * 1e6 };
        hrf_json_add(points, hrf_json_numbers(point, 4));
    }
    json_t *object = json_object();
    hrf_json_put_text(object, "comm", link->comm);
    hrf_json_put_text(object, "placement", hrf_placement_name(link->placement));
    hrf_json_put(object, "points", points);
    if (link->is_gpus)
        hrf_json_put_bool(object, "gpus", true);
    return object;
}

static json_t *device_json(const struct hrf_machine *m)
{
    json_t *tops = json_object();
    for (int r = 0; r < HRF_N_RATES; r++)
        if (m->rates.operations[r] > 0)
            hrf_json_put_number(tops, hrf_rate_name((enum hrf_rate)r),
                                m->rates.operations[r] * 1e-12);
    json_t *device = json_object();
    hrf_json_put_text(device, "name", m->device);
    hrf_json_put_number(device, "memory_gib", (double)m->memory_bytes / 0x1p30);
    hrf_json_put_number(device, "overhead_us", m->rates.overhead * 1e6);
    hrf_json_put(device, "tops", tops);
    if (m->rates.bytes > 0)
        hrf_json_put_number(device, "gb_per_s", m->rates.bytes * 1e-9);
    return device;
}

json_t *hrf_machine_json(const struct hrf_machine *m)
{
    json_t *links = json_array();
    for (int32_t i = 0; i < m->n_links; i++)
        hrf_json_add(links, link_json(&m->links[i]));
    json_t *json = json_object();
    hrf_json_put_int(json, "version", VERSION);
    hrf_json_put_text(json, "name", m->name);
    hrf_json_put(json, "device", device_json(m));
    hrf_json_put_int(json, "ranks_per_node", m->ranks_per_node);
    hrf_json_put_int(json, "ports_per_node", m->ports_per_node);
    hrf_json_put_bool(json, "one_process", m->is_one_process);
    hrf_json_put(json, "links", links);
    if (m->n_nodes > 0)
        hrf_json_put_int(json, "nodes", m->n_nodes);
    return json;
}
