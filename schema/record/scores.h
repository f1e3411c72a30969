/* scores.h - the result of one infer task: class probabilities of a run of patches, or the name of
 * the file that has their embeddings. */
#ifndef HRF_SCHEMA_RECORD_SCORES_H
#define HRF_SCHEMA_RECORD_SCORES_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/container.h"
#include "schema/record/label_maps.h"

#include <stdbool.h>
#include <stdint.h>

/* The time of a task in seconds. decode and prepare are summed over the reader threads; the others
 * are times of the compute loop, so that build + compute + wait + write is about `total`. Tasks
 * that share the reading have equal shares of decode, prepare and wait, so that the times of all
 * tasks add up to the time spent. */
struct hrf_timing {
    double build;   /* model loaded, planned, kernels made (once per job, on its first task) */
    double decode;  /* reading and decompressing, all reader threads together */
    double prepare; /* resample, normalise, lay out; all reader threads together */
    double compute; /* computation on the host and on devices */
    /* By the device's clock, summed over ranks: copies of pixels to the device, which may overlap
     * with computation, and kernels. NaN: the host computed. */
    double copy, kernels;
    double wait; /* compute waited for patches */
    double write;
    double total; /* wall */
    /* Patches that were read: half of the task's where two tasks shared the reading. */
    double reads;
    /* Likewise, what the readers of decode and prepare read: the first rank's, where several read.
     * NaN: a slide that was read as one image. */
    double fed;
};
void hrf_timing_add(struct hrf_timing *sum, const struct hrf_timing *part);

/* The class activation map of a slide that was scored as one image (Zhou et al., "Learning deep
 * features for discriminative localization", CVPR 2016): the last features before the pooling times
 * the weights of the predicted class, without the bias. The mean over the map plus the bias is the
 * class's logit. */
struct hrf_class_map {
    int32_t class_index;   /* the predicted class */
    int32_t rows, columns; /* over the whole frame */
    float *values;         /* [rows][columns], heap; NULL: there is no map */
};

/* The messages of one kind between the ranks that run a network together, summed over ranks. */
struct hrf_traffic {
    char operation[16];        /* "exchange", "reduce", "output", "control" */
    int64_t messages, bytes;   /* sent */
    double sending, receiving; /* s, in sending and in receiving, waiting included */
};
enum { HRF_MAX_TRAFFIC = 8 };
struct hrf_traffics {
    char transport[16]; /* "loop" (threads), "mpi", on GPUs "ipc+mpi" ...; "": only one rank */
    struct hrf_traffic items[HRF_MAX_TRAFFIC];
    int32_t n_items;
};
/* Adds the messages of each operation; different transports become "several". */
void hrf_traffics_add(struct hrf_traffics *sum, const struct hrf_traffics *part);

/* The hardware and software that scored a task; "": not known, or the device has none. */
struct hrf_hardware {
    char model[128];     /* "NVIDIA H200", "AMD EPYC 9654 96-Core Processor" */
    char path[64];       /* the target of the kernels: "compute capability 9.0", "AVX-512" */
    char driver[64];     /* "580.82.07 (CUDA 13.0)" */
    char libraries[128]; /* "cuDNN 9.19.0, CUDA runtime 13.0", "oneDNN 2.6.3" */
};

/* Embeddings are too large for a record: they are a file of their own, n_patches rows of n_classes
 * floats of 32 bits, little-endian, without a header. */
struct hrf_embeddings_mark {
    bool is_set;               /* then there are no probabilities */
    char sha256[HRF_HASH_HEX]; /* of the file; "": it is not complete (a part) */
    uint64_t *row_sums;        /* of a part: [n_patches], hrf_embedding_sum() of each row that is
                                  there, 0 of the others; heap; NULL otherwise */
};
/* Returns the FNV-1a hash of a row's bytes; it is never 0. */
uint64_t hrf_embedding_sum(const float *row, int64_t width);

#define HRF_SCORES_KIND "scores"  /* in its record's header */
enum { HRF_SCORES_NOTES = 4096 }; /* bytes: some forty nodes by name */

struct hrf_scores {
    struct hrf_record_identity identity; /* of the task whose result this is */
    char *precision;                     /* "fp32" */
    char *device;                        /* "cpu" */
    char *host;
    struct hrf_hardware hardware; /* of rank 0 */
    /* What decoded the slide's tiles: "cpu", "nvJPEG 13.3.2 (JPEG engines)". */
    char decoder[96];
    /* What of the network the precision did not cover, a line each: "node 'fc' (Gemm) stays in
     * float32: ...". What is longer is cut; "": nothing to say. */
    char notes[HRF_SCORES_NOTES];
    int64_t first_patch, n_patches; /* a range of the tile plan's patches */
    int32_t n_classes;
    /* [n_patches][n_classes]; with a segmentation network, the fraction of a patch's pixels with
     * the class's label. NULL: there are embeddings instead, or the numbers were not read. */
    float *probabilities;
    struct hrf_embeddings_mark embeddings;
    struct hrf_label_maps labels;   /* segmentation only */
    struct hrf_class_map class_map; /* of the only patch in slide mode; none otherwise */
    struct hrf_timing timing;
    struct hrf_traffics traffic;
    int64_t peak_memory_bytes;   /* activations, weights and workspace, by the plan */
    int64_t peak_process_bytes;  /* the largest resident size of the process so far; 0: not known */
    int64_t device_memory_bytes; /* the most memory of a process on a device, as its driver reported
                                    it; 0: not known */
    /* Energy of the machines' processors and of the devices meanwhile, other programs included;
     * NaN: not measured. */
    double energy_joules, gpu_energy_joules;
    int32_t n_threads, n_readers;
};

/* Copies the next note from *at to `line` and moves *at behind it. False: there is none left. */
bool hrf_scores_next_note(const char **at, char line[HRF_SCORES_NOTES]);

void hrf_scores_destroy(struct hrf_scores *scores);
HRF_DEFINE_AUTO(hrf_scores)
HRF_CHECKED enum hrf_status hrf_scores_encode(const struct hrf_scores *scores,
                                              struct hrf_bytes *out, struct hrf_error *err);
/* True if a record names a file of embeddings; nothing else of the record is decoded. */
bool hrf_scores_name_embeddings(const void *bytes, size_t n_bytes);
/* Decodes only the times of a record. */
HRF_CHECKED enum hrf_status hrf_scores_read_timing(const void *bytes, size_t n_bytes,
                                                   const char *where, struct hrf_timing *out,
                                                   struct hrf_error *err);
/* `expected`: see hrf_container_decode. */
HRF_CHECKED enum hrf_status hrf_scores_decode(const void *bytes, size_t n_bytes,
                                              const struct hrf_record_identity *expected,
                                              const char *where, struct hrf_scores **out,
                                              struct hrf_error *err);

#endif
