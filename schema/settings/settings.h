/* settings.h - every setting of a run as one typed struct, and the table of them.
 *
 * A setting is a row of hrf_settings[] (setting_rows.c). Reading a workflow file, --set, the
 * options of `infer` and `tile`, the resolved file, the JSON Schema, the page of keys, what workers
 * are told and content keys all walk the rows. A struct is complete: every default is filled in. It
 * is made by schema/workflow from YAML, or by hrf_settings_from_json() from what the orchestrator
 * wrote for a worker; nothing changes it afterwards, and any thread may read it. Paths are
 * absolute.
 */
#ifndef HRF_SCHEMA_SETTINGS_SETTINGS_H
#define HRF_SCHEMA_SETTINGS_SETTINGS_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "image/preparation.h"
#include "schema/settings/layout.h"
#include "schema/settings/precision.h"

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
    HRF_TISSUE_ONNX,
    HRF_TISSUE_NONE
};
enum hrf_edge { HRF_EDGE_DROP, HRF_EDGE_PAD, HRF_EDGE_SHIFT };
enum hrf_on_bad_tile { HRF_BAD_TILE_FAILS, HRF_BAD_TILE_IS_WHITE };
/* How INT8 ranges are chosen (calibrate/fit). */
enum hrf_fit_method {
    HRF_FIT_MINMAX,     /* all of it */
    HRF_FIT_PERCENTILE, /* all but 0.01 % of the numbers */
    HRF_FIT_ENTROPY,    /* least Kullback-Leibler divergence (Migacz, GTC 2017, S7310) */
    HRF_FIT_MSE,        /* near the least mean squared error: rounding inside, clipping outside */
    HRF_FIT_AUTO,       /* of these, the widest whose mean squared error is near the least */
    HRF_N_FIT_METHODS   /* also: not a method */
};
enum hrf_device { HRF_DEVICE_AUTO, HRF_DEVICE_CPU, HRF_DEVICE_CUDA };
enum hrf_decode { HRF_DECODE_CPU, HRF_DECODE_GPU, HRF_DECODE_AUTO };
enum hrf_executor_type { HRF_EXECUTOR_LOCAL, HRF_EXECUTOR_SLURM };
/* The model's output for a patch: class probabilities (Softmax, or Sigmoid for one output, is added
 * if the model ends in neither); an embedding; logits, to which Softmax or Sigmoid is added, the
 * latter for labels that do not exclude each other; numbers that are used unchanged (regression);
 * or a number of each class for every pixel (segmentation). */
enum hrf_model_output {
    HRF_OUTPUT_PROBABILITIES,
    HRF_OUTPUT_EMBEDDING,
    HRF_OUTPUT_SOFTMAX,
    HRF_OUTPUT_SIGMOID,
    HRF_OUTPUT_NONE,
    HRF_OUTPUT_SEGMENTATION
};
/* The tool in whose form embeddings are written (aggregate/features/features.h). */
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
/* True if slides are named: calibrate.slides may be left out. */
bool hrf_dataset_is_given(const struct hrf_workflow_dataset *dataset);

/* The limits of a patch's measures of quality (tiler/quality), 0..1; 0: not measured. */
struct hrf_workflow_quality {
    double pen, bubble, fold, blur;
};

struct hrf_workflow_tissue {
    enum hrf_tissue_method method;
    double min_tissue;            /* fraction of a patch's area, 0..1 */
    int64_t min_patches;          /* a slide with fewer is kept with a warning */
    struct hrf_text_list classes; /* which outlines in GeoJSON (coords) are tissue; none: all */
    /* Method onnx: the network that decides; NULL with another method. */
    char *model;
    double mpp;             /* um/px of its images; 0: not given */
    double threshold;       /* a pixel of at least this probability is tissue */
    int64_t size;           /* px, height and width of its images; 0: as the model says, else 512 */
    int64_t class;          /* its output that is tissue, from 0; -1: the last */
    double mean[3], std[3]; /* of RGB scaled to 0..1 */
};

struct hrf_workflow_tiler {
    enum hrf_tiler_mode mode;
    char *coords; /* file or folder with other programs' patches or tissue; NULL = none */
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
    struct hrf_workflow_tissue tissue;
    struct hrf_workflow_quality quality;
};

struct hrf_workflow_model {
    char *file;
    struct hrf_text_list classes; /* one per output of the head */
    char *positive;               /* one of classes */
    enum hrf_model_output output;
    struct {
        double mean[3], std[3]; /* of RGB scaled to 0..1 */
        bool is_given;          /* either of them, by the file or by --set */
        /* In the workflow file, 0 and AUTO stand for what the model states (hrf_cli_adopt_input).
         * After that was adopted, 0, 0 and AUTO mean that patches are not changed. */
        int64_t size, resize; /* px */
        enum hrf_interpolation interpolation;
    } input;
    /* Limits for one image; a model that needs more is refused. */
    int64_t max_memory_bytes; /* of one tensor, and of all constants */
    double max_operations;
};

struct hrf_workflow_calibrate {
    int64_t samples;
    enum hrf_fit_method method;
    int64_t seed;
    struct hrf_workflow_dataset slides; /* the source of the sample; not given: the cohort */
    double min_sqnr;                    /* dB; a tensor with less in 8 bits stays in float32 */
    /* The least cosine of outputs with float32, or the least share of patches of the same class,
     * that INT8 must keep; 0: not given. At most one of them is given. */
    struct {
        double cosine, agreement;
    } budget;
    struct hrf_text_list keep; /* nodes and tensors that stay in float32 in any case */
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
        enum hrf_halos halos;
        enum hrf_bands_rows bands;
        enum hrf_attention_keys attention;
    } parallel;
};

struct hrf_workflow_executor {
    bool is_given; /* a key of the section, by the file or by --set */
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
/* Which slides test a head: each slide in one fold, those of the dataset's testing part, or those
 * that a table names. */
enum hrf_head_split { HRF_HEADS_BY_FOLDS, HRF_HEADS_BY_DATASET, HRF_HEADS_BY_TABLE };

/* How slides are scored from their embeddings (with model.output embedding): by the head `file`, or
 * by heads that the run trains; or, from the scores of their patches, by random forests. */
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
/* True if slides get scores from a slide head on embeddings. */
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

/* ---- the table ---- */

enum hrf_setting_type {
    HRF_SETTING_WORD = 1,   /* enum, one of `words` by position */
    HRF_SETTING_INT,        /* int64_t, min..max */
    HRF_SETTING_REAL,       /* double, min..max; without a default, 0 is "not given" */
    HRF_SETTING_BOOL,       /* bool */
    HRF_SETTING_TEXT,       /* char *; NULL is "not given" */
    HRF_SETTING_PATH,       /* char *, relative to the file */
    HRF_SETTING_TEXTS,      /* struct hrf_text_list */
    HRF_SETTING_PATHS,      /* struct hrf_text_list */
    HRF_SETTING_SIZE,       /* int64_t bytes: 8GiB, 64G, 512MiB; 0 is "not given" */
    HRF_SETTING_TRIPLE,     /* double[3], min..max each */
    HRF_SETTING_PRECISIONS, /* precision[], n_precisions */
    HRF_SETTING_DURATION    /* char *: HH:MM:SS or D-HH:MM:SS */
};

/* The phases whose results a setting changes. */
enum {
    HRF_FOR_NOTHING = 1,    /* only which tasks there are, or how they are done */
    HRF_FOR_TILES = 2,      /* tile plans */
    HRF_FOR_STATISTICS = 4, /* what calibrate tasks observe */
    HRF_FOR_LAYERS = 8,     /* what they measure of layers for a budget */
    HRF_FOR_SCALES = 16,    /* INT8 scales */
    HRF_FOR_SCORES = 32,    /* scores and embeddings of patches */
    HRF_FOR_HEADS = 64,     /* scores of slides by a slide head */
    HRF_FOR_TRAINING = 128, /* slide heads that are trained */
    HRF_FOR_REPORT = 256,   /* figures and pages, which are made anew each time */
    HRF_FOR_IMAGES = 512,   /* slides as one image each, which a training reads */
    HRF_FOR_BAGS = 1024     /* slides as bags of patches, likewise */
};
enum {
    HRF_SETTING_FOR_WORKERS = 1, /* workers are told it */
    HRF_SETTING_REQUIRED = 4,    /* a file without it is refused */
    /* The content key has not the setting but what it means for the task (the slide's resolution,
       the task's precision, the number of classes), which is hashed with the task's inputs. */
    HRF_SETTING_BY_TASK = 2
};

/* The case in which a setting has a meaning. */
struct hrf_setting_case {
    bool (*holds)(const struct hrf_workflow *workflow);
    const char *refusal; /* the error if it is given in another case; NULL: it is then ignored */
};

struct hrf_setting {
    const char *key;    /* "tiler.patch.size" */
    const char *option; /* of `infer` and `tile`, without the dashes; NULL: --set alone */
    const char
        *argument; /* of the option, "PX" in the help, or an operand; NULL: a flag, or none */
    const char *help;
    const char *initial; /* the default as YAML text; NULL: none */
    enum hrf_setting_type type;
    unsigned phases, flags;
    size_t at; /* offset in the struct: of hrf_settings[] struct hrf_workflow */
    double min, max;
    const char *const *words;            /* NULL at the end */
    const struct hrf_setting_case *when; /* NULL: always */
    const char *recipe; /* the key of the same value in the file of `head train`; NULL: none */
};
extern const struct hrf_setting hrf_settings[];
extern const size_t hrf_n_settings;

/* Default, range and help of settings that a workflow's `slide_head` and the file of `head train`
 * have in common. */
#define HRF_HEAD_HIDDEN                                                                            \
    .initial = "512", .min = 1, .max = 8192, .help = "width of the first layer (not mean, dsmil)"
#define HRF_HEAD_ATTENTION                                                                         \
    .initial = "0", .min = 0, .max = 8192,                                                         \
    .help = "width of the attention; 0: the head's own, 256; dsmil 128"
#define HRF_HEAD_DROPOUT                                                                           \
    .initial = "-1", .min = -1, .max = 0.9,                                                        \
    .help = "below 0: the head's own, 0.25; transmil 0.1; mean and dsmil 0"
/* Likewise of a workflow's `tiler` and of the file of `train`. */
#define HRF_TILER_SLIDE_SIZE                                                                       \
    .initial = "8192", .min = 64, .max = 32767,                                                    \
    .help = "mode slide: height and width of the image in px; white outside the slide"
#define HRF_TILER_SLIDE_MPP                                                                        \
    .initial = "4.0", .min = 0.05, .max = 100,                                                     \
    .help = "mode slide: resolution of the image in um/px"
#define HRF_HEAD_FOLDS .initial = "5", .min = 2, .max = 100, .help = "how many folds"
#define HRF_HEAD_VALIDATION                                                                        \
    .initial = "0.15", .min = 0, .max = 0.5,                                                       \
    .help = "share of the patients for training that is drawn for validation, which stops a "      \
            "training early; 0: none, and the last epoch is kept"
#define HRF_HEAD_EPOCHS .initial = "50", .min = 1, .max = 100000, .help = "passes over the slides"
#define HRF_HEAD_PATIENCE                                                                          \
    .initial = "10", .min = 1, .max = 100000,                                                      \
    .help = "a training ends after so many epochs without a lower validation loss"
#define HRF_HEAD_LEARNING_RATE .initial = "0.0002", .min = 1e-9, .max = 10, .help = "of Adam"
#define HRF_HEAD_WEIGHT_DECAY  .initial = "0.00001", .min = 0, .max = 10, .help = "of Adam"

/* The rows of another file's struct: `head train` has one (heads/train/recipe.c). */
struct hrf_setting_table {
    const struct hrf_setting *rows;
    size_t n;
};

/* The address of the member checks its type: a wrong type does not compile. */
#define HRF_SETTING_AT(of, member, c_type)                                                         \
    .at = _Generic(&((of *)NULL)->member, c_type * : offsetof(of, member))

/* The words of enumerations, by value. */
extern const char *const hrf_words_layout[];
extern const char *const hrf_words_split[];
extern const char *const hrf_words_mode[];
extern const char *const hrf_words_tissue[];
extern const char *const hrf_words_edge[];
extern const char *const hrf_words_on_bad_tile[];
extern const char *const hrf_words_fit[];
extern const char *const hrf_words_device[];
extern const char *const hrf_words_decode[];
extern const char *const hrf_words_executor[];
extern const char *const hrf_words_score[];
extern const char *const hrf_words_lesions[];
extern const char *const hrf_words_output[];
extern const char *const hrf_words_features[];
extern const char *const hrf_words_features_type[];
extern const char *const hrf_words_heads[];
extern const char *const hrf_words_forest[];
extern const char *const hrf_words_heads_split[];

/* Returns the row of a key, or NULL if there is none. */
const struct hrf_setting *hrf_setting_find(const char *key);
/* The value that `record`, the struct of the row, has; a new reference. A new type of setting is a
 * case in setting_field() and one in schema/workflow/reader.c. */
json_t *hrf_setting_value(const struct hrf_setting *setting, const void *record);
/* Frees the heap memory of a setting's value. */
void hrf_setting_release(const struct hrf_setting *setting, void *record);
/* True if the number is in the range of the row. */
bool hrf_setting_takes(const struct hrf_setting *setting, double number);
/* Appends what it takes: "whole number, 1 to 64", "list of fp32, tf32". */
void hrf_setting_add_type(const struct hrf_setting *setting, struct hrf_strbuf *out);
/* True if it has a value (not only a default of 0 or NULL that means "not given"). */
bool hrf_setting_is_set(const struct hrf_setting *setting, const struct hrf_workflow *workflow);
/* False in a case in which the setting has no meaning. */
bool hrf_setting_counts(const struct hrf_setting *setting, const struct hrf_workflow *workflow);

/* ---- walks over the rows ---- */

/* Adds key, type and value of each setting that changes the results of one of `phases`
 * (HRF_FOR_...) and is not BY_TASK. A path is left out: what counts is the file's content, which
 * the caller adds. */
void hrf_settings_hash(const struct hrf_workflow *workflow, unsigned phases, struct hrf_hash *hash);
/* Appends, as text for a key, key and value of each setting of a recipe that changes what `phase`
 * makes; a row that names no phase changes a training (HRF_FOR_TRAINING). */
void hrf_settings_of_phase(struct hrf_setting_table table, const void *recipe, unsigned phase,
                           struct hrf_strbuf *out);
/* An object "key": value of the settings that workers are told. */
json_t *hrf_settings_json(const struct hrf_workflow *workflow);
/* Reads such an object. HRF_E_USER: a key is unknown or missing, or a value is out of range. */
HRF_CHECKED enum hrf_status hrf_settings_from_json(const json_t *object, const char *where,
                                                   struct hrf_workflow **out,
                                                   struct hrf_error *err);

/* ---- names in messages ---- */

/* How messages name settings. */
enum hrf_setting_names {
    HRF_NAMES_ARE_KEYS,   /* tiler.patch.size */
    HRF_NAMES_ARE_OPTIONS /* --size; without an option --set tiler.tissue.min_tissue */
};
/* Makes the format of every error and log line (base/message.h) name settings so: "{model.file}"
 * becomes the key or the option, "{tiler.patch.edge=pad}" what sets it to that. For the start of a
 * program: not thread-safe. Programs that this one starts find it in their environment. */
void hrf_settings_name_by(enum hrf_setting_names names);
/* Makes hrf_error_report() add what a setting takes to an error that is about one. Call it at the
 * start of a program. */
void hrf_settings_describe_in_errors(void);
/* Makes messages name settings as the environment says. Call it at the start of a program that
 * others start. */
void hrf_settings_name_as_caller(void);
enum hrf_setting_names hrf_settings_names(void);

/* ---- what follows from several settings ---- */
bool hrf_workflow_has_budget(const struct hrf_workflow *workflow); /* calibrate.budget */
/* True if what INT8 loses is measured by the margin of a patch's class, else by the cosine of the
 * outputs. */
bool hrf_workflow_compares_margins(const struct hrf_workflow *workflow);
/* The text of engine.parallel that the engine reads, or "auto". Heap. */
char *hrf_workflow_layout(const struct hrf_workflow *workflow);
int64_t hrf_workflow_seconds(const char *duration); /* "D-HH:MM:SS" or "HH:MM:SS", as checked */
bool hrf_workflow_has_precision(const struct hrf_workflow *workflow, enum hrf_precision precision);
/* A variant is what patches are scored in: each precision and, with study.stain_jitter, the first
 * one again. */
enum { HRF_MOST_VARIANTS = HRF_N_PRECISIONS + 1 };
size_t hrf_workflow_n_variants(const struct hrf_workflow *workflow);
enum hrf_precision hrf_workflow_variant(const struct hrf_workflow *workflow, size_t index);
bool hrf_workflow_is_jitter(const struct hrf_workflow *workflow, size_t index);
/* Returns the precision's name, or HRF_JITTER. */
const char *hrf_workflow_variant_name(const struct hrf_workflow *workflow, size_t index);
/* Returns HRF_MOST_VARIANTS if no variant has that name. */
size_t hrf_workflow_find_variant(const struct hrf_workflow *workflow, const char *name);
/* How patches are resized and cropped before the network; size 0: not at all. */
struct hrf_preparation hrf_workflow_preparation(const struct hrf_workflow *workflow);
/* Returns the side in px of the images that the network gets. */
int64_t hrf_workflow_image_size(const struct hrf_workflow *workflow);
/* "patches of 256 px, resized to 224 (bicubic)"; NULL: they are not, or no memory. Heap. */
char *hrf_workflow_preparation_text(const struct hrf_workflow *workflow);
/* "softmax", "sigmoid" or "none" if that is what is asked for; else NULL. */
const char *hrf_model_activation(const struct hrf_workflow_model *model);
/* Returns how many numbers the model gives for a patch or a pixel, i.e. the number of classes; 0
 * for embeddings. */
int64_t hrf_workflow_n_scores(const struct hrf_workflow *workflow);
/* True if each slide is scored as one image. */
bool hrf_workflow_is_slides(const struct hrf_workflow *workflow);
/* Size and stride of the patches in px at mpp (um/px), or the frame of a slide that is one image.
 */
struct hrf_tile_region {
    int64_t size, stride;
    double mpp;
};
struct hrf_tile_region hrf_tiler_region(const struct hrf_workflow_tiler *tiler);
const char *hrf_fit_method_name(enum hrf_fit_method method);
const char *hrf_score_method_name(enum hrf_score_method method);
const char *hrf_tissue_method_name(enum hrf_tissue_method method);
const char *hrf_head_choice_name(enum hrf_head_choice choice);
const char *hrf_edge_name(enum hrf_edge edge);
const char *hrf_device_name(enum hrf_device device);

void hrf_workflow_destroy(struct hrf_workflow *workflow);
HRF_DEFINE_AUTO(hrf_workflow)

#endif
