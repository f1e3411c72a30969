/* tree.c - the nodes of a YAML tree: memory, search, text (tree.h). */
#include "schema/yaml/tree.h"

#include "base/text.h"
#include "schema/yaml/tree_private.h"

#include <string.h>

void hrf_yaml_destroy(struct hrf_yaml *yaml)
{
    if (yaml == NULL)
        return;
    for (size_t i = 0; i < yaml->n_nodes; i++) {
        hrf_free(yaml->nodes[i]->text);
        hrf_free(yaml->nodes[i]->items);
        hrf_free(yaml->nodes[i]);
    }
    hrf_free(yaml->nodes);
    hrf_free(yaml);
}

const struct hrf_yaml_node *hrf_yaml_root(const struct hrf_yaml *yaml)
{
    return yaml->root;
}

const struct hrf_yaml_node *hrf_yaml_find(const struct hrf_yaml_node *map, const char *key)
{
    if (map == NULL || map->kind != HRF_YAML_MAP)
        return NULL;
    for (size_t i = 0; i < map->n_items; i++)
        if (strcmp(map->items[i].key->text, key) == 0)
            return map->items[i].value;
    return NULL;
}

bool hrf_yaml_is_null(const struct hrf_yaml_node *node)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL" };
    if (node->kind != HRF_YAML_SCALAR || !node->plain)
        return false;
    return hrf_text_is_among(node->text, words, sizeof words / sizeof words[0]);
}
