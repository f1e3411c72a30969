/* tree_private.h - what the files of schema/yaml share. */
#ifndef HRF_SCHEMA_YAML_TREE_PRIVATE_H
#define HRF_SCHEMA_YAML_TREE_PRIVATE_H

#include "schema/yaml/tree.h"

struct hrf_yaml {
    struct hrf_yaml_node **nodes; /* all of them, in the order they were made */
    size_t n_nodes, nodes_capacity;
    const struct hrf_yaml_node *root; /* one of nodes */
};

/* Base64 of RFC 4648, blanks skipped. Heap text; NULL in *out on bad input or a NUL inside. */
HRF_CHECKED enum hrf_status hrf_yaml_binary_decode(const char *text, char **out,
                                                   struct hrf_error *err);

#endif
