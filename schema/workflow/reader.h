/* reader.h - one value from a YAML node into its place; findings with positions. */
#ifndef HRF_SCHEMA_WORKFLOW_READER_H
#define HRF_SCHEMA_WORKFLOW_READER_H

#include "schema/workflow/keys.h"
#include "schema/yaml/tree.h"

struct hrf_reader {
    struct hrf_workflow *workflow;
    const char *where;    /* the file, or "--set KEY" while an override is read */
    const char *anchor;   /* directory that relative paths are relative to */
    bool is_of_a_run;     /* a run stands: files that it names may be gone by now */
    bool is_override;     /* what is read is the text of a --set: its lines are not the file's */
    int *lines, *columns; /* [hrf_n_keys]: where a key was given; 0 = default, -1 = by --set */
    struct hrf_finding *findings;
    size_t n_findings, capacity;
    bool out_of_memory;
};

/* line 0: a finding about something that is not there, shown without a position. */
void hrf_reader_find(struct hrf_reader *reader, int line, int column, const char *format, ...)
    HRF_PRINTF(4, 5);
/* Reads `node` for hrf_keys[index]; what is wrong becomes a finding. */
void hrf_reader_value(struct hrf_reader *reader, size_t index, const struct hrf_yaml_node *node);
/* The checks that no single key can make, when all are read. */
void hrf_reader_check(struct hrf_reader *reader);
/* The index of a key by its path; hrf_n_keys when there is none. */
size_t hrf_key_index(const char *path);

#endif
