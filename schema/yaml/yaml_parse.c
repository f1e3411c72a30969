/* libyaml events -> tree. Recursive: the depth is bounded before each descent. */
#include "schema/yaml/tree_private.h"

#include "base/array.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

struct anchor {
    char *name;
    const struct hrf_yaml_node *node;
    bool open; /* its node is still being read, so an alias to it would be a cycle */
};

struct parser {
    yaml_parser_t libyaml;
    const char *text;
    size_t n_bytes;
    const char *where;
    struct hrf_yaml *yaml;
    struct anchor *anchors;
    size_t n_anchors, anchors_capacity;
    size_t weight; /* the size of the tree so far, with aliases expanded */
    int depth;
    struct hrf_error *err;
};

static enum hrf_status parse_value(struct parser *p, const yaml_event_t *event,
                                   const struct hrf_yaml_node **out);

static enum hrf_status fail(const struct parser *p, yaml_mark_t mark, const char *text)
{
    return hrf_error_set(p->err, HRF_E_USER, "%s:%zu:%zu: %s", p->where, mark.line + 1,
                         mark.column + 1, text);
}

/* Adds advice to libyaml's messages, which only name what was found. */
static const char *advice_for(const char *problem)
{
    static const struct {
        const char *problem, *advice;
    } table[] = {
        { "mapping values are not allowed",
          "check the indentation, and put a text that holds ': ' in quotes" },
        { "did not find expected key",
          "check the indentation: keys of one level start in the same column" },
        { "could not find expected ':'", "every key is followed by ': ' and its value" },
        { "did not find expected ',' or ']'", "close the list with ']'" },
        { "did not find expected ',' or '}'", "close the map with '}'" },
        { "found unexpected end of stream", "a quote is opened and never closed" },
        { "found unexpected document indicator", "a quote is opened and never closed" },
        { "block sequence entries are not allowed",
          "put the first '- ' on a line of its own, below its key" },
        { "did not find expected '-' indicator",
          "entries of one list start in the same column, each with '- '" },
        { "found unknown escape character", "use single quotes, or write a backslash twice" },
        { "found undefined tag handle", "put a text that starts with '!' in quotes" },
        { "did not find expected alphabetic or numeric character",
          "put a text that starts with '*' or '&' in quotes" },
        { "did not find expected <document start>",
          "the file holds one map of 'key: value' lines" },
        { "block mapping entries", "put every 'key: value' on a line of its own" },
        { "found a tab character", "indent with spaces, not tabs" },
        { "found unknown directive", "a line may not start with '%'; put it in quotes" },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strstr(problem, table[i].problem) != NULL)
            return table[i].advice;
    return "see the YAML of workflows/demo.yaml";
}

static yaml_mark_t mark_of_offset(const struct parser *p, size_t offset)
{
    yaml_mark_t mark = { .index = offset };
    for (size_t i = 0; i < offset && i < p->n_bytes; i++) {
        mark.column += ((unsigned char)p->text[i] & 0xc0) != 0x80;
        if (p->text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        }
    }
    return mark;
}

/* The byte at a mark, 0 beyond the end. libyaml's index counts characters. */
static char byte_at(const struct parser *p, yaml_mark_t mark)
{
    size_t line = 0, column = 0;
    for (size_t i = 0; i < p->n_bytes; i++) {
        if (line == mark.line && column == mark.column)
            return p->text[i];
        if (p->text[i] == '\n') {
            line++;
            column = 0;
        } else if (i + 1 < p->n_bytes) {
            column += ((unsigned char)p->text[i + 1] & 0xc0) != 0x80;
        }
    }
    return '\0';
}

static enum hrf_status fail_character(const struct parser *p, yaml_mark_t mark)
{
    char c = byte_at(p, mark), text[128];
    if (c == '\t')
        return fail(p, mark, "a tab where YAML wants spaces; indent with spaces, not tabs");
    snprintf(text, sizeof text, "a value cannot start with '%c'; put it in quotes", c);
    return fail(p, mark, text);
}

static enum hrf_status fail_libyaml(const struct parser *p)
{
    const yaml_parser_t *y = &p->libyaml;
    if (y->error == YAML_MEMORY_ERROR)
        return hrf_error_set(p->err, HRF_E_NOMEM, "no memory to read %s", p->where);
    const char *problem = y->problem != NULL ? y->problem : "not YAML";
    if (y->error == YAML_READER_ERROR) {
        char text[256];
        snprintf(text, sizeof text, "%s (byte value %d); save the file as UTF-8 text", problem,
                 y->problem_value);
        return fail(p, mark_of_offset(p, y->problem_offset), text);
    }
    if (strstr(problem, "cannot start any token") != NULL)
        return fail_character(p, y->problem_mark);
    char text[512], context[160] = "";
    if (y->context != NULL && y->context_mark.line != y->problem_mark.line)
        snprintf(context, sizeof context, " (%s that starts on line %zu)", y->context,
                 y->context_mark.line + 1);
    snprintf(text, sizeof text, "%s%s; %s", problem, context, advice_for(problem));
    return fail(p, y->problem_mark, text);
}

static enum hrf_status next_event(struct parser *p, yaml_event_t *event)
{
    if (yaml_parser_parse(&p->libyaml, event) == 0) {
        memset(event, 0, sizeof *event);
        return fail_libyaml(p);
    }
    return HRF_OK;
}

static enum hrf_status add_weight(struct parser *p, yaml_mark_t mark, size_t weight)
{
    p->weight += weight;
    if (p->weight <= HRF_YAML_MAX_NODES)
        return HRF_OK;
    char text[128];
    snprintf(text, sizeof text, "more than %d values, aliases counted out; make the file smaller",
             HRF_YAML_MAX_NODES);
    return fail(p, mark, text);
}

static enum hrf_status add_node(struct parser *p, yaml_mark_t mark, enum hrf_yaml_kind kind,
                                struct hrf_yaml_node **out)
{
    struct hrf_yaml *yaml = p->yaml;
    HRF_TRY(add_weight(p, mark, 1));
    HRF_RESERVE(yaml->nodes, yaml->nodes_capacity, yaml->n_nodes + 1);
    struct hrf_yaml_node *node = hrf_calloc(1, sizeof *node);
    *node = (struct hrf_yaml_node){
        .kind = kind, .line = (int)mark.line + 1, .column = (int)mark.column + 1, .weight = 1
    };
    yaml->nodes[yaml->n_nodes++] = node;
    *out = node;
    return HRF_OK;
}

static void add_anchor(struct parser *p, const yaml_char_t *name, const struct hrf_yaml_node *node)
{
    if (name == NULL)
        return;
    HRF_RESERVE(p->anchors, p->anchors_capacity, p->n_anchors + 1);
    p->anchors[p->n_anchors++] = (struct anchor){ .name = hrf_strdup((const char *)name),
                                                  .node = node,
                                                  .open = true };
}

static void close_anchor(struct parser *p, const struct hrf_yaml_node *node)
{
    for (size_t i = 0; i < p->n_anchors; i++)
        if (p->anchors[i].node == node)
            p->anchors[i].open = false;
}

static enum hrf_status parse_alias(struct parser *p, const yaml_event_t *event,
                                   const struct hrf_yaml_node **out)
{
    const char *name = (const char *)event->data.alias.anchor;
    char text[256];
    for (size_t i = p->n_anchors; i-- > 0;) {
        if (strcmp(p->anchors[i].name, name) != 0)
            continue;
        if (p->anchors[i].open) {
            snprintf(text, sizeof text,
                     "the alias '*%.80s' stands inside the value it names; it cannot hold itself",
                     name);
            return fail(p, event->start_mark, text);
        }
        HRF_TRY(add_weight(p, event->start_mark, p->anchors[i].node->weight));
        *out = p->anchors[i].node;
        return HRF_OK;
    }
    snprintf(text, sizeof text,
             "the alias '*%.80s' has no anchor; write '&%.80s' before the value it stands for",
             name, name);
    return fail(p, event->start_mark, text);
}

/* Only !!binary changes a scalar's value; all other explicit tags are refused. */
static enum hrf_status check_tag(const struct parser *p, const yaml_event_t *event,
                                 const yaml_char_t *tag, bool *is_binary)
{
    *is_binary = false;
    if (tag == NULL || strcmp((const char *)tag, "!") == 0)
        return HRF_OK;
    if (event->type == YAML_SCALAR_EVENT && strcmp((const char *)tag, YAML_STR_TAG) == 0)
        return HRF_OK;
    if (event->type == YAML_SCALAR_EVENT &&
        strcmp((const char *)tag, "tag:yaml.org,2002:binary") == 0) {
        *is_binary = true;
        return HRF_OK;
    }
    char text[256];
    snprintf(text, sizeof text, "the tag '%.80s' means nothing here; leave it out",
             (const char *)tag);
    return fail(p, event->start_mark, text);
}

static enum hrf_status parse_scalar(struct parser *p, const yaml_event_t *event,
                                    const struct hrf_yaml_node **out)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    bool is_binary;
    HRF_TRY(check_tag(p, event, event->data.scalar.tag, &is_binary));
    if (memchr(value, '\0', length) != NULL)
        return fail(p, event->start_mark, "a text holds a NUL character; leave it out");
    struct hrf_yaml_node *node;
    HRF_TRY(add_node(p, event->start_mark, HRF_YAML_SCALAR, &node));
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                  event->data.scalar.tag == NULL;
    if (is_binary) {
        node->text = hrf_yaml_binary_decode(value);
        if (node->text == NULL)
            return fail(p, event->start_mark,
                        "the !!binary text is not base64 of a text without NUL; write the text in "
                        "quotes");
    } else {
        node->text = hrf_strndup(value, length);
    }
    add_anchor(p, event->data.scalar.anchor, node);
    close_anchor(p, node);
    *out = node;
    return HRF_OK;
}

static void append(struct hrf_yaml_node *node, size_t *capacity, struct hrf_yaml_item item)
{
    HRF_RESERVE(node->items, *capacity, node->n_items + 1);
    node->items[node->n_items++] = item;
    node->weight += item.value->weight + (item.key != NULL ? 1 : 0);
}

static bool is_merge_key(const struct hrf_yaml_item *item)
{
    return item->key != NULL && item->key->plain && strcmp(item->key->text, "<<") == 0;
}

static enum hrf_status merge_map(struct parser *p, struct hrf_yaml_node *node, size_t *capacity,
                                 const struct hrf_yaml_node *from, const struct hrf_yaml_node *at)
{
    if (from->kind != HRF_YAML_MAP)
        return hrf_error_set(p->err, HRF_E_USER,
                             "%s:%d:%d: '<<' takes a map or a list of maps; write '<<: *anchor'",
                             p->where, at->line, at->column);
    yaml_mark_t mark = { .line = (size_t)at->line - 1, .column = (size_t)at->column - 1 };
    HRF_TRY(add_weight(p, mark, from->weight));
    for (size_t i = 0; i < from->n_items; i++)
        if (hrf_yaml_find(node, from->items[i].key->text) == NULL)
            append(node, capacity, from->items[i]);
    return HRF_OK;
}

/* https://yaml.org/type/merge.html: explicit keys have priority, then the first map of the list. */
static enum hrf_status resolve_merge(struct parser *p, struct hrf_yaml_node *node, size_t *capacity)
{
    size_t at = 0;
    while (at < node->n_items && !is_merge_key(&node->items[at]))
        at++;
    if (at == node->n_items)
        return HRF_OK;
    struct hrf_yaml_item merge = node->items[at];
    memmove(node->items + at, node->items + at + 1,
            (node->n_items - at - 1) * sizeof node->items[0]);
    node->n_items--;
    if (merge.value->kind != HRF_YAML_SEQUENCE)
        return merge_map(p, node, capacity, merge.value, merge.key);
    for (size_t i = 0; i < merge.value->n_items; i++)
        HRF_TRY(merge_map(p, node, capacity, merge.value->items[i].value, merge.key));
    return HRF_OK;
}

static void mark_duplicates(struct hrf_yaml_node *node)
{
    for (size_t i = 1; i < node->n_items; i++)
        for (size_t j = 0; j < i && node->items[i].duplicate_of == 0; j++)
            if (strcmp(node->items[i].key->text, node->items[j].key->text) == 0)
                node->items[i].duplicate_of = node->items[j].key->line;
}

static enum hrf_status parse_key(struct parser *p, const yaml_event_t *event,
                                 const struct hrf_yaml_node **key)
{
    if (event->type != YAML_SCALAR_EVENT && event->type != YAML_ALIAS_EVENT)
        return fail(p, event->start_mark, "a key is a list or a map; write a word as the key");
    HRF_TRY(parse_value(p, event, key));
    if ((*key)->kind != HRF_YAML_SCALAR)
        return fail(p, event->start_mark, "a key is a list or a map; write a word as the key");
    return HRF_OK;
}

static enum hrf_status parse_item(struct parser *p, const yaml_event_t *event,
                                  struct hrf_yaml_node *node, size_t *capacity)
{
    struct hrf_yaml_item item = { .key = NULL };
    if (node->kind == HRF_YAML_SEQUENCE) {
        HRF_TRY(parse_value(p, event, &item.value));
        append(node, capacity, item);
        return HRF_OK;
    }
    HRF_TRY(parse_key(p, event, &item.key));
    yaml_event_t value;
    HRF_TRY(next_event(p, &value));
    enum hrf_status status = parse_value(p, &value, &item.value);
    yaml_event_delete(&value);
    HRF_TRY(status);
    append(node, capacity, item);
    return HRF_OK;
}

static enum hrf_status parse_items(struct parser *p, struct hrf_yaml_node *node)
{
    yaml_event_type_t end = node->kind == HRF_YAML_MAP ? YAML_MAPPING_END_EVENT
                                                       : YAML_SEQUENCE_END_EVENT;
    size_t capacity = 0;
    for (bool more = true; more;) {
        yaml_event_t event;
        HRF_TRY(next_event(p, &event));
        more = event.type != end;
        enum hrf_status status = more ? parse_item(p, &event, node, &capacity) : HRF_OK;
        yaml_event_delete(&event);
        HRF_TRY(status);
    }
    if (node->kind != HRF_YAML_MAP)
        return HRF_OK;
    mark_duplicates(node);
    return resolve_merge(p, node, &capacity);
}

static enum hrf_status parse_collection(struct parser *p, const yaml_event_t *event,
                                        const struct hrf_yaml_node **out)
{
    bool is_map = event->type == YAML_MAPPING_START_EVENT, is_binary;
    HRF_TRY(check_tag(p, event,
                      is_map ? event->data.mapping_start.tag : event->data.sequence_start.tag,
                      &is_binary));
    char text[96];
    snprintf(text, sizeof text, "more than %d levels deep; a workflow needs five",
             HRF_YAML_MAX_DEPTH);
    if (p->depth == HRF_YAML_MAX_DEPTH)
        return fail(p, event->start_mark, text);
    struct hrf_yaml_node *node;
    HRF_TRY(add_node(p, event->start_mark, is_map ? HRF_YAML_MAP : HRF_YAML_SEQUENCE, &node));
    add_anchor(p, is_map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
               node);
    p->depth++;
    HRF_TRY(parse_items(p, node));
    p->depth--;
    close_anchor(p, node);
    *out = node;
    return HRF_OK;
}

static enum hrf_status parse_value(struct parser *p, const yaml_event_t *event,
                                   const struct hrf_yaml_node **out)
{
    if (event->type == YAML_ALIAS_EVENT)
        return parse_alias(p, event, out);
    if (event->type == YAML_SCALAR_EVENT)
        return parse_scalar(p, event, out);
    assert(event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT);
    return parse_collection(p, event, out);
}

/* An event of the stream that is not inside its document. */
static enum hrf_status parse_top(struct parser *p, const yaml_event_t *event, bool *more)
{
    if (event->type == YAML_STREAM_END_EVENT)
        *more = false;
    if (event->type == YAML_DOCUMENT_START_EVENT && p->yaml->root != NULL)
        return fail(p, event->start_mark,
                    "a second document starts here; a file holds one, so "
                    "remove the '---' and what follows");
    bool outside = event->type == YAML_STREAM_START_EVENT || event->type == YAML_STREAM_END_EVENT ||
                   event->type == YAML_DOCUMENT_START_EVENT ||
                   event->type == YAML_DOCUMENT_END_EVENT;
    return outside ? HRF_OK : parse_value(p, event, &p->yaml->root);
}

static enum hrf_status parse_stream(struct parser *p)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        HRF_TRY(next_event(p, &event));
        enum hrf_status status = parse_top(p, &event, &more);
        yaml_event_delete(&event);
        HRF_TRY(status);
    }
    if (p->yaml->root == NULL)
        return fail(p, (yaml_mark_t){ .line = 0 },
                    "the file is empty; start from workflows/demo.yaml");
    return HRF_OK;
}

enum hrf_status hrf_yaml_parse(const char *text, size_t n_bytes, const char *where,
                               struct hrf_yaml **out, struct hrf_error *err)
{
    if (n_bytes > HRF_YAML_MAX_BYTES)
        return hrf_error_set(err, HRF_E_USER,
                             "%s:1:1: %zu bytes are too many for a workflow; at most %zu", where,
                             n_bytes, HRF_YAML_MAX_BYTES);
    HRF_AUTO(hrf_yaml) yaml = hrf_calloc(1, sizeof *yaml);
    struct parser p = {
        .text = text, .n_bytes = n_bytes, .where = where, .yaml = yaml, .err = err
    };
    if (yaml_parser_initialize(&p.libyaml) == 0)
        hrf_out_of_memory(0);
    yaml_parser_set_input_string(&p.libyaml, (const unsigned char *)text, n_bytes);
    enum hrf_status status = parse_stream(&p);
    yaml_parser_delete(&p.libyaml);
    for (size_t i = 0; i < p.n_anchors; i++)
        hrf_free(p.anchors[i].name);
    hrf_free(p.anchors);
    HRF_TRY(status);
    HRF_MOVE(*out, yaml);
    return HRF_OK;
}
