/* reader.c - reads a YAML file by the rows of its settings, with findings (reader.h). */
#include "schema/workflow/reader.h"

#include "base/args.h"
#include "base/array.h"
#include "base/message.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_SIZE = 128, PATH_SIZE = 256, FILE_VERSION = 1 };

void hrf_reader_init(struct hrf_reader *r, struct hrf_setting_table table, void *record,
                     const char *where, const char *anchor)
{
    int *lines = hrf_calloc(2 * table.n, sizeof *lines);
    *r = (struct hrf_reader){ .table = table,
                              .record = record,
                              .where = where,
                              .anchor = anchor,
                              .lines = lines,
                              .columns = lines + table.n };
}

void hrf_reader_release(struct hrf_reader *r)
{
    struct hrf_findings findings = { .items = r->findings, .n_items = r->n_findings };
    hrf_findings_release(&findings);
    hrf_free(r->lines);
}

/* ---- findings ---- */

void hrf_reader_find(struct hrf_reader *reader, int line, int column, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hrf_reader_vfind(reader, line, column, format, args);
    va_end(args);
}

void hrf_reader_vfind(struct hrf_reader *reader, int line, int column, const char *format,
                      va_list args)
{
    struct hrf_strbuf message = HRF_STRBUF_INIT;
    char named[1024];
    hrf_message_expand(format, named, sizeof named);
    hrf_strbuf_vaddf(&message, named, args);
    const bool has_place = line > 0 && !reader->is_override;
    struct hrf_finding finding = { .line = has_place ? line : 0,
                                   .column = has_place ? column : 0,
                                   .where = hrf_strdup(reader->where),
                                   .message = hrf_strbuf_detach(&message) };
    HRF_RESERVE(reader->findings, reader->capacity, reader->n_findings + 1);
    reader->findings[reader->n_findings++] = finding;
}

void hrf_reader_find_twice(struct hrf_reader *reader, const char *key,
                           const struct hrf_text_list *list)
{
    for (size_t i = 0; i < list->n_items; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(list->items[i], list->items[j]) == 0)
                hrf_reader_find(reader, 0, 0, "'%s' has '%s' twice", key, list->items[i]);
}

void hrf_findings_release(struct hrf_findings *findings)
{
    for (size_t i = 0; i < findings->n_items; i++) {
        hrf_free(findings->items[i].where);
        hrf_free(findings->items[i].message);
    }
    hrf_free(findings->items);
    hrf_strbuf_release(&findings->text);
    *findings = (struct hrf_findings)HRF_FINDINGS_INIT;
}

/* Sorts by position in the file; findings without a position come last. */
static int compare_findings(const void *a, const void *b)
{
    const struct hrf_finding *u = a, *v = b;
    if (u->line != v->line)
        return u->line != 0 && (v->line == 0 || u->line < v->line) ? -1 : 1;
    return u->column < v->column ? -1 : u->column > v->column;
}

static void show(const struct hrf_finding *f, struct hrf_strbuf *text)
{
    hrf_strbuf_adds(text, f->where);
    if (f->line > 0)
        hrf_strbuf_addf(text, ":%d", f->line);
    if (f->column > 0)
        hrf_strbuf_addf(text, ":%d", f->column);
    hrf_strbuf_addf(text, ": %s\n", f->message);
}

void hrf_findings_add(struct hrf_findings *findings, const char *where, int line,
                      const char *message)
{
    HRF_RESERVE(findings->items, findings->capacity, findings->n_items + 1);
    struct hrf_finding *f = &findings->items[findings->n_items];
    *f = (struct hrf_finding){ .line = line,
                               .where = hrf_text_escaped(where),
                               .message = hrf_text_escaped(message) };
    findings->n_items++;
    show(f, &findings->text);
}

enum hrf_status hrf_reader_finish(struct hrf_reader *r, struct hrf_findings *findings,
                                  struct hrf_error *err)
{
    size_t n_set = 0;
    const size_t n = r->n_findings;
    if (n > 1)
        qsort(r->findings, n, sizeof r->findings[0], compare_findings);
    for (size_t i = 0; i < n; i++) {
        show(&r->findings[i], &findings->text);
        n_set += strncmp(r->findings[i].where, "--", 2) == 0;
    }
    findings->items = r->findings;
    findings->n_items = n;
    findings->capacity = r->capacity;
    r->findings = NULL;
    r->n_findings = 0;
    if (n_set > 0 && n_set == n) /* the file is not at fault */
        return hrf_error_set(err, HRF_E_USER, "%zu option%s cannot be used", n_set,
                             n_set == 1 ? "" : "s");
    if (n > 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has %zu error%s", r->where, n,
                             n == 1 ? "" : "s");
    return HRF_OK;
}

/* ---- one value ---- */

void hrf_reader_name_override(const char *key, char *out, size_t size)
{
    if (hrf_settings_names() == HRF_NAMES_ARE_OPTIONS)
        hrf_message_name(key, out, size);
    else
        snprintf(out, size, "--set %s", key);
}

/* How a message names the setting. */
static const char *shown(const struct hrf_setting *setting, char out[SHOWN_SIZE])
{
    char name[SHOWN_SIZE];
    snprintf(name, sizeof name, "'{%s}'", setting->key);
    hrf_message_expand(name, out, SHOWN_SIZE);
    return out;
}

static const char *kind_name(const struct hrf_yaml_node *node)
{
    return node->kind == HRF_YAML_MAP        ? "a map"
           : node->kind == HRF_YAML_SEQUENCE ? "a list"
                                             : node->text;
}

static void wrong(struct hrf_reader *r, const struct hrf_setting *key,
                  const struct hrf_yaml_node *node, const char *expected)
{
    char name[SHOWN_SIZE];
    bool text = node->kind == HRF_YAML_SCALAR;
    hrf_reader_find(r, node->line, node->column, "%s is %s%s%s; it must be %s", shown(key, name),
                    text ? "'" : "", kind_name(node), text ? "'" : "", expected);
}

/* The index of a word in a list; -1, with a finding, if it is not there. */
static int read_word(struct hrf_reader *r, const struct hrf_setting *key,
                     const struct hrf_yaml_node *node)
{
    char name[SHOWN_SIZE], list[256];
    int found = -1;
    hrf_words_list(key->words, list, sizeof list);
    if (node->kind != HRF_YAML_SCALAR)
        wrong(r, key, node, list);
    else
        found = hrf_word_index(node->text, key->words);
    if (found < 0 && node->kind == HRF_YAML_SCALAR) {
        const char *near = hrf_nearest_word(node->text, key->words);
        hrf_reader_find(r, node->line, node->column,
                        "'%s' is not a value of %s%s%s%s; it must be %s", node->text,
                        shown(key, name), near != NULL ? ", did you mean '" : "",
                        near != NULL ? near : "", near != NULL ? "'?" : "", list);
    }
    return found;
}

static bool read_number(struct hrf_reader *r, const struct hrf_setting *key,
                        const struct hrf_yaml_node *node, bool whole, double *out)
{
    char name[SHOWN_SIZE];
    char *end = NULL;
    errno = 0;
    double number = node->kind == HRF_YAML_SCALAR && node->plain ? strtod(node->text, &end) : 0;
    bool good = end != NULL && end != node->text && *end == '\0' && errno == 0 && isfinite(number);
    if (!good || (whole && number != floor(number))) {
        wrong(r, key, node, whole ? "a whole number" : "a number");
        return false;
    }
    if (!hrf_setting_takes(key, number)) {
        char limits[96];
        if (key->max >= 1e15)
            snprintf(limits, sizeof limits, "at least %.15g", key->min);
        else
            snprintf(limits, sizeof limits, "%.15g to %.15g", key->min, key->max);
        hrf_reader_find(r, node->line, node->column, "%s is %s; it must be %s", shown(key, name),
                        node->text, limits);
        return false;
    }
    *out = number;
    return true;
}

/* 8GiB, 64G, 512MiB, 1048576. G means GiB, as for Slurm. */
static void read_size(struct hrf_reader *r, const struct hrf_setting *key,
                      const struct hrf_yaml_node *node, int64_t *out)
{
    char name[SHOWN_SIZE];
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
    if (!hrf_setting_takes(key, number * factor)) {
        hrf_reader_find(r, node->line, node->column, "%s is %s; it must be at least 1MiB",
                        shown(key, name), node->text);
        return;
    }
    *out = (int64_t)(number * factor);
}

static void read_bool(struct hrf_reader *r, const struct hrf_setting *key,
                      const struct hrf_yaml_node *node, bool *out)
{
    const char *text = node->kind == HRF_YAML_SCALAR ? node->text : "";
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        wrong(r, key, node, "true or false");
    else
        *out = text[0] == 't';
}

static char *make_text(const struct hrf_reader *r, const char *text, bool is_path)
{
    char *made = is_path ? hrf_path_join(r->anchor, text) : hrf_strdup(text);
    if (is_path)
        hrf_path_tidy(made);
    return made;
}

static void read_text(struct hrf_reader *r, const struct hrf_setting *key,
                      const struct hrf_yaml_node *node, bool is_path, char **out)
{
    if (node->kind != HRF_YAML_SCALAR || hrf_yaml_is_null(node) || node->text[0] == '\0') {
        wrong(r, key, node, is_path ? "a path" : "a text");
        return;
    }
    hrf_free(*out);
    *out = make_text(r, node->text, is_path);
}

static void read_texts(struct hrf_reader *r, const struct hrf_setting *key,
                       const struct hrf_yaml_node *node, bool is_path, struct hrf_text_list *out)
{
    const bool is_one = is_path && node->kind == HRF_YAML_SCALAR && !hrf_yaml_is_null(node);
    const size_t n_items = is_one ? 1 : node->n_items;
    if (node->kind != HRF_YAML_SEQUENCE && !is_one) {
        wrong(r, key, node, is_path ? "a path or a list of paths" : "a list of texts");
        return;
    }
    hrf_text_list_release(out);
    out->items = hrf_calloc(n_items, sizeof out->items[0]);
    for (size_t i = 0; i < n_items; i++) {
        const struct hrf_yaml_node *item = is_one ? node : node->items[i].value;
        if (item->kind != HRF_YAML_SCALAR || item->text[0] == '\0')
            wrong(r, key, item, is_path ? "a path" : "a text");
        else
            out->items[out->n_items++] = make_text(r, item->text, is_path);
    }
}

static void read_triple(struct hrf_reader *r, const struct hrf_setting *key,
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

static void read_precisions(struct hrf_reader *r, const struct hrf_setting *key,
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
                            "'%s' stands twice in '{precision}'; name each precision once",
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
    const struct hrf_setting *key = &r->table.rows[index];
    void *member = (char *)r->record + key->at;
    double number;
    int word;
    r->lines[index] = r->is_override ? -1 : node->line;
    r->columns[index] = node->column;
    switch (key->type) {
    case HRF_SETTING_WORD:
        if ((word = read_word(r, key, node)) >= 0)
            *(int *)member = word;
        break;
    case HRF_SETTING_INT:
        if (read_number(r, key, node, true, &number))
            *(int64_t *)member = (int64_t)number;
        break;
    case HRF_SETTING_REAL:
        if (read_number(r, key, node, false, &number))
            *(double *)member = number;
        break;
    case HRF_SETTING_BOOL:
        read_bool(r, key, node, member);
        break;
    case HRF_SETTING_TEXT:
    case HRF_SETTING_PATH:
        read_text(r, key, node, key->type == HRF_SETTING_PATH, member);
        break;
    case HRF_SETTING_DURATION:
        if (node->kind != HRF_YAML_SCALAR || !is_duration(node->text))
            wrong(r, key, node, "a time such as \"02:00:00\" or \"1-12:00:00\"");
        else
            read_text(r, key, node, false, member);
        break;
    case HRF_SETTING_TEXTS:
    case HRF_SETTING_PATHS:
        read_texts(r, key, node, key->type == HRF_SETTING_PATHS, member);
        break;
    case HRF_SETTING_SIZE:
        read_size(r, key, node, member);
        break;
    case HRF_SETTING_TRIPLE:
        read_triple(r, key, node, member);
        break;
    case HRF_SETTING_PRECISIONS:
        read_precisions(r, key, node);
        break;
    }
}

/* ---- a file ---- */

size_t hrf_reader_index(const struct hrf_reader *r, const char *path)
{
    for (size_t i = 0; i < r->table.n; i++)
        if (strcmp(r->table.rows[i].key, path) == 0)
            return i;
    return r->table.n;
}

/* The words that are allowed at one place: the next part of the path of every key under `prefix`.
 */
static size_t words_under(const struct hrf_reader *r, const char *prefix, char words[64][48],
                          const char *pointers[67])
{
    size_t n = 0, length = strlen(prefix);
    for (size_t i = 0; i < r->table.n; i++) {
        const char *path = r->table.rows[i].key;
        if (length > 0 && (strncmp(path, prefix, length) != 0 || path[length] != '.'))
            continue;
        const char *part = path + length + (length > 0);
        char word[48];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(part, "."), part);
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known |= strcmp(words[k], word) == 0;
        if (!known && n < 64)
            snprintf(words[n++], sizeof words[0], "%s", word);
    }
    for (size_t k = 0; k < n; k++)
        pointers[k] = words[k];
    if (length == 0)
        pointers[n++] = "version";
    if (length == 0 && r->other_section != NULL)
        pointers[n++] = r->other_section;
    pointers[n] = NULL;
    return n;
}

void hrf_reader_unknown(struct hrf_reader *r, const char *prefix, const char *name, int line,
                        int column)
{
    char words[64][48];
    const char *pointers[67];
    HRF_AUTO_RELEASE(hrf_strbuf) list = HRF_STRBUF_INIT;
    size_t n = words_under(r, prefix, words, pointers);
    const char *near = hrf_nearest_word(name, pointers);
    for (size_t i = 0; i < n; i++)
        hrf_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", pointers[i]);
    HRF_AUTO_FREE char *shown = hrf_text_escaped(name);
    hrf_reader_find(r, line, column, "unknown key '%s'%s%s%s%s%s%s; allowed here: %s", shown,
                    prefix[0] != '\0' ? " in '" : "", prefix, prefix[0] != '\0' ? "'" : "",
                    near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                    near != NULL ? "'?" : "", list.text);
}

bool hrf_reader_is_prefix(const struct hrf_reader *r, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < r->table.n; i++)
        if (strncmp(r->table.rows[i].key, path, n) == 0 && r->table.rows[i].key[n] == '.')
            return true;
    return false;
}

/* True for a section or key at the top of the file that this table need not have. */
static bool is_of_others(const struct hrf_reader *r, const char *name)
{
    return strcmp(name, "version") == 0 ||
           (r->other_section != NULL && strcmp(name, r->other_section) == 0) ||
           (r->part == HRF_PART_EXECUTOR && strcmp(name, "executor") != 0);
}

void hrf_reader_map(struct hrf_reader *r, const char *prefix, const struct hrf_yaml_node *map)
{
    for (size_t i = 0; i < map->n_items; i++) {
        const struct hrf_yaml_node *key = map->items[i].key;
        char path[PATH_SIZE];
        if (map->items[i].duplicate_of > 0) {
            hrf_reader_find(r, key->line, key->column,
                            "the key '%s' stands here a second time (first in line %d); keep one",
                            key->text, map->items[i].duplicate_of);
            continue;
        }
        if (prefix[0] == '\0' && is_of_others(r, key->text))
            continue;
        int n = snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                         key->text);
        bool known = n > 0 && n < PATH_SIZE && strchr(key->text, '.') == NULL &&
                     (hrf_reader_index(r, path) < r->table.n || hrf_reader_is_prefix(r, path));
        if (!known)
            hrf_reader_unknown(r, prefix, key->text, key->line, key->column);
        else
            hrf_reader_node(r, path, map->items[i].value);
    }
}

void hrf_reader_node(struct hrf_reader *r, const char *path, const struct hrf_yaml_node *node)
{
    size_t index = hrf_reader_index(r, path);
    if (index < r->table.n)
        hrf_reader_value(r, index, node);
    else if (r->read_short_form != NULL && r->read_short_form(r, path, node))
        return;
    else if (node->kind == HRF_YAML_MAP)
        hrf_reader_map(r, path, node);
    else
        hrf_reader_find(r, node->line, node->column, "'%s' must be a map of keys, not '%s'", path,
                        node->kind == HRF_YAML_SCALAR ? node->text : "a list");
}

enum hrf_status hrf_reader_defaults(struct hrf_reader *r, struct hrf_error *err)
{
    for (size_t i = 0; i < r->table.n; i++) {
        if (r->table.rows[i].initial == NULL)
            continue;
        HRF_AUTO(hrf_yaml) yaml = NULL;
        HRF_TRY(hrf_yaml_parse(r->table.rows[i].initial, strlen(r->table.rows[i].initial),
                               "default", &yaml, err));
        hrf_reader_value(r, i, hrf_yaml_root(yaml));
        r->lines[i] = 0;
    }
    return HRF_OK;
}

bool hrf_reader_begin(struct hrf_reader *r, const char *what, const struct hrf_yaml_node *root)
{
    if (root->kind != HRF_YAML_MAP) {
        hrf_reader_find(r, root->line, root->column, "%s is a map of keys; begin with 'version: 1'",
                        what);
        return false;
    }
    const struct hrf_yaml_node *version = hrf_yaml_find(root, "version");
    if (version == NULL)
        hrf_reader_find(r, 0, 0, "'version' is missing; begin the file with 'version: 1'");
    else if (version->kind != HRF_YAML_SCALAR || strcmp(version->text, "1") != 0)
        hrf_reader_find(r, version->line, version->column,
                        "version '%s' is not known; this build reads version: %d",
                        version->kind == HRF_YAML_SCALAR ? version->text : "(not a number)",
                        FILE_VERSION);
    return true;
}

void hrf_reader_require(struct hrf_reader *r)
{
    for (size_t i = 0; i < r->table.n; i++) {
        const struct hrf_setting *row = &r->table.rows[i];
        if ((row->flags & HRF_SETTING_REQUIRED) != 0 && r->lines[i] == 0)
            hrf_reader_find(r, 0, 0, "'%s' is missing: %s", row->key, row->help);
    }
}
