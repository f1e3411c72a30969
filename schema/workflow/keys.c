/* keys.c - the table of all keys of a workflow file (keys.h). */
#include "schema/workflow/keys.h"

#include "base/precision.h"

const char *const hrf_words_layout[] = { "camelyon16", "files", "csv", NULL };
const char *const hrf_words_split[] = { "testing", "training", "all", NULL };
const char *const hrf_words_mode[] = { "patch", "slide", NULL };
const char *const hrf_words_tissue[] = { "otsu", "wsinfer", "clam", "ncrf", "onnx", NULL };
const char *const hrf_words_edge[] = { "drop", "pad", "shift", NULL };
const char *const hrf_words_on_bad_tile[] = { "fail", "white", NULL };
const char *const hrf_words_fit[] = {
    "minmax", "percentile", "entropy", "mse", "auto", "best", NULL
};
const char *const hrf_words_device[] = { "auto", "cpu", "cuda", NULL };
const char *const hrf_words_decode[] = { "cpu", "gpu", "auto", NULL };
const char *const hrf_words_halos[] = { "auto", "plain", "overlap", NULL };
const char *const hrf_words_attention[] = { "auto", "gather", "ring", NULL };
const char *const hrf_words_bands[] = { "auto", "keep", "recompute", NULL };
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

const char *const hrf_tissue_network_keys[] = { "tiler.tissue.model",     "tiler.tissue.mpp",
                                                "tiler.tissue.threshold", "tiler.tissue.size",
                                                "tiler.tissue.class",     "tiler.tissue.mean",
                                                "tiler.tissue.std",       NULL };

#define AT(member) offsetof(struct hrf_workflow, member)
#define MANY       1e15 /* "no upper limit" for counts: exact in a double */

/* A key whose path is that of its member, of a type that has a range, words, or neither. */
#define IN_RANGE(member, kind, initial, min, max, help)                                            \
    {                                                                                              \
        .path = #member, .type = HRF_KEY_##kind, AT(member), initial, min, max, NULL, help         \
    }
#define ONE_OF(member, kind, initial, words, help)                                                 \
    {                                                                                              \
        .path = #member, .type = HRF_KEY_##kind, AT(member), initial, 0, 0, words, help            \
    }
#define ANY(member, kind, initial, help) ONE_OF(member, kind, initial, NULL, help)

const struct hrf_key hrf_keys[] = {
    ANY(name, TEXT, "run", "the run's name, shown in the report"),
    ONE_OF(dataset.layout, WORD, NULL, hrf_words_layout, "how the slides are stored"),
    ANY(dataset.root, PATH, NULL, "layout camelyon16: the top folder of the dataset"),
    ONE_OF(dataset.split, WORD, "testing", hrf_words_split,
           "layout camelyon16: which part of the dataset"),
    ANY(dataset.files, PATHS, NULL, "layout files: slide files, folders of them, or glob patterns"),
    ANY(dataset.recursive, BOOL, "false", "layout files: search the folders in folders, too"),
    ANY(dataset.csv, PATH, NULL,
        "layout csv: a table with the columns slide,label[,mpp][,annotation]"),
    ANY(dataset.exclude, TEXTS, NULL, "names of slides to leave out"),
    ANY(dataset.known_exclusions, BOOL, "true",
        "layout camelyon16: leave out slides that are known to be wrong, each with its reason; "
        "false "
        "keeps them, in the lesion task too"),
    IN_RANGE(dataset.mpp, REAL, NULL, 0.05, 10,
             "resolution in um/px for slides whose files state none"),
    ONE_OF(tiler.mode, WORD, "patch", hrf_words_mode,
           "patch: score patches of tissue; slide: score each slide as one image"),
    ANY(tiler.coords, PATH, NULL,
        "patches that another program chose: a folder with a file for each slide (HDF5 of CLAM, "
        "TRIDENT, AtlasPatch, WSInfer or STAMP, csv of WSInfer), or tissue as GeoJSON (QuPath)"),
    ONE_OF(tiler.on_bad_tile, WORD, "fail", hrf_words_on_bad_tile,
           "what a tile of a slide that does not decode does: fail: its slide fails; white: the "
           "tile is white, and the patches on it are counted and listed (each slide is then read "
           "once more, when it is tiled)"),
    IN_RANGE(tiler.patch.size, INT, "256", 16, 8192, "height and width of a patch in px"),
    IN_RANGE(tiler.patch.mpp, REAL, "0.5", 0.05, 100, "resolution of patches in um/px"),
    IN_RANGE(tiler.patch.stride, INT, NULL, 1, 8192,
             "distance between neighbouring patches in px; default: the patch size"),
    ONE_OF(tiler.patch.edge, WORD, "drop", hrf_words_edge,
           "the strip at the right and lower edge where no whole patch fits: left out; scored with "
           "white beyond the slide (pad); or by patches that are moved back onto the slide and "
           "overlap their neighbours (shift)"),
    ONE_OF(tiler.tissue.method, WORD, "otsu", hrf_words_tissue,
           "how tissue is separated from background; onnx: by a network"),
    IN_RANGE(tiler.tissue.min_tissue, REAL, "0.5", 0, 1,
             "smallest fraction of tissue in a patch that is scored"),
    IN_RANGE(tiler.tissue.min_patches, INT, "16", 0, MANY,
             "a slide with fewer patches is searched again with a relaxed threshold, and marked"),
    ANY(tiler.tissue.classes, TEXTS, NULL,
        "tiler.coords in GeoJSON: names of QuPath's classes whose outlines are tissue; default: "
        "all "
        "but ignored ones (Ignore*)"),
    ANY(tiler.tissue.model, PATH, NULL,
        "method onnx: the network, an ONNX file that takes RGB images NxCxHxW and gives maps (or "
        "a number for each class of an image)"),
    IN_RANGE(tiler.tissue.mpp, REAL, NULL, 0.05, 100,
             "method onnx: resolution in um/px of the images that the network is given"),
    IN_RANGE(tiler.tissue.threshold, REAL, "0.5", 0.001, 1,
             "method onnx: a pixel of at least this probability is tissue"),
    IN_RANGE(tiler.tissue.size, INT, "0", 0, 8192,
             "method onnx: height and width of the network's images in px; 0: as the model says, "
             "else 512"),
    IN_RANGE(tiler.tissue.class, INT, "-1", -1, 65535,
             "method onnx: the network's output that is tissue, counted from 0; -1: the last"),
    IN_RANGE(tiler.tissue.mean, TRIPLE, "[0.485, 0.456, 0.406]", -10, 10,
             "method onnx: as model.input.mean"),
    IN_RANGE(tiler.tissue.std, TRIPLE, "[0.229, 0.224, 0.225]", 1e-6, 1000,
             "method onnx: as model.input.std"),
    IN_RANGE(
        tiler.quality.pen, REAL, NULL, 0.001, 1,
        "leave out patches of which more than this fraction is marker ink or black, e.g. 0.05; "
        "default: not looked for"),
    IN_RANGE(tiler.quality.bubble, REAL, NULL, 0.001, 1,
             "the same for air bubbles (round areas in a gray line), e.g. 0.1"),
    IN_RANGE(tiler.quality.fold, REAL, NULL, 0.001, 1,
             "the same for folds (tissue of 1.7 times the usual density in R, G and B), e.g. 0.2"),
    IN_RANGE(
        tiler.quality.blur, REAL, NULL, 0.001, 1,
        "leave out patches that are blurred more than this (the blur effect of Crete, 0 sharp to "
        "1), e.g. 0.55 for patches of 0.25 um/px, 0.4 for 0.5; each patch is then read once more"),
    IN_RANGE(tiler.slide.size, INT, "8192", 64, 32767,
             "mode slide: height and width of the image in px; white outside the slide"),
    IN_RANGE(tiler.slide.mpp, REAL, "4.0", 0.05, 100,
             "mode slide: resolution of the image in um/px"),
    ANY(model.file, PATH, NULL, "the ONNX file"),
    ANY(model.classes, TEXTS, "[normal, tumor]", "class names, one for each output of the model"),
    ANY(model.positive, TEXT, NULL,
        "the class that makes a slide positive; default: the last class"),
    ONE_OF(model.output, WORD, "probabilities", hrf_words_output,
           "what a patch's numbers are: probabilities (Softmax, or Sigmoid for one class, is added "
           "if the model ends in neither); softmax, sigmoid: what is added to raw outputs, sigmoid "
           "for several labels at once; none: numbers as they are (regression); embedding; "
           "segmentation: each pixel gets the class of its largest output"),
    IN_RANGE(model.input.mean, TRIPLE, "[0.485, 0.456, 0.406]", -10, 10,
             "mean of each channel, R, G and B, scaled to 0..1"),
    IN_RANGE(model.input.std, TRIPLE, "[0.229, 0.224, 0.225]", 1e-6, 1000,
             "standard deviation of each channel, R, G and B, scaled to 0..1"),
    IN_RANGE(
        model.input.size, INT, "0", 0, 8192,
        "px of the images that the network is given: the middle of what a patch is resized to; "
        "0: as the model's file says, else the patch size"),
    IN_RANGE(model.input.resize, INT, "0", 0, 8192,
             "px that a patch is resized to; 0: as the model's file says, else model.input.size"),
    ONE_OF(model.input.interpolation, WORD, "auto", hrf_interpolation_names,
           "how, as Pillow does it; auto: as the model's file says"),
    { "model.max_memory", HRF_KEY_SIZE, AT(model.max_memory_bytes), "256GiB", 1048576, 1e15, NULL,
      "a model is refused if one tensor (for one image) or all its constants together need more "
      "memory" },
    IN_RANGE(model.max_operations, REAL, "1e16", 1, 1e30,
             "a model is refused if one image needs more operations"),
    ONE_OF(precision, PRECISIONS, "[fp32]", hrf_precision_names,
           "precisions to run; the first is the reference for comparisons"),
    IN_RANGE(calibrate.samples, INT, "512", 1, MANY, "number of patches in the calibration sample"),
    ONE_OF(calibrate.method, WORD, "mse", hrf_words_fit,
           "how INT8 ranges are chosen; auto: by layer (best is its old name)"),
    IN_RANGE(calibrate.seed, INT, "1", 0, MANY, "random seed of the calibration sample"),
    ONE_OF(calibrate.slides.layout, WORD, NULL, hrf_words_layout,
           "slides to draw the calibration sample from; default: the slides of dataset, of split "
           "all those for training"),
    ANY(calibrate.slides.root, PATH, NULL,
        "as dataset.root; slides that are in both are not evaluated"),
    ONE_OF(calibrate.slides.split, WORD, "training", hrf_words_split, "as dataset.split"),
    ANY(calibrate.slides.files, PATHS, NULL, "as dataset.files"),
    ANY(calibrate.slides.recursive, BOOL, "false", "as dataset.recursive"),
    ANY(calibrate.slides.csv, PATH, NULL, "as dataset.csv; labels are ignored"),
    ANY(calibrate.slides.exclude, TEXTS, NULL, "names of slides to leave out of the sample"),
    IN_RANGE(calibrate.slides.mpp, REAL, NULL, 0.05, 10, "as dataset.mpp"),
    IN_RANGE(
        calibrate.min_sqnr, REAL, "15", 0, 200,
        "dB; tensors whose signal-to-quantization-noise ratio in INT8 is lower stay in float32"),
    IN_RANGE(calibrate.budget.cosine, REAL, NULL, 0.5, 1,
             "layers leave INT8, for bf16 or fp32, until the cosine of the network's outputs with "
             "fp32 is expected to be at least this, e.g. 0.999"),
    IN_RANGE(calibrate.budget.agreement, REAL, NULL, 0.5, 1,
             "the same until at least this share of patches is expected to keep its most likely "
             "class, e.g. 0.99"),
    ANY(calibrate.keep, TEXTS, NULL, "nodes or tensors of the network that stay in float32"),
    ONE_OF(engine.device, WORD, "auto", hrf_words_device,
           "auto: the GPU if there is one that works, else the CPU"),
    ONE_OF(
        engine.decode, WORD, "cpu", hrf_words_decode,
        "where JPEG tiles of slides are decoded; gpu: by nvJPEG, whose pixels differ a little from "
        "the CPU's, and a slide that it cannot read fails; auto: by nvJPEG where it can, else by "
        "the CPU, as the report tells"),
    IN_RANGE(engine.batch, INT, "32", 1, 65536,
             "most patches in a batch; slides of few patches take smaller ones on a CPU"),
    { "engine.memory", HRF_KEY_SIZE, AT(engine.memory_bytes), NULL, 1048576, 1e15, NULL,
      "memory limit of each rank, for the networks of all precisions together, e.g. 8GiB" },
    IN_RANGE(engine.parallel.data, INT, "1", 1, 65536,
             "copies of the network, each with its share of the patches"),
    { "engine.parallel.spatial.rows", HRF_KEY_INT, AT(engine.parallel.spatial_rows), "1", 1, 65536,
      NULL, "number of row strips that an image is split into" },
    { "engine.parallel.spatial.cols", HRF_KEY_INT, AT(engine.parallel.spatial_cols), "1", 1, 65536,
      NULL, "number of column parts that each row strip is split into" },
    IN_RANGE(engine.parallel.tensor, INT, "1", 1, 65536,
             "number of ranks that divide the heads and channels of every layer, and with them the "
             "weights"),
    IN_RANGE(engine.parallel.stages, INT, "1", 1, 65536,
             "number of pipeline stages that the network is split into"),
    IN_RANGE(engine.parallel.microbatches, INT, "1", 1, 65536,
             "number of micro-batches that a batch is split into for the pipeline"),
    { "engine.parallel.bidirectional", HRF_KEY_BOOL, AT(engine.parallel.is_bidirectional), "false",
      0, 0, NULL, "true: half of the micro-batches go through the stages' ranks in reverse order" },
    ONE_OF(engine.parallel.halos, WORD, "auto", hrf_words_halos,
           "how neighbouring parts of an image exchange halo rows: plain: before the convolution; "
           "overlap: while the interior is computed"),
    ONE_OF(engine.parallel.bands, WORD, "auto", hrf_words_bands,
           "row tiles (bands) of an image that exceeds engine.memory: keep the rows that the next "
           "band "
           "needs, or recompute them"),
    ONE_OF(engine.parallel.attention, WORD, "auto", hrf_words_attention,
           "how ranks that share the tokens of a transformer get keys and values: gather: all at "
           "once; ring: part by part, for more than 4096 tokens"),
    ONE_OF(executor.type, WORD, "local", hrf_words_executor, "where jobs run"),
    IN_RANGE(executor.patches_per_job, INT, "20000", 1, MANY,
             "number of patches that one job reads"),
    IN_RANGE(executor.max_jobs, INT, "2", 1, 100000,
             "jobs at the same time; default with slurm: 64"),
    IN_RANGE(
        executor.retries, INT, "2", 0, 100,
        "how often a failed task is tried again; failures that are not its fault are not counted"),
    IN_RANGE(executor.local.ranks, INT, "1", 1, 1024, "MPI processes of one inference job"),
    ANY(executor.local.launcher, TEXTS, NULL,
        "command that starts them, to which -n RANKS is appended; default: mpirun, with options "
        "for "
        "sharing a machine"),
    ANY(executor.local.hang_after, DURATION, "00:10:00",
        "a job that shows no sign of life for this long is ended and its tasks are tried again; "
        "00:00:00: never"),
    ANY(executor.slurm.profile, PATH, NULL,
        "a site's file with keys of this section; keys of the workflow override it"),
    ANY(executor.slurm.partition, TEXT, NULL, "default: the site's"),
    ANY(executor.slurm.account, TEXT, NULL, "the account to charge"),
    ANY(executor.slurm.qos, TEXT, NULL, "quality of service"),
    ANY(executor.slurm.constraint, TEXT, NULL, "required node features, in sbatch's syntax"),
    ANY(executor.slurm.time, DURATION, NULL,
        "time limit of one job, HH:MM:SS or D-HH:MM:SS; default: one hour, or what the partition "
        "gives"),
    IN_RANGE(executor.slurm.nodes, INT, "1", 1, 65536, "nodes of one inference job"),
    IN_RANGE(executor.slurm.ranks_per_node, INT, "1", 1, 65536,
             "ranks on each node; nodes x ranks_per_node must be a multiple of the ranks that "
             "engine.parallel needs"),
    IN_RANGE(executor.slurm.cpus_per_rank, INT, "1", 1, 65536, "cores of one rank"),
    IN_RANGE(executor.slurm.gpus_per_rank, INT, "0", 0, 64, "GPUs of one rank"),
    { "executor.slurm.mem_per_node", HRF_KEY_SIZE, AT(executor.slurm.mem_per_node_bytes), NULL,
      1048576, 1e15, NULL,
      "e.g. 64G; default: 2 GiB for each rank, or what the partition's nodes have" },
    ANY(executor.slurm.modules, TEXTS, NULL, "environment modules that jobs load"),
    ANY(executor.slurm.prologue, TEXTS, NULL, "lines of bash that jobs run first"),
    ANY(executor.slurm.container, TEXTS, NULL,
        "words before the worker's command line, e.g. [apptainer, exec, --nv, site.sif]"),
    ANY(executor.slurm.options, TEXTS, NULL,
        "further options for sbatch, e.g. [--reservation=lab]"),
    ONE_OF(aggregate.slide_score, WORD, "max_smoothed", hrf_words_score,
           "how patch scores are combined into the slide's score; default with model.output none "
           "and segmentation: mean"),
    IN_RANGE(aggregate.top_k, INT, "10", 1, MANY, "number of patches for top_k_mean"),
    IN_RANGE(aggregate.percentile, REAL, "99", 0, 100, "percentile for percentile"),
    IN_RANGE(aggregate.threshold, REAL, "0.5", 0, 1,
             "a slide with at least this score is positive"),
    ANY(aggregate.tune.slides, TEXTS, NULL,
        "patterns of slide names, e.g. [\"normal_*\", \"tumor_*\"]: the threshold is chosen on "
        "these "
        "slides by the first precision instead of aggregate.threshold, and they are part of no "
        "figure"),
    IN_RANGE(aggregate.tune.specificity, REAL, NULL, 0.01, 1,
             "specificity to reach on the slides of tune.slides, with the highest sensitivity; "
             "default: the largest sum of both (Youden's J)"),
    ONE_OF(aggregate.lesions.method, WORD, "none", hrf_words_lesions,
           "how lesions are found in patch scores: connected patches, or non-maximum suppression; "
           "they are written as CAMELYON16's csv files and judged by FROC"),
    IN_RANGE(aggregate.lesions.threshold, REAL, "0.5", 0, 1,
             "smallest probability of a patch that belongs to a lesion"),
    IN_RANGE(aggregate.lesions.radius, REAL, "187", 0, 1e6,
             "nms: no second lesion is nearer than this, in um along x and y"),
    ANY(slide_head.file, PATH, NULL,
        "with model.output embedding: a slide head in ONNX (docs/heads.md) that scores each slide; "
        "model.classes names its outputs"),
    ANY(slide_head.mixed, BOOL, "false",
        "true: score features of another encoder, tiling or precision than the head was trained on "
        "(the first precision; others are compared in any case)"),
    ONE_OF(
        slide_head.train, WORD, "none", hrf_words_heads,
        "with model.output embedding: the run trains slide heads of this kind on its embeddings, "
        "as tasks; each slide is scored by heads that have not seen it"),
    ONE_OF(slide_head.forest, WORD, "none", hrf_words_forest,
           "with probabilities of patches: the run trains random forests over 30 features of its "
           "heat maps, as CAMELYON16's winners did, and each slide is scored by one that has not "
           "seen it (split, table, folds and seed as for heads)"),
    IN_RANGE(slide_head.trees, INT, "1000", 1, 100000, "forest: how many trees"),
    IN_RANGE(slide_head.map_threshold, REAL, "0.7", 0, 1,
             "forest: patches above this probability form the regions that features describe"),
    ONE_OF(slide_head.split, WORD, "folds", hrf_words_heads_split,
           "which slides test: folds, each in its turn; dataset, those of the testing part (layout "
           "camelyon16 with split all); table, as slide_head.table says"),
    ANY(slide_head.table, PATH, NULL,
        "table with the columns slide[,patient][,split]: slides of a patient stay together; split "
        "is "
        "training, validation or testing"),
    IN_RANGE(slide_head.folds, INT, "5", 2, 100, "how many folds"),
    IN_RANGE(slide_head.seed, INT, "1", 0, 1e9, "of the first training of each fold"),
    IN_RANGE(
        slide_head.repeats, INT, "1", 1, 1000,
        "trainings of each fold, with seeds that count from slide_head.seed; a slide's score is "
        "the mean of theirs"),
    ANY(slide_head.each_precision, BOOL, "true",
        "heads are also trained on the features of every other precision, and tested on them"),
    IN_RANGE(slide_head.validation, REAL, "0.15", 0, 0.5,
             "share of the patients for training that stops a training early; 0: none"),
    IN_RANGE(slide_head.epochs, INT, "50", 1, 100000, "passes over the slides"),
    IN_RANGE(slide_head.patience, INT, "10", 1, 100000,
             "a training ends after so many epochs without a lower validation loss"),
    IN_RANGE(slide_head.hidden, INT, "512", 1, 8192, "width of the first layer (not mean, dsmil)"),
    IN_RANGE(slide_head.attention, INT, "0", 0, 8192,
             "width of the attention; 0: the head's own, 256; dsmil 128"),
    IN_RANGE(slide_head.learning_rate, REAL, "0.0002", 1e-9, 10, "of Adam"),
    IN_RANGE(slide_head.weight_decay, REAL, "0.00001", 0, 10, "of Adam"),
    IN_RANGE(slide_head.dropout, REAL, "-1", -1, 0.9,
             "below 0: the head's own, 0.25; transmil 0.1; mean and dsmil 0"),
    ANY(slide_head.balanced, BOOL, "false",
        "a slide's loss is weighted by slides / (classes * slides of its class)"),
    ONE_OF(features.form, WORD, "trident", hrf_words_features,
           "with model.output embedding: whose file format the embeddings are written in"),
    ONE_OF(features.type, WORD, "fp32", hrf_words_features_type,
           "number type of the embeddings in the files; form stamp always has fp16"),
    IN_RANGE(study.stain_jitter, REAL, NULL, 0.001, 1,
             "each patch is scored in the first precision once more as if its slide were stained "
             "otherwise, and compared like a precision, e.g. 0.05: sigma of Tellez et al. 2018, "
             "docs/precision.md; default: not done"),
    IN_RANGE(study.seed, INT, "1", 0, 1e9, "of the stains that are drawn"),
    ANY(report.heatmaps, BOOL, "true", "write a heatmap (PNG) for each slide"),
    ANY(report.geojson, BOOL, "true", "write each slide's patches as GeoJSON for QuPath"),
    ANY(report.csv, BOOL, "true", "write each slide's patches as a table"),
    ANY(report.masks, BOOL, "true",
        "with model.output segmentation: write each slide's mask as a TIFF pyramid"),
    ANY(report.html, BOOL, "true", "write the page report/index.html"),
    ANY(on_end, TEXTS, "[]",
        "a command and its words, e.g. [mail, -s, done, me@lab]: started once at the end of a run, "
        "without a shell, with a summary as JSON on its standard input"),
    ANY(metrics, PATH, NULL,
        "OpenMetrics file that a run writes anew every few seconds, for a node exporter's textfile "
        "collector"),
    ANY(cache, PATH, NULL,
        "folder for calibrations and measured costs, shared by runs; default: "
        "$XDG_CACHE_HOME/hires-flow"),
};
const size_t hrf_n_keys = sizeof hrf_keys / sizeof hrf_keys[0];

void *hrf_key_place(struct hrf_workflow *workflow, const struct hrf_key *key)
{
    return (char *)workflow + key->offset;
}
