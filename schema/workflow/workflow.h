/* workflow.h - the workflow file as one typed struct, complete: every default is filled in.
 *
 * Made by hrf_workflow_load() from YAML (schema/yaml), written back by hrf_workflow_write() as
 * the resolved workflow.yaml of a run directory. Immutable after loading; any thread may read.
 * Paths are absolute after loading (relative ones are relative to the file that names them).
 */
#ifndef HRF_SCHEMA_WORKFLOW_WORKFLOW_H
#define HRF_SCHEMA_WORKFLOW_WORKFLOW_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/precision.h"
#include "base/preparation.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_layout { HRF_LAYOUT_CAMELYON16, HRF_LAYOUT_FILES, HRF_LAYOUT_CSV };
enum hrf_split { HRF_SPLIT_TESTING, HRF_SPLIT_TRAINING, HRF_SPLIT_ALL };
enum hrf_tiler_mode { HRF_TILER_PATCH, HRF_TILER_SLIDE };
enum hrf_tissue_method {
    HRF_TISSUE_OTSU,
    HRF_TISSUE_WSINFER,
    HRF_TISSUE_CLAM,
    HRF_TISSUE_NCRF,
    HRF_TISSUE_ONNX
};
enum hrf_edge { HRF_EDGE_DROP, HRF_EDGE_PAD, HRF_EDGE_SHIFT };
enum hrf_on_bad_tile { HRF_BAD_TILE_FAILS, HRF_BAD_TILE_IS_WHITE };
enum hrf_fit_method {
    HRF_FIT_MINMAX,
    HRF_FIT_PERCENTILE,
    HRF_FIT_ENTROPY,
    HRF_FIT_MSE,
    HRF_FIT_AUTO,
    HRF_FIT_BEST /* an old name of it */
};
enum hrf_device { HRF_DEVICE_AUTO, HRF_DEVICE_CPU, HRF_DEVICE_CUDA };
enum hrf_decode { HRF_DECODE_CPU, HRF_DECODE_GPU, HRF_DECODE_AUTO };
enum hrf_halo_choice { HRF_HALO_AUTO, HRF_HALO_PLAIN, HRF_HALO_OVERLAP };
enum hrf_attention_choice {
    HRF_ATTENTION_OF_AUTO,
    HRF_ATTENTION_OF_GATHERED,
    HRF_ATTENTION_OF_RING
};
enum hrf_bands_choice { HRF_BANDS_OF_AUTO, HRF_BANDS_OF_KEPT, HRF_BANDS_OF_RECOMPUTED };
enum hrf_executor_type { HRF_EXECUTOR_LOCAL, HRF_EXECUTOR_SLURM };
/* What the model gives for a patch: class probabilities (Softmax, or Sigmoid for one output, is
 * added where the model ends in neither); a vector that describes it; raw numbers to which Softmax
 * or Sigmoid is added, the latter for labels that do not exclude each other; numbers that are taken
 * as they are (regression); or a number of each class for every pixel (segmentation). */
enum hrf_model_output {
    HRF_OUTPUT_PROBABILITIES,
    HRF_OUTPUT_EMBEDDING,
    HRF_OUTPUT_SOFTMAX,
    HRF_OUTPUT_SIGMOID,
    HRF_OUTPUT_NONE,
    HRF_OUTPUT_SEGMENTATION
};
/* Whose HDF5 files embeddings are written as (aggregate/features/features.h). */
enum hrf_features_choice {
    HRF_FEATURES_AS_TRIDENT,
    HRF_FEATURES_AS_CLAM,
    HRF_FEATURES_AS_STAMP,
    HRF_FEATURES_AS_ATLASPATCH,
    HRF_FEATURES_AS_NPY
};
enum hrf_features_type { HRF_FEATURES_FP32, HRF_FEATURES_FP16 };
enum hrf_score_method {
    HRF_SCORE_MAX,
    HRF_SCORE_MEAN,
    HRF_SCORE_TOP_K_MEAN,
    HRF_SCORE_PERCENTILE,
    HRF_SCORE_MAX_SMOOTHED
};

struct hrf_text_list {
    char **items; /* heap strings */
    size_t n_items;
};

struct hrf_workflow_dataset {
    enum hrf_layout layout;
    char *root;                   /* camelyon16; NULL otherwise */
    enum hrf_split split;         /* camelyon16 */
    struct hrf_text_list files;   /* globs; files */
    bool recursive;               /* files: folders in folders, too */
    char *csv;                    /* csv; NULL otherwise */
    struct hrf_text_list exclude; /* slide names (stems) */
    double mpp;                   /* um/px for slides that carry none; 0 = not given */
    bool known_exclusions;        /* camelyon16: leave out slides that are known to be wrong */
};
/* Whether slides are named at all: calibrate.slides may be left out. */
bool hrf_dataset_is_given(const struct hrf_workflow_dataset *dataset);

struct hrf_workflow_tiler {
    enum hrf_tiler_mode mode;
    char *coords; /* where other programs' patches or tissue are; NULL = none */
    enum hrf_on_bad_tile on_bad_tile;
    struct {
        int64_t size; /* px at `mpp` */
        double mpp;   /* um/px */
        int64_t stride;
        enum hrf_edge edge;
        bool size_is_given, stride_is_given; /* by the file or by --set */
    } patch;
    struct {
        int64_t size; /* px at `mpp`, square, padded with white */
        double mpp;
    } slide;
    struct {
        enum hrf_tissue_method method;
        double min_tissue;   /* fraction of a patch's area, 0..1 */
        int64_t min_patches; /* a slide with fewer is kept with a warning */
        struct hrf_text_list
            classes; /* of outlines in GeoJSON (coords) that are tissue; none: all */
        /* Method onnx: the network that decides; NULL with another method. */
        char *model;
        double mpp;       /* um/px of its images; 0: not given */
        double threshold; /* a pixel of at least this probability is tissue */
        int64_t size;     /* px, height and width of its images; 0: as the model says, else 512 */
        int64_t class;    /* its output that is tissue, from 0; -1: the last */
        double mean[3], std[3]; /* of RGB scaled to 0..1 */
    } tissue;
    struct {
        double pen, bubble, fold, blur; /* most that a patch may have, 0..1; 0: not looked for */
    } quality;
};

struct hrf_workflow_model {
    char *file;
    struct hrf_text_list classes; /* one per output of the head */
    char *positive;               /* one of classes */
    enum hrf_model_output output;
    struct {
        double mean[3], std[3]; /* of RGB scaled to 0..1 */
        bool is_given;          /* either of them, by the file or by --set */
        /* As the file has it, 0 and AUTO mean what the model says (hrf_cli_adopt_input); as used,
         * patches go in as they are if all three do. */
        int64_t size, resize; /* px */
        enum hrf_interpolation interpolation;
    } input;
    /* A file that asks for more is refused: for one image. */
    int64_t max_memory_bytes; /* of one tensor, and of all constants */
    double max_operations;
};

struct hrf_workflow_calibrate {
    int64_t samples;
    enum hrf_fit_method method;
    int64_t seed;
    struct hrf_workflow_dataset slides; /* that the sample is drawn from; not given: the cohort */
    double min_sqnr; /* dB; a tensor that 8 bits hold with less stays in float32 */
    /* The least cosine of outputs with float32, or share of patches of the same class, that INT8 is
     * to keep; 0: not given. At most one of them is. */
    struct {
        double cosine, agreement;
    } budget;
    struct hrf_text_list keep; /* nodes and tensors that do in any case */
};

struct hrf_workflow_engine {
    enum hrf_device device;
    enum hrf_decode decode; /* of JPEG tiles */
    int64_t batch;
    int64_t memory_bytes; /* per rank; 0 = no limit given */
    struct {
        int64_t data, spatial_rows, spatial_cols, tensor; /* spatial: N = rows N */
        int64_t stages, microbatches;
        bool is_bidirectional, is_auto;
        enum hrf_halo_choice halos;
        enum hrf_bands_choice bands;
        enum hrf_attention_choice attention;
    } parallel;
};

struct hrf_workflow_executor {
    enum hrf_executor_type type;
    int64_t patches_per_job;
    int64_t max_jobs;
    int64_t retries;
    struct {
        int64_t ranks;                 /* processes of an infer job, joined by MPI */
        struct hrf_text_list launcher; /* words before "-n RANKS"; none: mpirun with its options */
        char *hang_after;              /* a job is ended after so long without a sign of life */
    } local;
    struct {
        char *profile; /* file with keys of this section, for those not given here; NULL = none */
        char *partition, *account, *qos, *constraint, *time;         /* NULL = not given */
        int64_t nodes, ranks_per_node, cpus_per_rank, gpus_per_rank; /* of an infer job */
        int64_t mem_per_node_bytes;                                  /* 0 = not given */
        struct hrf_text_list modules;                                /* loaded by `module load` */
        struct hrf_text_list prologue;  /* lines of bash before the job */
        struct hrf_text_list container; /* words before a worker's command line */
        struct hrf_text_list options;   /* more options of sbatch */
    } slurm;
};

enum hrf_lesions_choice { HRF_FIND_NO_LESIONS, HRF_FIND_COMPONENTS, HRF_FIND_MAXIMA };

struct hrf_workflow_aggregate {
    enum hrf_score_method slide_score;
    int64_t top_k;     /* top_k_mean */
    double percentile; /* percentile, 0..100 */
    double threshold;  /* score >= threshold is positive */
    struct {
        struct hrf_text_list
            slides;         /* patterns of names: the threshold is chosen on these slides */
        double specificity; /* to reach on them; 0: Youden's J */
    } tune;
    struct {
        enum hrf_lesions_choice method;
        double threshold; /* of a patch's probability */
        double radius;    /* um; nms */
    } lesions;
};

struct hrf_workflow_report {
    bool heatmaps, geojson, csv, html;
    bool masks; /* with model.output segmentation */
};

struct hrf_workflow_study {
    double stain_jitter; /* sigma; 0: patches are not scored with other stains */
    int64_t seed;        /* of what is drawn */
};

struct hrf_workflow_features { /* with model.output embedding */
    enum hrf_features_choice form;
    enum hrf_features_type type;
};

/* Slide heads that a run can train (heads/model/head.h). */
enum hrf_head_choice {
    HRF_TRAIN_NONE,
    HRF_TRAIN_MEAN,
    HRF_TRAIN_ABMIL,
    HRF_TRAIN_CLAM_SB,
    HRF_TRAIN_CLAM_MB,
    HRF_TRAIN_DSMIL,
    HRF_TRAIN_TRANSMIL
};
enum hrf_forest_choice { HRF_FOREST_NONE, HRF_FOREST_FEATURES };
/* Which slides test a head: each in its turn; those of the dataset's testing part; those that a
 * table says. */
enum hrf_head_split { HRF_HEADS_BY_FOLDS, HRF_HEADS_BY_DATASET, HRF_HEADS_BY_TABLE };

/* Slides scored from their embeddings, with model.output embedding: by the head `file`, or by heads
 * that the run trains; or from the scores of their patches by a forest. */
struct hrf_workflow_slide_head {
    char *file; /* ONNX; NULL: there is none */
    bool mixed; /* features that differ from those that the head was trained on are meant */
    enum hrf_head_choice train;
    /* Not of embeddings: random forests over the 30 features of heat maps. */
    enum hrf_forest_choice forest;
    int64_t trees;
    double map_threshold; /* patches above it form the regions that features describe */
    bool each_precision;  /* heads are also trained on the features of each other precision */
    enum hrf_head_split split;
    char *table; /* slide[,patient][,split]; NULL: none */
    int64_t folds, repeats, seed;
    double validation;
    int64_t epochs, patience, hidden, attention; /* attention 0: the head's own */
    double learning_rate, weight_decay, dropout; /* dropout < 0: the head's own */
    bool balanced;                               /* class weights */
};
/* Whether slides get scores from a slide head on embeddings. */
bool hrf_slide_head_is_given(const struct hrf_workflow_slide_head *head);

struct hrf_workflow {
    char *path; /* of the file it came from, absolute */
    char *name;
    struct hrf_workflow_dataset dataset;
    struct hrf_workflow_tiler tiler;
    struct hrf_workflow_model model;
    enum hrf_precision precision[HRF_N_PRECISIONS]; /* the first is the reference */
    size_t n_precisions;
    struct hrf_workflow_calibrate calibrate;
    struct hrf_workflow_engine engine;
    struct hrf_workflow_executor executor;
    struct hrf_workflow_aggregate aggregate;
    struct hrf_workflow_features features;
    struct hrf_workflow_slide_head slide_head;
    struct hrf_workflow_study study;
    struct hrf_workflow_report report;
    struct hrf_text_list on_end; /* argv of a command at the end of a run; none: no command */
    char *metrics;               /* file for the figures of the moment; NULL = none */
    char *cache; /* directory shared between runs; NULL = $XDG_CACHE_HOME/hires-flow */
};

struct hrf_finding {
    int line, column; /* from 1; 0 = about something that is not there, or about a --set */
    char *where;      /* the file, or "--set KEY" */
    char *message;    /* "what is wrong; what would be right" */
};

/* All that is wrong with a file, in file order. `text` is printable: one finding per line,
 * "where:line:column: message". */
struct hrf_findings {
    struct hrf_finding *items;
    size_t n_items;
    struct hrf_strbuf text;
};
#define HRF_FINDINGS_INIT                                                                          \
    {                                                                                              \
        .text = HRF_STRBUF_INIT                                                                    \
    }
void hrf_findings_release(struct hrf_findings *findings);

/* `overrides`: n texts "key.path=value" from --set, checked like the file ("--set key.path").
 * HRF_E_USER with *findings filled when the file has errors. Files that the workflow names (the
 * model) are checked for existence. */
HRF_CHECKED enum hrf_status hrf_workflow_load(const char *path, const char *const overrides[],
                                              size_t n_overrides, struct hrf_workflow **out,
                                              struct hrf_findings *findings, struct hrf_error *err);
/* The workflow.yaml of a run that stands: the model that it names may be gone by now. */
HRF_CHECKED enum hrf_status hrf_workflow_load_of_run(const char *path,
                                                     const char *const overrides[],
                                                     size_t n_overrides, struct hrf_workflow **out,
                                                     struct hrf_findings *findings,
                                                     struct hrf_error *err);
/* hrf_workflow_load() from memory; `path` names the text in messages and anchors relative paths. */
HRF_CHECKED enum hrf_status hrf_workflow_parse(const char *text, size_t n_bytes, const char *path,
                                               const char *const overrides[], size_t n_overrides,
                                               struct hrf_workflow **out,
                                               struct hrf_findings *findings,
                                               struct hrf_error *err);
void hrf_workflow_destroy(struct hrf_workflow *workflow);
HRF_DEFINE_AUTO(hrf_workflow)

/* The resolved form: every key, absolute paths; loads back to an equal struct. */
void hrf_workflow_write(const struct hrf_workflow *workflow, struct hrf_strbuf *out);
/* The keys in which two workflows differ, "tiler.patch.size: 256, was 128", one a line. */
void hrf_workflow_differences(const struct hrf_workflow *now, const struct hrf_workflow *before,
                              struct hrf_strbuf *out);
/* JSON Schema (draft 2020-12) of the file, made from the same tables that check it. */
HRF_CHECKED enum hrf_status hrf_workflow_json_schema(struct hrf_strbuf *out, struct hrf_error *err);
/* A Markdown table of every key: what it takes, its default, what it is. */
void hrf_workflow_describe(struct hrf_strbuf *out);
/* What this build cannot run yet, one sentence per line naming the key and its value; empty
 * when it can run all of it. `run` refuses a workflow for which this is not empty. */
void hrf_workflow_unsupported(const struct hrf_workflow *workflow, struct hrf_strbuf *out);

bool hrf_workflow_has_budget(const struct hrf_workflow *workflow); /* calibrate.budget */
/* engine.parallel as the engine reads layouts: "spatial=2x2,stages=3", "auto", "single". Heap;
 * NULL = no memory. */
char *hrf_workflow_layout(const struct hrf_workflow *workflow);
int64_t hrf_workflow_seconds(const char *duration); /* "D-HH:MM:SS" or "HH:MM:SS", as checked */
const char *hrf_precision_name(enum hrf_precision precision); /* "fp32" */
/* In what patches are scored: each precision and, with study.stain_jitter, the first one again. */
enum { HRF_MOST_VARIANTS = HRF_N_PRECISIONS + 1 };
size_t hrf_workflow_n_variants(const struct hrf_workflow *workflow);
enum hrf_precision hrf_workflow_variant(const struct hrf_workflow *workflow, size_t index);
bool hrf_workflow_is_jitter(const struct hrf_workflow *workflow, size_t index);
/* The precision's, or HRF_JITTER. */
const char *hrf_workflow_variant_name(const struct hrf_workflow *workflow, size_t index);
/* HRF_MOST_VARIANTS: none is called that. */
size_t hrf_workflow_find_variant(const struct hrf_workflow *workflow, const char *name);
/* What becomes of patches before the network; size 0: nothing. */
struct hrf_preparation hrf_workflow_preparation(const struct hrf_workflow *workflow);
/* Px of the images that the network is given. */
int64_t hrf_workflow_image_size(const struct hrf_workflow *workflow);
/* "patches of 256 px, resized to 224 (bicubic)"; NULL: they are not, or no memory. Heap. */
char *hrf_workflow_preparation_text(const struct hrf_workflow *workflow);
/* "softmax", "sigmoid" or "none" if that is what is asked for; else NULL. */
const char *hrf_model_activation(const struct hrf_workflow_model *model);
const char *hrf_score_method_name(enum hrf_score_method method);
const char *hrf_tissue_method_name(enum hrf_tissue_method method);
const char *hrf_head_choice_name(enum hrf_head_choice choice);
const char *hrf_edge_name(enum hrf_edge edge);
const char *hrf_on_bad_tile_name(enum hrf_on_bad_tile choice);
const char *hrf_device_name(enum hrf_device device);
const char *hrf_decode_name(enum hrf_decode decode);

#endif
