/* tree.h - a YAML text as a tree of nodes with their positions.
 *
 * The only folder that knows libyaml. Scalars stay text: what a text means (number, word,
 * path) is decided by the reader, so `no` is a word where a word is asked for. Aliases are
 * resolved by sharing the node, so the tree is a DAG; its size as a tree is limited, so a
 * short text cannot stand for millions of nodes. Merge keys (`<<: *base`) are resolved:
 * explicit keys win. One document per text. Immutable after parsing; any thread may read.
 */
#ifndef HRF_SCHEMA_YAML_TREE_H
#define HRF_SCHEMA_YAML_TREE_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/* Far above any workflow, low enough that a hostile text costs little time and memory. */
#define HRF_YAML_MAX_BYTES ((size_t)4 << 20)
#define HRF_YAML_MAX_DEPTH 32
#define HRF_YAML_MAX_NODES 50000 /* every alias counts with all that it stands for */

enum hrf_yaml_kind { HRF_YAML_SCALAR, HRF_YAML_SEQUENCE, HRF_YAML_MAP };

struct hrf_yaml_node {
    enum hrf_yaml_kind kind;
    int line, column; /* of its first character, both from 1; column counts characters */
    char *text;       /* scalar: valid UTF-8 without NUL (any bytes for !!binary) */
    bool plain;       /* scalar: written without quotes, so 5 may be a number, ~ nothing */
    struct hrf_yaml_item *items; /* sequence, map */
    size_t n_items;
    size_t weight; /* nodes of the tree below, itself included */
};

struct hrf_yaml_item {
    const struct hrf_yaml_node *key;   /* a scalar; NULL in sequences */
    const struct hrf_yaml_node *value; /* never NULL */
    int duplicate_of; /* line of an earlier equal key of this map; 0 = none. Readers report it. */
};

struct hrf_yaml; /* opaque: owns the nodes */

/* `where` names the text in messages, which are "where:line:column: what; what would be right".
 * HRF_E_USER: not YAML, too large, too deep, a second document, a key that is not a scalar, an
 * unknown tag or alias. */
HRF_CHECKED enum hrf_status hrf_yaml_parse(const char *text, size_t n_bytes, const char *where,
                                           struct hrf_yaml **out, struct hrf_error *err);
void hrf_yaml_destroy(struct hrf_yaml *yaml);
HRF_DEFINE_AUTO(hrf_yaml)
const struct hrf_yaml_node *hrf_yaml_root(const struct hrf_yaml *yaml);

/* Returns the value of a map's first entry with that key, or NULL if there is none or if it is no
 * map. */
const struct hrf_yaml_node *hrf_yaml_find(const struct hrf_yaml_node *map, const char *key);
/* True for a plain scalar that stands for nothing: empty, ~ or null. */
bool hrf_yaml_is_null(const struct hrf_yaml_node *node);

/* `text` as a scalar for writing: bare when it is a plain word, else in double quotes, else
 * (bytes that are not UTF-8) as !!binary. Reads back to the same bytes. Heap; NULL = no memory. */
char *hrf_yaml_quote(const char *text);
/* Appends what hrf_yaml_quote() returns. */
void hrf_yaml_add_quoted(struct hrf_strbuf *out, const char *text);

#endif
