#include "schema/workflow/keys.h"

const char *const hrf_words_layout[] = { "camelyon16", "files", "csv", NULL };
const char *const hrf_words_split[] = { "testing", "training", "all", NULL };
const char *const hrf_words_mode[] = { "patch", "slide", NULL };
const char *const hrf_words_tissue[] = { "otsu", "wsinfer", "clam", "ncrf", NULL };
const char *const hrf_words_precision[] = { "fp32", "tf32", "fp16", "bf16", "int8", NULL };
const char *const hrf_words_fit[] = { "minmax", "percentile", "entropy", "mse", NULL };
const char *const hrf_words_device[] = { "auto", "cpu", "cuda", NULL };
const char *const hrf_words_executor[] = { "local", "slurm", NULL };
const char *const hrf_words_score[] = { "max",        "mean",         "top_k_mean",
                                        "percentile", "max_smoothed", NULL };

#define AT(member) offsetof(struct hrf_workflow, member)
#define MANY       1e15 /* "no upper limit" for counts: exact in a double */

const struct hrf_key hrf_keys[] = {
    { "name", HRF_KEY_TEXT, AT(name), "run", 0, 0, NULL, "shown in the report" },
    { "dataset.layout", HRF_KEY_WORD, AT(dataset.layout), NULL, 0, 0, hrf_words_layout,
      "how the slides lie on disk" },
    { "dataset.root", HRF_KEY_PATH, AT(dataset.root), NULL, 0, 0, NULL,
      "layout camelyon16: its top folder" },
    { "dataset.split", HRF_KEY_WORD, AT(dataset.split), "testing", 0, 0, hrf_words_split,
      "layout camelyon16: which part" },
    { "dataset.files", HRF_KEY_PATHS, AT(dataset.files), NULL, 0, 0, NULL, "layout files: globs" },
    { "dataset.csv", HRF_KEY_PATH, AT(dataset.csv), NULL, 0, 0, NULL,
      "layout csv: slide,label[,mpp][,annotation]" },
    { "dataset.exclude", HRF_KEY_TEXTS, AT(dataset.exclude), NULL, 0, 0, NULL,
      "names of slides to leave out" },
    { "dataset.mpp", HRF_KEY_REAL, AT(dataset.mpp), NULL, 0.05, 10, NULL,
      "um/px of slides that carry none" },
    { "tiler.mode", HRF_KEY_WORD, AT(tiler.mode), "patch", 0, 0, hrf_words_mode,
      "patches, or the slide as one image" },
    { "tiler.patch.size", HRF_KEY_INT, AT(tiler.patch.size), "256", 16, 8192, NULL, "px" },
    { "tiler.patch.mpp", HRF_KEY_REAL, AT(tiler.patch.mpp), "0.5", 0.05, 100, NULL, "um/px" },
    { "tiler.patch.stride", HRF_KEY_INT, AT(tiler.patch.stride), NULL, 1, 8192, NULL,
      "px; the size when not given" },
    { "tiler.tissue.method", HRF_KEY_WORD, AT(tiler.tissue.method), "otsu", 0, 0, hrf_words_tissue,
      "how tissue is told from glass" },
    { "tiler.tissue.min_tissue", HRF_KEY_REAL, AT(tiler.tissue.min_tissue), "0.5", 0, 1, NULL,
      "fraction of a patch" },
    { "tiler.tissue.min_patches", HRF_KEY_INT, AT(tiler.tissue.min_patches), "16", 0, MANY, NULL,
      "a slide with fewer is looked at again and marked" },
    { "tiler.slide.size", HRF_KEY_INT, AT(tiler.slide.size), "8192", 64, 32767, NULL,
      "px, square; white outside the slide" },
    { "tiler.slide.mpp", HRF_KEY_REAL, AT(tiler.slide.mpp), "4.0", 0.05, 100, NULL, "um/px" },
    { "model.file", HRF_KEY_PATH, AT(model.file), NULL, 0, 0, NULL, "ONNX" },
    { "model.classes", HRF_KEY_TEXTS, AT(model.classes), "[normal, tumor]", 0, 0, NULL,
      "one per output of the model" },
    { "model.positive", HRF_KEY_TEXT, AT(model.positive), NULL, 0, 0, NULL,
      "one of classes; the last when not given" },
    { "model.input.mean", HRF_KEY_TRIPLE, AT(model.input.mean), "[0.485, 0.456, 0.406]", -10, 10,
      NULL, "of RGB scaled to 0..1" },
    { "model.input.std", HRF_KEY_TRIPLE, AT(model.input.std), "[0.229, 0.224, 0.225]", 1e-6, 1000,
      NULL, "of RGB scaled to 0..1" },
    { "precision", HRF_KEY_PRECISIONS, AT(precision), "[fp32]", 0, 0, hrf_words_precision,
      "the first is the reference" },
    { "calibrate.samples", HRF_KEY_INT, AT(calibrate.samples), "512", 1, MANY, NULL, "patches" },
    { "calibrate.method", HRF_KEY_WORD, AT(calibrate.method), "mse", 0, 0, hrf_words_fit,
      "how INT8 scales are fitted" },
    { "calibrate.seed", HRF_KEY_INT, AT(calibrate.seed), "1", 0, MANY, NULL, "of the sample" },
    { "engine.device", HRF_KEY_WORD, AT(engine.device), "auto", 0, 0, hrf_words_device, "" },
    { "engine.batch", HRF_KEY_INT, AT(engine.batch), "32", 1, 65536, NULL, "patches per run" },
    { "engine.memory", HRF_KEY_SIZE, AT(engine.memory_bytes), NULL, 1048576, 1e15, NULL,
      "per rank, e.g. 8GiB" },
    { "engine.parallel.data", HRF_KEY_INT, AT(engine.parallel.data), "1", 1, 65536, NULL, "" },
    { "engine.parallel.spatial.rows", HRF_KEY_INT, AT(engine.parallel.spatial_rows), "1", 1, 65536,
      NULL, "" },
    { "engine.parallel.spatial.cols", HRF_KEY_INT, AT(engine.parallel.spatial_cols), "1", 1, 65536,
      NULL, "" },
    { "engine.parallel.stages", HRF_KEY_INT, AT(engine.parallel.stages), "1", 1, 65536, NULL, "" },
    { "engine.parallel.microbatches", HRF_KEY_INT, AT(engine.parallel.microbatches), "1", 1, 65536,
      NULL, "" },
    { "executor.type", HRF_KEY_WORD, AT(executor.type), "local", 0, 0, hrf_words_executor, "" },
    { "executor.patches_per_job", HRF_KEY_INT, AT(executor.patches_per_job), "20000", 1, MANY, NULL,
      "" },
    { "executor.max_jobs", HRF_KEY_INT, AT(executor.max_jobs), "2", 1, 100000, NULL,
      "jobs at once" },
    { "executor.retries", HRF_KEY_INT, AT(executor.retries), "2", 0, 100, NULL, "per task" },
    { "executor.slurm.partition", HRF_KEY_TEXT, AT(executor.slurm.partition), NULL, 0, 0, NULL,
      "" },
    { "executor.slurm.account", HRF_KEY_TEXT, AT(executor.slurm.account), NULL, 0, 0, NULL, "" },
    { "executor.slurm.time", HRF_KEY_DURATION, AT(executor.slurm.time), NULL, 0, 0, NULL,
      "HH:MM:SS or D-HH:MM:SS" },
    { "executor.slurm.nodes", HRF_KEY_INT, AT(executor.slurm.nodes), "1", 1, 65536, NULL, "" },
    { "executor.slurm.ranks_per_node", HRF_KEY_INT, AT(executor.slurm.ranks_per_node), "1", 1,
      65536, NULL, "" },
    { "executor.slurm.cpus_per_rank", HRF_KEY_INT, AT(executor.slurm.cpus_per_rank), "1", 1, 65536,
      NULL, "" },
    { "executor.slurm.gpus_per_rank", HRF_KEY_INT, AT(executor.slurm.gpus_per_rank), "0", 0, 64,
      NULL, "" },
    { "executor.slurm.mem_per_node", HRF_KEY_SIZE, AT(executor.slurm.mem_per_node_bytes), NULL,
      1048576, 1e15, NULL, "e.g. 64G" },
    { "aggregate.slide_score", HRF_KEY_WORD, AT(aggregate.slide_score), "max_smoothed", 0, 0,
      hrf_words_score, "patch scores to a slide score" },
    { "aggregate.top_k", HRF_KEY_INT, AT(aggregate.top_k), "10", 1, MANY, NULL, "of top_k_mean" },
    { "aggregate.percentile", HRF_KEY_REAL, AT(aggregate.percentile), "99", 0, 100, NULL,
      "of percentile" },
    { "aggregate.threshold", HRF_KEY_REAL, AT(aggregate.threshold), "0.5", 0, 1, NULL,
      "a slide score from here on is positive" },
    { "report.heatmaps", HRF_KEY_BOOL, AT(report.heatmaps), "true", 0, 0, NULL, "" },
    { "report.geojson", HRF_KEY_BOOL, AT(report.geojson), "true", 0, 0, NULL, "" },
    { "report.csv", HRF_KEY_BOOL, AT(report.csv), "true", 0, 0, NULL, "" },
    { "report.html", HRF_KEY_BOOL, AT(report.html), "true", 0, 0, NULL, "" },
    { "cache", HRF_KEY_PATH, AT(cache), NULL, 0, 0, NULL,
      "shared between runs; $XDG_CACHE_HOME/hires-flow when not given" },
};
const size_t hrf_n_keys = sizeof hrf_keys / sizeof hrf_keys[0];

void *hrf_key_place(struct hrf_workflow *workflow, const struct hrf_key *key)
{
    return (char *)workflow + key->offset;
}
