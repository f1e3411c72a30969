/* fuzz_slurm.c - whatever Slurm's commands print is read or refused, by every parser; the corpus is
 * what they really print. */
#include "base/alloc.h"
#include "orchestrator/executor/slurm/parse.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Sorted, each entry found by its own key. */
static void check_table(const struct hrf_slurm_table *table)
{
    for (size_t i = 0; i < table->n_entries; i++) {
        const struct hrf_slurm_entry *e = &table->entries[i];
        const struct hrf_slurm_entry *found = hrf_slurm_table_find(table, e->submission,
                                                                   e->array_index);
        if (found == NULL || found > e || found->array_index != e->array_index ||
            e->observed == HRF_JOB_UNKNOWN)
            abort(); /* ci-allow: how a fuzz entry says no */
        hrf_slurm_table_duplicate(table, e);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hrf_slurm_table table;
    struct hrf_slurm_limits limits;
    struct hrf_slurm_partition partition;
    struct hrf_slurm_end end;
    char line[64], cluster[64];
    int64_t id;
    bool never;
    HRF_AUTO_FREE char *text = hrf_strndup((const char *)data, size);
    char *queue = hrf_alloc(size + 1);
    if (text == NULL || queue == NULL) {
        hrf_free(queue);
        return 0;
    }
    memcpy(queue, data, size); /* with its NUL bytes, if it has any */
    queue[size] = '\0';
    if (hrf_slurm_table_parse(queue, size, "RUN", &table, NULL) == HRF_OK) {
        check_table(&table);
        hrf_slurm_table_release(&table);
    }
    hrf_slurm_sbatch_answer(true, text, "", &id, cluster);
    hrf_slurm_sbatch_answer(false, "", text, &id, cluster);
    hrf_slurm_error_line(text, line, sizeof line);
    hrf_slurm_reason(text, &never);
    hrf_slurm_config_parse(text, &limits);
    hrf_slurm_partition_parse(text, NULL, &partition);
    hrf_slurm_partition_parse(text, "main", &partition);
    hrf_slurm_job_parse(text, &end);
    hrf_slurm_sacct_parse(text, "hf-RUN-1", &end);
    return 0;
}
