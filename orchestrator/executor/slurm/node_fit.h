/* node_fit.h - whether a job fits the nodes of its partition, said with the numbers of both.
 *
 * sbatch says only "Requested node configuration is not available", or takes the job and never
 * starts it. What is asked follows from the workflow, what there is from `scontrol show`.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_NODE_FIT_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_NODE_FIT_H

#include "orchestrator/executor/slurm/parse.h"
#include "orchestrator/executor/slurm/script.h"

/* What a job asks of each of its nodes. */
struct hrf_slurm_need {
    int64_t n_nodes, n_ranks, n_cpus, n_gpus; /* ranks, cpus and gpus of one node */
    int64_t memory_bytes;                     /* of one node */
    int64_t minutes;
};

/* What a partition has. Zero: not known. */
struct hrf_slurm_offer {
    struct hrf_slurm_partition partition;
    int64_t n_nodes, most_cpus, most_gpus, most_memory_bytes; /* of its largest node each */
    int64_t n_fitting; /* nodes that have everything that was asked for */
};

/* Resources of a first attempt; `job` has the limits that unset keys are cut to. */
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
/* The limits of the site that unset keys are cut to: the partition's time, and the memory of its
 * largest node. */
void hrf_slurm_offer_limits(const struct hrf_slurm_offer *offer, struct hrf_slurm_job *job);
/* Asks, and says whether jobs of the kind fit. HRF_OK also where that cannot be known. */
HRF_CHECKED enum hrf_status hrf_slurm_fit_ask(const struct hrf_workflow_executor *settings,
                                              const char *kind, struct hrf_error *err);

#endif
