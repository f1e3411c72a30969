/* reader.c - reads one value into its place, with findings (reader.h). */
#include "schema/workflow/reader.h"

#include "base/args.h"
#include "base/path.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hrf_reader_find(struct hrf_reader *reader, int line, int column, const char *format, ...)
{
    struct hrf_strbuf message = HRF_STRBUF_INIT;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&message, format, args);
    va_end(args);
    const bool has_place = line > 0 && !reader->is_override;
    struct hrf_finding finding = { .line = has_place ? line : 0,
                                   .column = has_place ? column : 0,
                                   .where = hrf_strdup(reader->where),
                                   .message = hrf_strbuf_detach(&message) };
    if (finding.where == NULL || finding.message == NULL ||
        hrf_array_reserve((void **)&reader->findings, &reader->capacity, reader->n_findings + 1,
                          sizeof reader->findings[0], NULL) != HRF_OK) {
        reader->out_of_memory = true;
        hrf_free(finding.where);
        hrf_free(finding.message);
        hrf_strbuf_release(&message);
        return;
    }
    reader->findings[reader->n_findings++] = finding;
}

size_t hrf_key_index(const char *path)
{
    for (size_t i = 0; i < hrf_n_keys; i++)
        if (strcmp(hrf_keys[i].path, path) == 0)
            return i;
    return hrf_n_keys;
}

static const char *kind_name(const struct hrf_yaml_node *node)
{
    return node->kind == HRF_YAML_MAP        ? "a map"
           : node->kind == HRF_YAML_SEQUENCE ? "a list"
                                             : node->text;
}

static void wrong(struct hrf_reader *r, const struct hrf_key *key, const struct hrf_yaml_node *node,
                  const char *expected)
{
    bool text = node->kind == HRF_YAML_SCALAR;
    hrf_reader_find(r, node->line, node->column, "'%s' is %s%s%s; it must be %s", key->path,
                    text ? "'" : "", kind_name(node), text ? "'" : "", expected);
}

static void list_words(const char *const words[], struct hrf_strbuf *out)
{
    for (size_t i = 0; words[i] != NULL; i++)
        hrf_strbuf_addf(out, "%s%s", i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ", words[i]);
}

/* The index of a word in a list; -1, with a finding, if it is not there. */
static int read_word(struct hrf_reader *r, const struct hrf_key *key,
                     const struct hrf_yaml_node *node)
{
    struct hrf_strbuf list = HRF_STRBUF_INIT;
    list_words(key->words, &list);
    int found = -1;
    if (node->kind != HRF_YAML_SCALAR)
        wrong(r, key, node, list.text);
    for (int i = 0; node->kind == HRF_YAML_SCALAR && key->words[i] != NULL; i++)
        if (strcmp(key->words[i], node->text) == 0)
            found = i;
    if (found < 0 && node->kind == HRF_YAML_SCALAR) {
        const char *near = hrf_nearest_word(node->text, key->words);
        hrf_reader_find(r, node->line, node->column,
                        "'%s' is not a value of '%s'%s%s%s; it must be %s", node->text, key->path,
                        near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                        near != NULL ? "'?" : "", list.text);
    }
    hrf_strbuf_release(&list);
    return found;
}

static bool read_number(struct hrf_reader *r, const struct hrf_key *key,
                        const struct hrf_yaml_node *node, bool whole, double *out)
{
    char *end = NULL;
    errno = 0;
    double number = node->kind == HRF_YAML_SCALAR && node->plain ? strtod(node->text, &end) : 0;
    bool good = end != NULL && end != node->text && *end == '\0' && errno == 0 && isfinite(number);
    if (!good || (whole && number != floor(number))) {
        wrong(r, key, node, whole ? "a whole number" : "a number");
        return false;
    }
    if (number < key->min || number > key->max) {
        char limits[96];
        if (key->max >= 1e15)
            snprintf(limits, sizeof limits, "at least %.15g", key->min);
        else
            snprintf(limits, sizeof limits, "%.15g to %.15g", key->min, key->max);
        hrf_reader_find(r, node->line, node->column, "'%s' is %s; it must be %s", key->path,
                        node->text, limits);
        return false;
    }
    *out = number;
    return true;
}

/* 8GiB, 64G, 512MiB, 1048576. G means GiB, as for Slurm. */
static void read_size(struct hrf_reader *r, const struct hrf_key *key,
                      const struct hrf_yaml_node *node, int64_t *out)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    double number = node->kind == HRF_YAML_SCALAR ? strtod(node->text, &end) : 0;
    const char *unit = end != NULL && *end != '\0' ? strchr(units, *end) : NULL;
    double factor = 1;
    if (unit != NULL && *unit != '\0') {
        for (long i = 0; i <= unit - units; i++)
            factor *= 1024;
        end += strcmp(end + 1, "iB") == 0 ? 3 : strcmp(end + 1, "B") == 0 ? 2 : 1;
    }
    if (end == NULL || end == node->text || *end != '\0' || !isfinite(number)) {
        wrong(r, key, node, "a size such as 8GiB or 512MiB");
        return;
    }
    if (number * factor < key->min || number * factor > key->max) {
        hrf_reader_find(r, node->line, node->column, "'%s' is %s; it must be at least 1MiB",
                        key->path, node->text);
        return;
    }
    *out = (int64_t)(number * factor);
}

static void read_bool(struct hrf_reader *r, const struct hrf_key *key,
                      const struct hrf_yaml_node *node, bool *out)
{
    const char *text = node->kind == HRF_YAML_SCALAR ? node->text : "";
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        wrong(r, key, node, "true or false");
    else
        *out = text[0] == 't';
}

static char *make_text(struct hrf_reader *r, const char *text, bool is_path)
{
    char *made = is_path ? hrf_path_join(r->anchor, text) : hrf_strdup(text);
    if (made == NULL)
        r->out_of_memory = true;
    else if (is_path)
        hrf_path_tidy(made);
    return made;
}

static void read_text(struct hrf_reader *r, const struct hrf_key *key,
                      const struct hrf_yaml_node *node, bool is_path, char **out)
{
    if (node->kind != HRF_YAML_SCALAR || hrf_yaml_is_null(node) || node->text[0] == '\0') {
        wrong(r, key, node, is_path ? "a path" : "a text");
        return;
    }
    hrf_free(*out);
    *out = make_text(r, node->text, is_path);
}

static void clear_list(struct hrf_text_list *list)
{
    for (size_t i = 0; i < list->n_items; i++)
        hrf_free(list->items[i]);
    hrf_free(list->items);
    *list = (struct hrf_text_list){ NULL, 0 };
}

static void read_texts(struct hrf_reader *r, const struct hrf_key *key,
                       const struct hrf_yaml_node *node, bool is_path, struct hrf_text_list *out)
{
    if (node->kind != HRF_YAML_SEQUENCE) {
        wrong(r, key, node, is_path ? "a list of paths" : "a list of texts");
        return;
    }
    clear_list(out);
    out->items = hrf_calloc(node->n_items, sizeof out->items[0]);
    if (out->items == NULL) {
        r->out_of_memory = true;
        return;
    }
    for (size_t i = 0; i < node->n_items; i++) {
        const struct hrf_yaml_node *item = node->items[i].value;
        if (item->kind != HRF_YAML_SCALAR || item->text[0] == '\0')
            wrong(r, key, item, is_path ? "a path" : "a text");
        else if ((out->items[out->n_items] = make_text(r, item->text, is_path)) != NULL)
            out->n_items++;
    }
}

static void read_triple(struct hrf_reader *r, const struct hrf_key *key,
                        const struct hrf_yaml_node *node, double out[3])
{
    double values[3];
    if (node->kind != HRF_YAML_SEQUENCE || node->n_items != 3) {
        wrong(r, key, node, "a list of three numbers (red, green, blue)");
        return;
    }
    for (size_t i = 0; i < 3; i++)
        if (!read_number(r, key, node->items[i].value, false, &values[i]))
            return;
    memcpy(out, values, sizeof values);
}

static void read_precisions(struct hrf_reader *r, const struct hrf_key *key,
                            const struct hrf_yaml_node *node)
{
    bool seen[HRF_N_PRECISIONS] = { false };
    if (node->kind != HRF_YAML_SEQUENCE || node->n_items == 0) {
        wrong(r, key, node, "a list such as [fp32, int8]");
        return;
    }
    r->workflow->n_precisions = 0;
    for (size_t i = 0; i < node->n_items; i++) {
        const struct hrf_yaml_node *item = node->items[i].value;
        int word = read_word(r, key, item);
        if (word < 0)
            continue;
        if (seen[word])
            hrf_reader_find(r, item->line, item->column,
                            "'%s' stands twice in 'precision'; name each precision once",
                            item->text);
        else
            r->workflow->precision[r->workflow->n_precisions++] = (enum hrf_precision)word;
        seen[word] = true;
    }
}

/* [D-]HH:MM:SS as sbatch --time takes it. */
static bool is_duration(const char *text)
{
    int groups = 0, digits = 0, dashes = 0;
    for (const char *s = text; *s != '\0'; s++) {
        if (*s >= '0' && *s <= '9')
            digits++;
        else if (*s == ':' && digits > 0 && digits <= 2)
            groups++, digits = 0;
        else if (*s == '-' && groups == 0 && dashes == 0 && digits > 0)
            dashes++, digits = 0;
        else
            return false;
    }
    return groups == 2 && digits == 2;
}

void hrf_reader_value(struct hrf_reader *r, size_t index, const struct hrf_yaml_node *node)
{
    const struct hrf_key *key = &hrf_keys[index];
    void *place = hrf_key_place(r->workflow, key);
    double number;
    int word;
    r->lines[index] = r->is_override ? -1 : node->line;
    r->columns[index] = node->column;
    switch (key->type) {
    case HRF_KEY_WORD:
        if ((word = read_word(r, key, node)) >= 0)
            *(int *)place = word;
        break;
    case HRF_KEY_INT:
        if (read_number(r, key, node, true, &number))
            *(int64_t *)place = (int64_t)number;
        break;
    case HRF_KEY_REAL:
        if (read_number(r, key, node, false, &number))
            *(double *)place = number;
        break;
    case HRF_KEY_BOOL:
        read_bool(r, key, node, place);
        break;
    case HRF_KEY_TEXT:
    case HRF_KEY_PATH:
        read_text(r, key, node, key->type == HRF_KEY_PATH, place);
        break;
    case HRF_KEY_DURATION:
        if (node->kind != HRF_YAML_SCALAR || !is_duration(node->text))
            wrong(r, key, node, "a time such as \"02:00:00\" or \"1-12:00:00\"");
        else
            read_text(r, key, node, false, place);
        break;
    case HRF_KEY_TEXTS:
    case HRF_KEY_PATHS:
        read_texts(r, key, node, key->type == HRF_KEY_PATHS, place);
        break;
    case HRF_KEY_SIZE:
        read_size(r, key, node, place);
        break;
    case HRF_KEY_TRIPLE:
        read_triple(r, key, node, place);
        break;
    case HRF_KEY_PRECISIONS:
        read_precisions(r, key, node);
        break;
    }
}
