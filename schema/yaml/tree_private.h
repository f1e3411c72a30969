/* tree_private.h - what the files of schema/yaml share. */
#ifndef HRF_SCHEMA_YAML_TREE_PRIVATE_H
#define HRF_SCHEMA_YAML_TREE_PRIVATE_H

#include "schema/yaml/tree.h"

struct hrf_yaml {
    struct hrf_yaml_node **nodes; /* all of them, in the order they were made */
    size_t n_nodes, nodes_capacity;
    const struct hrf_yaml_node *root; /* one of nodes */
};

/* Decodes base64 (RFC 4648); blanks are skipped. Returns heap text, or NULL if the input is not
 * base64 or of a text with a NUL inside. */
char *hrf_yaml_binary_decode(const char *text);

#endif
