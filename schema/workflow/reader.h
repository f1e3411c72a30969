/* reader.h - reads a YAML file into a struct by the rows of its settings; mistakes become findings
 * with positions.
 *
 * The workflow file and the files of `train` and `head train` are read by it. A new type of setting
 * is a case in hrf_reader_value().
 */
#ifndef HRF_SCHEMA_WORKFLOW_READER_H
#define HRF_SCHEMA_WORKFLOW_READER_H

#include "schema/workflow/workflow.h"
#include "schema/yaml/tree.h"

#include <stdarg.h>

enum hrf_reader_part {
    HRF_PART_WHOLE,
    HRF_PART_TO_CHECK, /* the whole file; what could be read is returned in spite of findings */
    HRF_PART_OF_A_RUN, /* the workflow of an existing run: files that it names may be gone */
    HRF_PART_TILER,    /* neither a dataset nor a model is needed */
    HRF_PART_EXECUTOR  /* the section `executor` of any file; its other sections are passed over */
};

struct hrf_reader {
    struct hrf_setting_table table; /* what keys there are */
    void *record;                   /* their struct */
    struct hrf_workflow *workflow;  /* the same, if it is a workflow; else NULL */
    const char *where;              /* the file, or "--set KEY" while an override is read */
    const char *anchor;             /* directory that relative paths are relative to */
    const char *here;               /* the working directory: that of paths in overrides */
    /* Reads what may stand at the path of a map instead of the map; NULL: nothing may. */
    bool (*read_short_form)(struct hrf_reader *reader, const char *path,
                            const struct hrf_yaml_node *node);
    enum hrf_reader_part part;
    const char *other_section; /* a section that is read by another table; NULL: there is none */
    bool is_override; /* what is read is the text of a --set: its lines are not the file's */
    /* [table.n]: where a key was given; 0 = default, -1 = by --set */
    int *lines, *columns;
    struct hrf_finding *findings;
    size_t n_findings, capacity;
};
void hrf_reader_init(struct hrf_reader *reader, struct hrf_setting_table table, void *record,
                     const char *where, const char *anchor);
void hrf_reader_release(struct hrf_reader *reader); /* what it found, too */

/* Adds a finding. Line 0 stands for a finding about something that is missing, shown without a
 * position. */
void hrf_reader_find(struct hrf_reader *reader, int line, int column, const char *format, ...)
    HRF_PRINTF(4, 5);
void hrf_reader_vfind(struct hrf_reader *reader, int line, int column, const char *format,
                      va_list args);
/* Finds texts that a list holds more than once. */
void hrf_reader_find_twice(struct hrf_reader *reader, const char *key,
                           const struct hrf_text_list *list);
/* Fills in every default. */
HRF_CHECKED enum hrf_status hrf_reader_defaults(struct hrf_reader *reader, struct hrf_error *err);
/* Reads `node` for the row `index`; what is wrong becomes a finding. */
void hrf_reader_value(struct hrf_reader *reader, size_t index, const struct hrf_yaml_node *node);
/* Reads the map, or the value, at a path of keys: "" is the whole file. */
void hrf_reader_map(struct hrf_reader *reader, const char *prefix, const struct hrf_yaml_node *map);
void hrf_reader_node(struct hrf_reader *reader, const char *path, const struct hrf_yaml_node *node);
/* The version of the file, and that it is a map of keys. `what`: "a workflow". */
bool hrf_reader_begin(struct hrf_reader *reader, const char *what,
                      const struct hrf_yaml_node *root);
/* A key that is not there, `name` under `prefix`. */
void hrf_reader_unknown(struct hrf_reader *reader, const char *prefix, const char *name, int line,
                        int column);
/* True if keys begin with the path and a point. */
bool hrf_reader_is_prefix(const struct hrf_reader *reader, const char *path);
/* The row of a key by its path; table.n when there is none. */
size_t hrf_reader_index(const struct hrf_reader *reader, const char *path);
/* Finds what has to be there and is not. */
void hrf_reader_require(struct hrf_reader *reader);
/* Hands out what was found, in the order of the file. HRF_E_USER: there is something. */
HRF_CHECKED enum hrf_status hrf_reader_finish(struct hrf_reader *reader,
                                              struct hrf_findings *findings, struct hrf_error *err);

/* The checks that no single key of a workflow can make, when all are read. */
void hrf_workflow_check(struct hrf_reader *reader);
/* What findings about an override are headed: "--set KEY", or the option that sets it. */
void hrf_reader_name_override(const char *key, char *out, size_t size);

#endif
