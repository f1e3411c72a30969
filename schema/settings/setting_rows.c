/* setting_rows.c - every setting, once: its key, type, place, default, range, what it changes and
 * what it is. To add one: a member in settings.h, a row here, and the code that uses it. */
#include "schema/settings/settings.h"

#include <stddef.h>

const char *const hrf_words_layout[] = { "camelyon16", "files", "csv", NULL };
const char *const hrf_words_split[] = { "testing", "training", "all", NULL };
const char *const hrf_words_mode[] = { "patch", "slide", NULL };
const char *const hrf_words_tissue[] = { "otsu", "wsinfer", "clam", "ncrf", "onnx", "none", NULL };
const char *const hrf_words_edge[] = { "drop", "pad", "shift", NULL };
const char *const hrf_words_on_bad_tile[] = { "fail", "white", NULL };
const char *const hrf_words_fit[] = { "minmax", "percentile", "entropy", "mse", "auto", NULL };
const char *const hrf_words_device[] = { "auto", "cpu", "cuda", NULL };
const char *const hrf_words_decode[] = { "cpu", "gpu", "auto", NULL };
const char *const hrf_words_executor[] = { "local", "slurm", NULL };
const char *const hrf_words_output[] = { "probabilities", "embedding",    "softmax", "sigmoid",
                                         "none",          "segmentation", NULL };
const char *const hrf_words_features[] = { "trident", "clam", "stamp", "atlaspatch", "npy", NULL };
const char *const hrf_words_features_type[] = { "fp32", "fp16", NULL };
const char *const hrf_words_heads[] = { "none",    "mean",  "abmil",    "clam_sb",
                                        "clam_mb", "dsmil", "transmil", NULL };
const char *const hrf_words_forest[] = { "none", "features", NULL };
const char *const hrf_words_heads_split[] = { "folds", "dataset", "table", NULL };
const char *const hrf_words_lesions[] = { "none", "components", "nms", NULL };
const char *const hrf_words_score[] = { "max",        "mean",         "top_k_mean",
                                        "percentile", "max_smoothed", NULL };

static bool is_patches(const struct hrf_workflow *w)
{
    return w->tiler.mode == HRF_TILER_PATCH;
}
static bool is_frames(const struct hrf_workflow *w)
{
    return w->tiler.mode == HRF_TILER_SLIDE;
}
static bool has_fixed_layout(const struct hrf_workflow *w)
{
    return !w->engine.parallel.is_auto;
}
static bool has_coords(const struct hrf_workflow *w)
{
    return w->tiler.coords != NULL;
}
static bool has_tissue_network(const struct hrf_workflow *w)
{
    return w->tiler.tissue.method == HRF_TISSUE_ONNX;
}
static bool is_camelyon16(const struct hrf_workflow *w)
{
    return w->dataset.layout == HRF_LAYOUT_CAMELYON16;
}
static bool is_files(const struct hrf_workflow *w)
{
    return w->dataset.layout == HRF_LAYOUT_FILES;
}
static bool has_calibration_slides(const struct hrf_workflow *w)
{
    return hrf_dataset_is_given(&w->calibrate.slides);
}
static bool has_calibration_root(const struct hrf_workflow *w)
{
    return w->calibrate.slides.root != NULL;
}
static bool has_calibration_files(const struct hrf_workflow *w)
{
    return w->calibrate.slides.files.n_items > 0;
}

static const struct hrf_setting_case of_patches = { is_patches, NULL };
static const struct hrf_setting_case of_frames = { is_frames, NULL };
static const struct hrf_setting_case of_fixed_layout = { has_fixed_layout, NULL };
static const struct hrf_setting_case of_outlines = {
    has_coords,
    "'classes' chooses among outlines, and '{tiler.coords}' names none; name their folder"
};
static const struct hrf_setting_case of_tissue_network = {
    has_tissue_network, "only {tiler.tissue.method} 'onnx' has a network; set it, or leave this out"
};
static const struct hrf_setting_case of_camelyon16 = { is_camelyon16, NULL };
static const struct hrf_setting_case of_files = { is_files, NULL };
static const struct hrf_setting_case of_calibration_slides = { has_calibration_slides, NULL };
static const struct hrf_setting_case of_calibration_root = { has_calibration_root, NULL };
static const struct hrf_setting_case of_calibration_files = { has_calibration_files, NULL };

enum {
    FOR_NOTHING = HRF_FOR_NOTHING,
    FOR_TILES = HRF_FOR_TILES,
    FOR_STATISTICS = HRF_FOR_STATISTICS,
    FOR_LAYERS = HRF_FOR_LAYERS,
    FOR_SCALES = HRF_FOR_SCALES,
    FOR_SCORES = HRF_FOR_SCORES,
    FOR_HEADS = HRF_FOR_HEADS,
    FOR_TRAINING = HRF_FOR_TRAINING,
    FOR_REPORT = HRF_FOR_REPORT,
    WORKERS = HRF_SETTING_FOR_WORKERS,
    BY_TASK = HRF_SETTING_BY_TASK,
    REQUIRED = HRF_SETTING_REQUIRED
};
/* Numbers as a default is written. */
#define LIST_TEXT(...)   "[" #__VA_ARGS__ "]"
#define TRIPLE_TEXT(...) LIST_TEXT(__VA_ARGS__)
#define MANY             1e15 /* "no upper limit" for counts: exact in a double */

#define PLACE(member, c_type) HRF_SETTING_AT(struct hrf_workflow, member, c_type)
#define AT(member, c_type)    .key = #member, PLACE(member, c_type)
#define ARRAY(member, c_type, n)                                                                   \
    .key = #member, .at = _Generic(&((struct hrf_workflow *)NULL)->member, c_type(*)[n]            \
                                   : offsetof(struct hrf_workflow, member))
#define WORD(member, tag, list) AT(member, enum hrf_##tag), .type = HRF_SETTING_WORD, .words = list
#define INTEGER(member)         AT(member, int64_t), .type = HRF_SETTING_INT
#define REAL(member)            AT(member, double), .type = HRF_SETTING_REAL
#define BOOLEAN(member)         AT(member, bool), .type = HRF_SETTING_BOOL
#define TEXT(member)            AT(member, char *), .type = HRF_SETTING_TEXT
#define PATH(member)            AT(member, char *), .type = HRF_SETTING_PATH
#define DURATION(member)        AT(member, char *), .type = HRF_SETTING_DURATION
#define TEXTS(member)           AT(member, struct hrf_text_list), .type = HRF_SETTING_TEXTS
#define PATHS(member)           AT(member, struct hrf_text_list), .type = HRF_SETTING_PATHS
#define TRIPLE(member)          ARRAY(member, double, 3), .type = HRF_SETTING_TRIPLE
#define PRECISIONS(member)                                                                         \
    ARRAY(member, enum hrf_precision, HRF_N_PRECISIONS), .type = HRF_SETTING_PRECISIONS

const struct hrf_setting hrf_settings[] = {
    { TEXT(name), .initial = "run", .phases = FOR_REPORT,
      .help = "the run's name, shown in the report" },

    /* dataset */
    { WORD(dataset.layout, layout, hrf_words_layout), .phases = FOR_NOTHING, .flags = REQUIRED,
      .help = "how the slides are stored" },
    { PATH(dataset.root), .phases = FOR_NOTHING,
      .help = "layout camelyon16: the top folder of the dataset" },
    { WORD(dataset.split, split, hrf_words_split), .initial = "testing", .phases = FOR_NOTHING,
      .when = &of_camelyon16, .help = "layout camelyon16: which part of the dataset" },
    { PATHS(dataset.files), .phases = FOR_NOTHING, .argument = "SLIDE|FOLDER",
      .help = "layout files: slide files, folders of them, or glob patterns" },
    { BOOLEAN(dataset.recursive), .initial = "false", .phases = FOR_NOTHING, .when = &of_files,
      .option = "recursive", .help = "layout files: search the folders in folders, too" },
    { PATH(dataset.csv), .phases = FOR_NOTHING,
      .help = "layout csv: a table with the columns slide,label[,mpp][,annotation]" },
    { TEXTS(dataset.exclude), .phases = FOR_NOTHING, .help = "names of slides to leave out" },
    { BOOLEAN(dataset.known_exclusions), .initial = "true", .phases = FOR_REPORT,
      .when = &of_camelyon16,
      .help = "layout camelyon16: leave out slides that are known to be wrong, each with its "
              "reason; false keeps them, in the lesion task too" },
    { REAL(dataset.mpp), .min = 0.05, .max = 10, .phases = FOR_TILES, .flags = BY_TASK,
      .option = "slide-mpp", .argument = "UM",
      .help = "resolution in um/px for slides whose files state none" },

    /* tiler */
    { WORD(tiler.mode, tiler_mode, hrf_words_mode), .initial = "patch", .phases = FOR_TILES,
      .flags = WORKERS, .option = "mode", .argument = "MODE",
      .help = "patch: score patches of tissue; slide: score each slide as one image" },
    { PATH(tiler.coords), .phases = FOR_TILES, .flags = WORKERS, .option = "coords",
      .argument = "PLACE",
      .help =
          "patches that another program chose: a folder with a file for each slide (HDF5 of CLAM, "
          "TRIDENT, AtlasPatch, WSInfer or STAMP, csv of WSInfer), or tissue as GeoJSON (QuPath)" },
    { WORD(tiler.on_bad_tile, on_bad_tile, hrf_words_on_bad_tile), .initial = "fail",
      .phases = FOR_TILES, .flags = WORKERS, .option = "on-bad-tile", .argument = "WHAT",
      .help = "what a tile of a slide that does not decode does: fail: its slide fails; white: the "
              "tile is white, and the patches on it are counted and listed (each slide is then "
              "read once more, when it is tiled)" },
    { INTEGER(tiler.patch.size), .initial = "256", .min = 16, .max = 8192, .phases = FOR_TILES,
      .flags = WORKERS, .when = &of_patches, .option = "size", .argument = "PX",
      .help = "height and width of a patch in px; left out: those that the model's file fixes, if "
              "any" },
    { REAL(tiler.patch.mpp), .initial = "0.5", .min = 0.05, .max = 100, .phases = FOR_TILES,
      .flags = WORKERS, .when = &of_patches, .option = "mpp", .argument = "UM",
      .help = "resolution of patches in um/px" },
    { INTEGER(tiler.patch.stride), .min = 1, .max = 8192, .phases = FOR_TILES, .flags = WORKERS,
      .when = &of_patches, .option = "stride", .argument = "PX",
      .help = "distance between neighbouring patches in px; default: the patch size" },
    { WORD(tiler.patch.edge, edge, hrf_words_edge), .initial = "drop", .phases = FOR_TILES,
      .flags = WORKERS, .when = &of_patches, .option = "edge", .argument = "WHAT",
      .help = "the strip at the right and lower edge where no whole patch fits: left out; scored "
              "with white beyond the slide (pad); or by patches that are moved back onto the slide "
              "and overlap their neighbours (shift)" },
    { WORD(tiler.tissue.method, tissue_method, hrf_words_tissue), .initial = "otsu",
      .phases = FOR_TILES, .flags = WORKERS, .option = "tissue", .argument = "METHOD",
      .help = "how tissue is separated from background; onnx: by a network; none: all is tissue" },
    { REAL(tiler.tissue.min_tissue), .initial = "0.5", .min = 0, .max = 1, .phases = FOR_TILES,
      .flags = WORKERS, .when = &of_patches, .option = "min-tissue", .argument = "FRACTION",
      .help = "smallest fraction of tissue in a patch that is scored; 0: any tissue at all" },
    { INTEGER(tiler.tissue.min_patches), .initial = "16", .min = 0, .max = MANY,
      .phases = FOR_TILES, .flags = WORKERS, .when = &of_patches,
      .help = "a slide with fewer patches is searched again with a relaxed threshold, and marked" },
    { TEXTS(tiler.tissue.classes), .phases = FOR_TILES, .flags = WORKERS, .when = &of_outlines,
      .option = "tissue-class-name", .argument = "A,B,...",
      .help = "tiler.coords in GeoJSON: names of QuPath's classes whose outlines are tissue; "
              "default: all but ignored ones (Ignore*)" },
    { PATH(tiler.tissue.model), .phases = FOR_TILES, .flags = WORKERS, .when = &of_tissue_network,
      .option = "tissue-model", .argument = "FILE.onnx",
      .help = "method onnx: the network, an ONNX file that takes RGB images NxCxHxW and gives maps "
              "(or a number for each class of an image)" },
    { REAL(tiler.tissue.mpp), .min = 0.05, .max = 100, .phases = FOR_TILES, .flags = WORKERS,
      .when = &of_tissue_network, .option = "tissue-mpp", .argument = "UM",
      .help = "method onnx: resolution in um/px of the images that the network is given" },
    { REAL(tiler.tissue.threshold), .initial = "0.5", .min = 0.001, .max = 1, .phases = FOR_TILES,
      .flags = WORKERS, .when = &of_tissue_network, .option = "tissue-threshold", .argument = "P",
      .help = "method onnx: a pixel of at least this probability is tissue" },
    { INTEGER(tiler.tissue.size), .initial = "0", .min = 0, .max = 8192, .phases = FOR_TILES,
      .flags = WORKERS, .when = &of_tissue_network, .option = "tissue-size", .argument = "PX",
      .help = "method onnx: height and width of the network's images in px; 0: as the model says, "
              "else 512" },
    { INTEGER(tiler.tissue.class), .initial = "-1", .min = -1, .max = 65535, .phases = FOR_TILES,
      .flags = WORKERS, .when = &of_tissue_network, .option = "tissue-class", .argument = "N",
      .help = "method onnx: the network's output that is tissue, counted from 0; -1: the last" },
    { TRIPLE(tiler.tissue.mean), .initial = TRIPLE_TEXT(HRF_IMAGENET_MEAN), .min = -10, .max = 10,
      .phases = FOR_TILES, .flags = WORKERS, .when = &of_tissue_network,
      .help = "method onnx: as model.input.mean" },
    { TRIPLE(tiler.tissue.std), .initial = TRIPLE_TEXT(HRF_IMAGENET_STD), .min = 1e-6, .max = 1000,
      .phases = FOR_TILES, .flags = WORKERS, .when = &of_tissue_network,
      .help = "method onnx: as model.input.std" },
    { REAL(tiler.quality.pen), .min = 0.001, .max = 1, .phases = FOR_TILES, .flags = WORKERS,
      .option = "pen", .argument = "FRACTION",
      .help = "leave out patches of which more than this fraction is marker ink or black, e.g. "
              "0.05; default: not looked for" },
    { REAL(tiler.quality.bubble), .min = 0.001, .max = 1, .phases = FOR_TILES, .flags = WORKERS,
      .option = "bubble", .argument = "FRACTION",
      .help = "the same for air bubbles (round areas in a gray line), e.g. 0.1" },
    { REAL(tiler.quality.fold), .min = 0.001, .max = 1, .phases = FOR_TILES, .flags = WORKERS,
      .option = "fold", .argument = "FRACTION",
      .help =
          "the same for folds (tissue of 1.7 times the usual density in R, G and B), e.g. 0.2" },
    { REAL(tiler.quality.blur), .min = 0.001, .max = 1, .phases = FOR_TILES, .flags = WORKERS,
      .option = "blur", .argument = "BLUR",
      .help = "leave out patches that are blurred more than this (the blur effect of Crete, 0 "
              "sharp to 1), e.g. 0.55 for patches of 0.25 um/px, 0.4 for 0.5; each patch is then "
              "read once more" },
    { INTEGER(tiler.slide.size), HRF_TILER_SLIDE_SIZE, .phases = FOR_TILES, .flags = WORKERS,
      .when = &of_frames, .option = "size", .argument = "PX" },
    { REAL(tiler.slide.mpp), HRF_TILER_SLIDE_MPP, .phases = FOR_TILES, .flags = WORKERS,
      .when = &of_frames, .option = "mpp", .argument = "UM" },

    /* model */
    { PATH(model.file), .phases = FOR_STATISTICS | FOR_SCALES | FOR_SCORES,
      .flags = WORKERS | REQUIRED, .option = "model", .argument = "FILE.onnx",
      .help = "the ONNX file" },
    { TEXTS(model.classes), .initial = "[normal, tumor]",
      .phases = FOR_SCALES | FOR_SCORES | FOR_HEADS | FOR_REPORT, .flags = WORKERS | BY_TASK,
      .option = "classes", .argument = "A,B,...",
      .help = "class names, one for each output of the model" },
    { TEXT(model.positive), .phases = FOR_REPORT, .option = "positive", .argument = "CLASS",
      .help = "the class that makes a slide positive; default: the last class" },
    { WORD(model.output, model_output, hrf_words_output), .initial = "probabilities",
      .phases = FOR_STATISTICS | FOR_SCALES | FOR_SCORES | FOR_REPORT, .flags = WORKERS,
      .help =
          "what a patch's numbers are: probabilities (Softmax, or Sigmoid for one class, is added "
          "if the model ends in neither); softmax, sigmoid: what is added to raw outputs, sigmoid "
          "for several labels at once; none: numbers as they are (regression); embedding; "
          "segmentation: each pixel gets the class of its largest output" },
    { TRIPLE(model.input.mean), .initial = TRIPLE_TEXT(HRF_IMAGENET_MEAN), .min = -10, .max = 10,
      .phases = FOR_STATISTICS | FOR_SCALES | FOR_SCORES, .flags = WORKERS,
      .help = "mean of each channel, R, G and B, scaled to 0..1" },
    { TRIPLE(model.input.std), .initial = TRIPLE_TEXT(HRF_IMAGENET_STD), .min = 1e-6, .max = 1000,
      .phases = FOR_STATISTICS | FOR_SCALES | FOR_SCORES, .flags = WORKERS,
      .help = "standard deviation of each channel, R, G and B, scaled to 0..1" },
    { INTEGER(model.input.size), .initial = "0", .min = 0, .max = 8192,
      .phases = FOR_STATISTICS | FOR_SCALES | FOR_SCORES, .flags = WORKERS,
      .help = "px of the images that the network is given: the middle of what a patch is resized "
              "to; 0: as the model's file says, else the patch size" },
    { INTEGER(model.input.resize), .initial = "0", .min = 0, .max = 8192,
      .phases = FOR_STATISTICS | FOR_SCALES | FOR_SCORES, .flags = WORKERS,
      .help = "px that a patch is resized to; 0: as the model's file says, else model.input.size" },
    { WORD(model.input.interpolation, interpolation, hrf_interpolation_names), .initial = "auto",
      .phases = FOR_STATISTICS | FOR_SCALES | FOR_SCORES, .flags = WORKERS,
      .help = "how, as Pillow does it; auto: as the model's file says" },
    { .key = "model.max_memory",
      PLACE(model.max_memory_bytes, int64_t),
      .type = HRF_SETTING_SIZE,
      .initial = "256GiB",
      .min = 1048576,
      .max = 1e15,
      .phases = FOR_NOTHING,
      .flags = WORKERS,
      .help = "a model is refused if one tensor (for one image) or all its constants together need "
              "more memory" },
    { REAL(model.max_operations), .initial = "1e16", .min = 1, .max = 1e30, .phases = FOR_NOTHING,
      .flags = WORKERS, .help = "a model is refused if one image needs more operations" },
    { PRECISIONS(precision), .initial = "[fp32]", .words = hrf_precision_names,
      .phases = FOR_SCORES | FOR_REPORT, .flags = BY_TASK, .option = "precision",
      .argument = "P,...",
      .help = "precisions to run; the first is the reference for comparisons" },

    /* calibrate */
    { INTEGER(calibrate.samples), .initial = "512", .min = 1, .max = MANY, .phases = FOR_SCALES,
      .flags = BY_TASK, .help = "number of patches in the calibration sample" },
    { WORD(calibrate.method, fit_method, hrf_words_fit), .initial = "mse",
      .phases = FOR_LAYERS | FOR_SCALES, .flags = WORKERS,
      .help = "how INT8 ranges are chosen; auto: by layer" },
    { INTEGER(calibrate.seed), .initial = "1", .min = 0, .max = MANY, .phases = FOR_SCALES,
      .flags = BY_TASK, .help = "random seed of the calibration sample" },
    { WORD(calibrate.slides.layout, layout, hrf_words_layout), .phases = FOR_NOTHING,
      .when = &of_calibration_slides,
      .help = "slides to draw the calibration sample from; default: the slides of dataset, of "
              "split all those for training" },
    { PATH(calibrate.slides.root), .phases = FOR_NOTHING,
      .help = "as dataset.root; slides that are in both are not evaluated" },
    { WORD(calibrate.slides.split, split, hrf_words_split), .initial = "training",
      .phases = FOR_NOTHING, .when = &of_calibration_root, .help = "as dataset.split" },
    { PATHS(calibrate.slides.files), .phases = FOR_NOTHING, .help = "as dataset.files" },
    { BOOLEAN(calibrate.slides.recursive), .initial = "false", .phases = FOR_NOTHING,
      .when = &of_calibration_files, .help = "as dataset.recursive" },
    { PATH(calibrate.slides.csv), .phases = FOR_NOTHING,
      .help = "as dataset.csv; labels are ignored" },
    { TEXTS(calibrate.slides.exclude), .phases = FOR_NOTHING,
      .help = "names of slides to leave out of the sample" },
    { REAL(calibrate.slides.mpp), .min = 0.05, .max = 10, .phases = FOR_TILES, .flags = BY_TASK,
      .help = "as dataset.mpp" },
    { REAL(calibrate.min_sqnr), .initial = "15", .min = 0, .max = 200,
      .phases = FOR_LAYERS | FOR_SCALES, .flags = WORKERS,
      .help =
          "dB; tensors whose signal-to-quantization-noise ratio in INT8 is lower stay in float32" },
    { REAL(calibrate.budget.cosine), .min = 0.5, .max = 1, .phases = FOR_SCALES, .flags = WORKERS,
      .help = "layers leave INT8, for bf16 or fp32, until the cosine of the network's outputs with "
              "fp32 is expected to be at least this, e.g. 0.999" },
    { REAL(calibrate.budget.agreement), .min = 0.5, .max = 1, .phases = FOR_SCALES,
      .flags = WORKERS,
      .help = "the same until at least this share of patches is expected to keep its most likely "
              "class, e.g. 0.99" },
    { TEXTS(calibrate.keep), .phases = FOR_SCALES,
      .help = "nodes or tensors of the network that stay in float32" },

    /* engine */
    { WORD(engine.device, device, hrf_words_device), .initial = "auto", .phases = FOR_NOTHING,
      .flags = WORKERS, .option = "device", .argument = "D",
      .help = "auto: the GPU if there is one that works, else the CPU" },
    { WORD(engine.decode, decode, hrf_words_decode), .initial = "cpu", .phases = FOR_SCORES,
      .flags = WORKERS,
      .help = "where JPEG tiles of slides are decoded; gpu: by nvJPEG, whose pixels differ a "
              "little from the CPU's, and a slide that it cannot read fails; auto: by nvJPEG where "
              "it can, else by the CPU, as the report tells" },
    { INTEGER(engine.batch), .initial = "32", .min = 1, .max = 65536, .phases = FOR_NOTHING,
      .flags = WORKERS, .option = "batch", .argument = "N",
      .help = "most patches in a batch; slides of few patches take smaller ones on a CPU" },
    { .key = "engine.memory",
      PLACE(engine.memory_bytes, int64_t),
      .type = HRF_SETTING_SIZE,
      .min = 1048576,
      .max = 1e15,
      .phases = FOR_NOTHING,
      .flags = WORKERS,
      .help = "memory limit of each rank, for the networks of all precisions together, e.g. 8GiB" },
    { .key = "engine.parallel.auto",
      PLACE(engine.parallel.is_auto, bool),
      .type = HRF_SETTING_BOOL,
      .initial = "false",
      .phases = FOR_NOTHING,
      .flags = WORKERS,
      .help = "true, or `parallel: auto`: the layout that is predicted to be the fastest" },
    { INTEGER(engine.parallel.data), .initial = "1", .min = 1, .max = 65536, .phases = FOR_NOTHING,
      .flags = WORKERS, .when = &of_fixed_layout,
      .help = "copies of the network, each with its share of the patches" },
    { .key = "engine.parallel.spatial.rows",
      PLACE(engine.parallel.spatial_rows, int64_t),
      .type = HRF_SETTING_INT,
      .initial = "1",
      .min = 1,
      .max = 65536,
      .phases = FOR_NOTHING,
      .flags = WORKERS,
      .when = &of_fixed_layout,
      .help = "number of row strips that an image is split into" },
    { .key = "engine.parallel.spatial.cols",
      PLACE(engine.parallel.spatial_cols, int64_t),
      .type = HRF_SETTING_INT,
      .initial = "1",
      .min = 1,
      .max = 65536,
      .phases = FOR_NOTHING,
      .flags = WORKERS,
      .when = &of_fixed_layout,
      .help = "number of column parts that each row strip is split into" },
    { INTEGER(engine.parallel.tensor), .initial = "1", .min = 1, .max = 65536,
      .phases = FOR_NOTHING, .flags = WORKERS, .when = &of_fixed_layout,
      .help = "number of ranks that divide the heads and channels of every layer, and with them "
              "the weights" },
    { INTEGER(engine.parallel.stages), .initial = "1", .min = 1, .max = 65536,
      .phases = FOR_NOTHING, .flags = WORKERS, .when = &of_fixed_layout,
      .help = "number of pipeline stages that the network is split into" },
    { INTEGER(engine.parallel.microbatches), .initial = "1", .min = 1, .max = 65536,
      .phases = FOR_NOTHING, .flags = WORKERS, .when = &of_fixed_layout,
      .help = "number of micro-batches that a batch is split into for the pipeline" },
    { .key = "engine.parallel.bidirectional",
      PLACE(engine.parallel.is_bidirectional, bool),
      .type = HRF_SETTING_BOOL,
      .initial = "false",
      .phases = FOR_NOTHING,
      .flags = WORKERS,
      .when = &of_fixed_layout,
      .help = "true: half of the micro-batches go through the stages' ranks in reverse order" },
    { WORD(engine.parallel.halos, halos, hrf_words_halos), .initial = "auto", .phases = FOR_NOTHING,
      .flags = WORKERS, .when = &of_fixed_layout,
      .help = "how neighbouring parts of an image exchange halo rows: plain: before the "
              "convolution; overlap: while the interior is computed" },
    { WORD(engine.parallel.bands, bands_rows, hrf_words_bands), .initial = "auto",
      .phases = FOR_NOTHING, .flags = WORKERS, .when = &of_fixed_layout,
      .help = "row tiles (bands) of an image that exceeds engine.memory: keep the rows that the "
              "next band needs, or recompute them" },
    { WORD(engine.parallel.attention, attention_keys, hrf_words_attention), .initial = "auto",
      .phases = FOR_NOTHING, .flags = WORKERS, .when = &of_fixed_layout,
      .help = "how ranks that share the tokens of a transformer get keys and values: gather: all "
              "at once; ring: part by part, for more than 4096 tokens" },

    /* executor */
    { WORD(executor.type, executor_type, hrf_words_executor), .initial = "local",
      .phases = FOR_NOTHING, .help = "where jobs run" },
    { INTEGER(executor.patches_per_job), .initial = "20000", .min = 1, .max = MANY,
      .phases = FOR_NOTHING, .help = "number of patches that one job reads" },
    { INTEGER(executor.max_jobs), .initial = "2", .min = 1, .max = 100000, .phases = FOR_NOTHING,
      .help = "jobs at the same time; default with slurm: 64" },
    { INTEGER(executor.retries), .initial = "2", .min = 0, .max = 100, .phases = FOR_NOTHING,
      .help = "how often a failed task is tried again; failures that are not its fault are not "
              "counted" },
    { INTEGER(executor.local.ranks), .initial = "1", .min = 1, .max = 1024, .phases = FOR_NOTHING,
      .help = "MPI processes of one inference job" },
    { TEXTS(executor.local.launcher), .phases = FOR_NOTHING,
      .help = "command that starts them, to which -n RANKS is appended; default: mpirun, with "
              "options for sharing a machine" },
    { DURATION(executor.local.hang_after), .initial = "00:10:00", .phases = FOR_NOTHING,
      .help = "a job that shows no sign of life for this long is ended and its tasks are tried "
              "again; 00:00:00: never" },
    { PATH(executor.slurm.profile), .phases = FOR_NOTHING,
      .help = "a site's file with keys of this section; keys of the workflow override it" },
    { TEXT(executor.slurm.partition), .phases = FOR_NOTHING, .help = "default: the site's" },
    { TEXT(executor.slurm.account), .phases = FOR_NOTHING, .help = "the account to charge" },
    { TEXT(executor.slurm.qos), .phases = FOR_NOTHING, .help = "quality of service" },
    { TEXT(executor.slurm.constraint), .phases = FOR_NOTHING,
      .help = "required node features, in sbatch's syntax" },
    { DURATION(executor.slurm.time), .phases = FOR_NOTHING,
      .help = "time limit of one job, HH:MM:SS or D-HH:MM:SS; default: one hour, or what the "
              "partition gives" },
    { INTEGER(executor.slurm.nodes), .initial = "1", .min = 1, .max = 65536, .phases = FOR_NOTHING,
      .help = "nodes of one inference job" },
    { INTEGER(executor.slurm.ranks_per_node), .initial = "1", .min = 1, .max = 65536,
      .phases = FOR_NOTHING,
      .help = "ranks on each node; nodes x ranks_per_node must be a multiple of the ranks that "
              "engine.parallel needs" },
    { INTEGER(executor.slurm.cpus_per_rank), .initial = "1", .min = 1, .max = 65536,
      .phases = FOR_NOTHING, .help = "cores of one rank" },
    { INTEGER(executor.slurm.gpus_per_rank), .initial = "0", .min = 0, .max = 64,
      .phases = FOR_NOTHING, .help = "GPUs of one rank" },
    { .key = "executor.slurm.mem_per_node",
      PLACE(executor.slurm.mem_per_node_bytes, int64_t),
      .type = HRF_SETTING_SIZE,
      .min = 1048576,
      .max = 1e15,
      .phases = FOR_NOTHING,
      .help = "e.g. 64G; default: 2 GiB for each rank, or what the partition's nodes have" },
    { TEXTS(executor.slurm.modules), .phases = FOR_NOTHING,
      .help = "environment modules that jobs load" },
    { TEXTS(executor.slurm.prologue), .phases = FOR_NOTHING,
      .help = "lines of bash that jobs run first" },
    { TEXTS(executor.slurm.container), .phases = FOR_NOTHING,
      .help = "words before the worker's command line, e.g. [apptainer, exec, --nv, site.sif]" },
    { TEXTS(executor.slurm.options), .phases = FOR_NOTHING,
      .help = "further options for sbatch, e.g. [--reservation=lab]" },

    /* aggregate */
    { WORD(aggregate.slide_score, score_method, hrf_words_score), .initial = "max_smoothed",
      .phases = FOR_REPORT,
      .help = "how patch scores are combined into the slide's score; default with model.output "
              "none and segmentation: mean" },
    { INTEGER(aggregate.top_k), .initial = "10", .min = 1, .max = MANY, .phases = FOR_REPORT,
      .help = "number of patches for top_k_mean" },
    { REAL(aggregate.percentile), .initial = "99", .min = 0, .max = 100, .phases = FOR_REPORT,
      .help = "percentile for percentile" },
    { REAL(aggregate.threshold), .initial = "0.5", .min = 0, .max = 1, .phases = FOR_REPORT,
      .help = "a slide with at least this score is positive" },
    { TEXTS(aggregate.tune.slides), .phases = FOR_REPORT,
      .help = "patterns of slide names, e.g. [\"normal_*\", \"tumor_*\"]: the threshold is chosen "
              "on these slides by the first precision instead of aggregate.threshold, and they are "
              "part of no figure" },
    { REAL(aggregate.tune.specificity), .min = 0.01, .max = 1, .phases = FOR_REPORT,
      .help = "specificity to reach on the slides of tune.slides, with the highest sensitivity; "
              "default: the largest sum of both (Youden's J)" },
    { WORD(aggregate.lesions.method, lesions_choice, hrf_words_lesions), .initial = "none",
      .phases = FOR_REPORT,
      .help = "how lesions are found in patch scores: connected patches, or non-maximum "
              "suppression; they are written as CAMELYON16's csv files and judged by FROC" },
    { REAL(aggregate.lesions.threshold), .initial = "0.5", .min = 0, .max = 1, .phases = FOR_REPORT,
      .help = "smallest probability of a patch that belongs to a lesion" },
    { REAL(aggregate.lesions.radius), .initial = "187", .min = 0, .max = 1e6, .phases = FOR_REPORT,
      .help = "nms: no second lesion is nearer than this, in um along x and y" },

    /* slide_head */
    { PATH(slide_head.file), .phases = FOR_HEADS,
      .help = "with model.output embedding: a slide head in ONNX (docs/heads.md) that scores each "
              "slide; model.classes names its outputs" },
    { BOOLEAN(slide_head.mixed), .initial = "false", .phases = FOR_HEADS,
      .help = "true: score features of another encoder, tiling or precision than the head was "
              "trained on (the first precision; others are compared in any case)" },
    { WORD(slide_head.train, head_choice, hrf_words_heads), .initial = "none",
      .phases = FOR_TRAINING, .recipe = "head.kind",
      .help = "with model.output embedding: the run trains slide heads of this kind on its "
              "embeddings, as tasks; each slide is scored by heads that have not seen it" },
    { WORD(slide_head.forest, forest_choice, hrf_words_forest), .initial = "none",
      .phases = FOR_REPORT,
      .help = "with probabilities of patches: the run trains random forests over 30 features of "
              "its heat maps, as CAMELYON16's winners did, and each slide is scored by one that "
              "has not seen it (split, table, folds and seed as for heads)" },
    { INTEGER(slide_head.trees), .initial = "1000", .min = 1, .max = 100000, .phases = FOR_REPORT,
      .help = "forest: how many trees" },
    { REAL(slide_head.map_threshold), .initial = "0.7", .min = 0, .max = 1, .phases = FOR_REPORT,
      .help = "forest: patches above this probability form the regions that features describe" },
    { WORD(slide_head.split, head_split, hrf_words_heads_split), .initial = "folds",
      .phases = FOR_TRAINING,
      .help = "which slides test: folds, each in its turn; dataset, those of the testing part "
              "(layout camelyon16 with split all); table, as slide_head.table says" },
    { PATH(slide_head.table), .phases = FOR_TRAINING,
      .help = "table with the columns slide[,patient][,split]: slides of a patient stay together; "
              "split is training, validation or testing" },
    { INTEGER(slide_head.folds), HRF_HEAD_FOLDS, .phases = FOR_TRAINING, .recipe = "split.folds" },
    { INTEGER(slide_head.seed), .initial = "1", .min = 0, .max = 1e9, .phases = FOR_TRAINING,
      .flags = BY_TASK, .recipe = "split.seed", .help = "of the first training of each fold" },
    { INTEGER(slide_head.repeats), .initial = "1", .min = 1, .max = 1000, .phases = FOR_NOTHING,
      .help = "trainings of each fold, with seeds that count from slide_head.seed; a slide's score "
              "is the mean of theirs" },
    { BOOLEAN(slide_head.each_precision), .initial = "true", .phases = FOR_NOTHING,
      .help =
          "heads are also trained on the features of every other precision, and tested on them" },
    { REAL(slide_head.validation), HRF_HEAD_VALIDATION, .phases = FOR_TRAINING,
      .recipe = "split.validation" },
    { INTEGER(slide_head.epochs), HRF_HEAD_EPOCHS, .phases = FOR_TRAINING,
      .recipe = "train.epochs" },
    { INTEGER(slide_head.patience), HRF_HEAD_PATIENCE, .phases = FOR_TRAINING,
      .recipe = "train.patience" },
    { INTEGER(slide_head.hidden), HRF_HEAD_HIDDEN, .phases = FOR_TRAINING,
      .recipe = "head.hidden" },
    { INTEGER(slide_head.attention), HRF_HEAD_ATTENTION, .phases = FOR_TRAINING,
      .recipe = "head.attention" },
    { REAL(slide_head.learning_rate), HRF_HEAD_LEARNING_RATE, .phases = FOR_TRAINING,
      .recipe = "train.learning_rate" },
    { REAL(slide_head.weight_decay), HRF_HEAD_WEIGHT_DECAY, .phases = FOR_TRAINING,
      .recipe = "train.weight_decay" },
    { REAL(slide_head.dropout), HRF_HEAD_DROPOUT, .phases = FOR_TRAINING,
      .recipe = "head.dropout" },
    { BOOLEAN(slide_head.balanced), .initial = "false", .phases = FOR_TRAINING,
      .help = "a slide's loss is weighted by slides / (classes * slides of its class)" },

    /* features */
    { WORD(features.form, features_choice, hrf_words_features), .initial = "trident",
      .phases = FOR_REPORT,
      .help = "with model.output embedding: whose file format the embeddings are written in" },
    { WORD(features.type, features_type, hrf_words_features_type), .initial = "fp32",
      .phases = FOR_REPORT,
      .help = "number type of the embeddings in the files; form stamp always has fp16" },

    /* study */
    { REAL(study.stain_jitter), .min = 0.001, .max = 1, .phases = FOR_SCORES, .flags = BY_TASK,
      .help = "each patch is scored in the first precision once more as if its slide were stained "
              "otherwise, and compared like a precision, e.g. 0.05: sigma of Tellez et al. 2018, "
              "docs/study.md; default: not done" },
    { INTEGER(study.seed), .initial = "1", .min = 0, .max = 1e9, .phases = FOR_SCORES,
      .flags = BY_TASK, .help = "of the stains that are drawn" },

    /* report */
    { BOOLEAN(report.heatmaps), .initial = "true", .phases = FOR_REPORT,
      .help = "write a heatmap (PNG) for each slide" },
    { BOOLEAN(report.geojson), .initial = "true", .phases = FOR_REPORT,
      .help = "write each slide's patches as GeoJSON for QuPath" },
    { BOOLEAN(report.csv), .initial = "true", .phases = FOR_REPORT,
      .help = "write each slide's patches as a table" },
    { BOOLEAN(report.masks), .initial = "true", .phases = FOR_REPORT,
      .help = "with model.output segmentation: write each slide's mask as a TIFF pyramid" },
    { BOOLEAN(report.html), .initial = "true", .phases = FOR_REPORT,
      .help = "write the page report/index.html" },
    { TEXTS(on_end), .initial = "[]", .phases = FOR_NOTHING,
      .help = "a command and its words, e.g. [mail, -s, done, me@lab]: started once at the end of "
              "a run, without a shell, with a summary as JSON on its standard input" },
    { PATH(metrics), .phases = FOR_NOTHING,
      .help = "OpenMetrics file that a run writes anew every few seconds, for a node exporter's "
              "textfile collector" },
    { PATH(cache), .phases = FOR_NOTHING,
      .help = "folder for calibrations and measured costs, shared by runs; default: "
              "$XDG_CACHE_HOME/hires-flow" },
};
const size_t hrf_n_settings = sizeof hrf_settings / sizeof hrf_settings[0];
