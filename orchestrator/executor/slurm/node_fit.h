/* node_fit.h - checks that a job fits the nodes of its partition, with messages that have both
 * numbers.
 *
 * sbatch only says "Requested node configuration is not available", or accepts the job and never
 * starts it. The request follows from the workflow, the nodes' resources from `scontrol show`.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_NODE_FIT_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_NODE_FIT_H

#include "orchestrator/executor/slurm/parse.h"
#include "orchestrator/executor/slurm/script.h"

/* What a job requests of each of its nodes. */
struct hrf_slurm_need {
    int64_t n_nodes, n_ranks, n_cpus, n_gpus; /* ranks, cpus and gpus of one node */
    int64_t memory_bytes;                     /* of one node */
    int64_t minutes;
};

/* The resources of a partition; 0 if one is not known. */
struct hrf_slurm_offer {
    struct hrf_slurm_partition partition;
    int64_t n_nodes, max_cpus, max_gpus, max_memory_bytes; /* of its largest node each */
    int64_t n_fitting; /* nodes that have everything that was asked for */
};

/* Returns the resources that a first attempt requests; `job` has the limits to which unset keys are
 * cut. */
struct hrf_slurm_need hrf_slurm_need_of(const struct hrf_slurm_job *job);
/* Reads the nodes of a partition from the output of `scontrol show node -o`. `out->partition` is
 * filled already. `need` NULL: n_fitting stays 0. Pure. */
void hrf_slurm_nodes_parse(const char *text, const struct hrf_slurm_need *need,
                           struct hrf_slurm_offer *out);
/* HRF_E_USER: a job like that would be refused or wait for ever; the text has what is asked, what
 * there is and the keys. Pure. */
HRF_CHECKED enum hrf_status hrf_slurm_fit(const struct hrf_slurm_need *need,
                                          const struct hrf_slurm_offer *offer,
                                          struct hrf_error *err);

/* Asks Slurm for the partition `name` (NULL: the default one) and its nodes. False: it does not
 * answer, or there is no such partition. */
bool hrf_slurm_offer_ask(const char *name, const struct hrf_slurm_need *need,
                         struct hrf_slurm_offer *out);
/* Sets the limits to which unset keys are cut: the partition's time, and the memory of its largest
 * node. */
void hrf_slurm_offer_limits(const struct hrf_slurm_offer *offer, struct hrf_slurm_job *job);
/* Asks Slurm and checks that jobs of the kind fit. HRF_OK also if Slurm does not answer. */
HRF_CHECKED enum hrf_status hrf_slurm_fit_ask(const struct hrf_workflow_executor *settings,
                                              const char *kind, struct hrf_error *err);

#endif
