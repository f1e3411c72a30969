/* engine_commands.c - the rows of the engine's commands and of their options
 * (engine_commands.h). */
#include "schema/command/engine_commands.h"

#include "base/error_record.h"
#include "base/fields.h"

#include <stdio.h>

#define WORKER(kind_of, name_of, summary_of)                                                       \
    [HRF_ENGINE_WORKERS + (kind_of)] = { .name = (name_of),                                        \
                                         .operands = "SPEC.json",                                  \
                                         .summary = summary_of " (started by hires-flow)",         \
                                         .min_operands = 1,                                        \
                                         .max_operands = 1,                                        \
                                         .is_worker = true }

const struct hrf_command hrf_engine_commands[HRF_N_ENGINE_COMMANDS] = {
    [HRF_ENGINE_EVAL] = { .name = "eval",
                          .operands = "MODEL.onnx",
                          .summary = "run a model on a NumPy array and write its outputs",
                          .min_operands = 1,
                          .max_operands = 1 },
    [HRF_ENGINE_GRADIENT] = { .name = "gradient",
                              .operands = "MODEL.onnx",
                              .summary = "compute a loss and its gradients to all weights",
                              .details =
                                  "Writes DIR/loss.npy, the mean over the batch, and for each "
                                  "weight of the file DIR/NAME.npy, with its name (a '/' in it as "
                                  "%2F) and shape.\n"
                                  "The target has the output's shape; for cross_entropy it may "
                                  "also hold the classes' numbers, without the axis of classes. A "
                                  "softmax or sigmoid at the end of the model belongs to the "
                                  "loss.",
                              .min_operands = 1,
                              .max_operands = 1 },
    [HRF_ENGINE_MODEL] = { .name = "model",
                           .operands = "make|inspect|check|hash|input NAME|FILE",
                           .summary = "write a built-in architecture as ONNX, or inspect a model",
                           .details =
                               "  model make NAME --output FILE   write a built-in architecture as "
                               "ONNX; some take\n"
                               "                                  parameters, e.g. amoebanet-d:L,F "
                               "unet:LEVELS,WIDTH\n"
                               "  model make ENCODER --weights model.safetensors --output FILE\n"
                               "                                  write an encoder (uni, uni2-h, "
                               "virchow2, gigapath,\n"
                               "                                  h-optimus-0, lunit-vits8, vit, "
                               "resnet, convnext ...) with\n"
                               "                                  weights in timm's names\n"
                               "  model inspect FILE|NAME         print layers, shapes, operations "
                               "and memory\n"
                               "  model check FILE                check whether a run could score "
                               "images with it\n"
                               "  model hash FILE                 print the SHA-256 that "
                               "identifies the model in a run (of "
                               "its\n"
                               "                                  file and of weights in other "
                               "files), and whether it "
                               "brings\n"
                               "                                  INT8 scales, as JSON\n"
                               "  model input FILE                print what the model's metadata "
                               "say of its images (size,\n"
                               "                                  resize, interpolation, mean, "
                               "std), which runs use",
                           .min_operands = 2,
                           .max_operands = 2 },
    [HRF_ENGINE_BENCH] = { .name = "bench",
                           .operands = "MODEL",
                           .summary = "measure images per second",
                           .details = "Runs MODEL, a built-in architecture or an ONNX file, on "
                                      "random images. 'hires-flow bench' "
                                      "and 'hires-flow bench engine' are "
                                      "the same. 'hires-flow bench sweep' ('hires-engine sweep') "
                                      "compares ranks and layouts.",
                           .max_operands = 1 },
    [HRF_ENGINE_SWEEP] = { .name = "sweep",
                           .operands = "",
                           .summary = "compare memory and throughput of ranks, layouts and "
                                      "precisions, as a table",
                           .details = "Simulates spatial, data-parallel, layer-parallel, "
                                      "pipelined, bidirectional and "
                                      "spatial plus bidirectional layouts for 1, 2, 4 ... ranks, "
                                      "on this machine or on "
                                      "that of a machine file. With --measure it also runs them if "
                                      "this machine has a "
                                      "processor for every rank. Writes DIR/sweep.csv; 'tools/draw "
                                      "sweep DIR' of the "
                                      "source tree draws charts and a page from it." },
    [HRF_ENGINE_PROFILE] = { .name = "profile",
                             .operands = "",
                             .summary = "measure the cost of every node of a network on this "
                                        "machine",
                             .details = "Runs the network at one image size and times every node, "
                                        "with as many copies at the same "
                                        "time as --ranks says. The costs are saved in the cache; "
                                        "'plan' uses them and scales them "
                                        "to other sizes. Two measured sizes give better "
                                        "predictions than one." },
    [HRF_ENGINE_TUNE_COMM] = { .name = "tune-comm",
                               .operands = "",
                               .summary = "measure the cost of messages between ranks on this "
                                          "machine",
                               .details = "Saves a table in the cache for 'plan', with one link "
                                          "for each transport and "
                                          "placement: threads of a process, processes of a "
                                          "machine, different machines.\n"
                                          "  mpirun -n 2 hires-flow tune-comm --comm mpi\n"
                                          "  srun --mpi=pmix --nodes=2 --ntasks=3 hires-flow "
                                          "tune-comm --comm mpi\n"
                                          "  mpirun -n 2 hires-flow tune-comm --device cuda" },
    [HRF_ENGINE_PLAN] = { .name = "plan",
                          .operands = "",
                          .summary = "predict time and memory of layouts on a machine, without "
                                     "running anything",
                          .details = "Simulates every rank with the costs of nodes and messages "
                                     "that were measured on "
                                     "this machine (profile, tune-comm), or with those of a "
                                     "machine file. Times are for "
                                     "one batch. A machine file is YAML: version, name, device "
                                     "{name, memory_gib, "
                                     "overhead_us, gb_per_s, tops {fp32, fp16, bf16, int8}}, "
                                     "ranks_per_node, "
                                     "ports_per_node, nodes, one_process, links [{comm, placement: "
                                     "process, node or "
                                     "network, latency_us, gb_per_s}]." },
    [HRF_ENGINE_TRAIN] = { .name = "train",
                           .operands = "FILE.yaml",
                           .summary = "train a network of patches on one's own pictures",
                           .details =
                               "Fine-tunes the ONNX model that the file names, once for each "
                               "fold and seed, writes it as ONNX with its figures, and goes "
                               "on where it was interrupted. --keys prints what the file may "
                               "say.",
                           .max_operands = 1 },
    [HRF_ENGINE_HEAD] = { .name = "head",
                          .operands = "train FILE.yaml | score HEAD.onnx... FEATURES...",
                          .summary = "train a slide head on embeddings, or score slides with one",
                          .details = "`train` makes one head for each fold and seed of the file "
                                     "and goes on where it was "
                                     "interrupted. `score` writes a line for each HDF5 file; of "
                                     "several heads the mean. A "
                                     "slide that a head was trained on, and features of another "
                                     "encoder, tiling or precision, "
                                     "are refused.",
                          .min_operands = 1,
                          .max_operands = -1 },
    [HRF_ENGINE_CHECK] = { .name = "check",
                           .operands = "",
                           .summary = "compare a device with the CPU, and measure its speed" },
    [HRF_ENGINE_RANKS] = { .name = "ranks",
                           .operands = "",
                           .summary = "check that the ranks that mpirun or srun started can "
                                      "connect to each other",
                           .details = "Start it as jobs are started: srun --mpi=pmix --ntasks=2 "
                                      "hires-engine ranks --expect 2" },
    [HRF_ENGINE_VERSION] = { .name = "version",
                             .operands = "",
                             .summary = "print versions, devices and precisions of this build" },
    WORKER(HRF_JOB_TILE, "tile", "tile the slides of a job, with tissue by a network"),
    WORKER(HRF_JOB_INFER, "infer", "score the patches of a job"),
    WORKER(HRF_JOB_CALIBRATE, "observe", "collect histograms of tensors on the patches of a job"),
    WORKER(HRF_JOB_HEAD, "score-bags", "score the slides of a job by their embeddings"),
    WORKER(HRF_JOB_TRAIN, "train-heads", "train the slide heads of a job"),
    WORKER(HRF_JOB_TRAIN_NETWORK, "train-networks", "train the networks of a job"),
};

bool hrf_engine_is_handed_over(enum hrf_engine_command command)
{
    return command == HRF_ENGINE_MODEL || command == HRF_ENGINE_BENCH ||
           command == HRF_ENGINE_PROFILE || command == HRF_ENGINE_TUNE_COMM ||
           command == HRF_ENGINE_HEAD;
}

/* ---- model ---- */

#define OPTION(member)      HRF_OPTION_OF(struct hrf_model_request, member)
#define NUMBER(member, ...) HRF_OPTION_NUMBER_OF(struct hrf_model_request, member, __VA_ARGS__)
const struct hrf_request_option hrf_model_options[] = {
    { "output", "FILE", "make: the ONNX file to write", OPTION(output) },
    { "weights", "FILE", "make: the weights of an encoder, a safetensors file with timm's names",
      OPTION(weights) },
    { "pool", "WORD",
      "make, with weights: the output. cls: class token, cls+mean: and the mean of the patches' "
      "tokens, mean, stage3 (ResNet), logits (default: what users of the encoder take)",
      OPTION(pool) },
    { "external", NULL,
      "make, with weights: write them into a second file, FILE.data (always above 2 GiB)",
      OPTION(external) },
    { "heads", "N", "make, with weights: attention heads (default: the encoder's own)",
      NUMBER(heads, 0, 1024) },
    { "classes", "N", "make, check: outputs of the head; check with 0: an embedding, of any width",
      NUMBER(classes, 0, HRF_COUNT_LIMIT) },
    { "activation", "WORD",
      "make, check: softmax or sigmoid is added to raw outputs; check: none: nothing, auto: what "
      "the model lacks to give probabilities (default); segmentation: the outputs are of pixels",
      OPTION(activation) },
    { "size", "PX", "image size", NUMBER(size, 0, HRF_COUNT_LIMIT) },
    { "batch", "N", "inspect, check: images in a batch", NUMBER(batch, 1, HRF_COUNT_LIMIT) },
    { "seed", "N", "make: seed of the random weights", NUMBER(seed, 0, HRF_UNBOUNDED) },
    { "memory", "BYTES", "check: memory limit (default: no limit)",
      NUMBER(memory, 0, HRF_UNBOUNDED) },
    { "max-memory", "BYTES",
      "check: largest allowed tensor for one image, and limit of all constants together "
      "(default 256 GiB)",
      NUMBER(max_memory, 0, HRF_UNBOUNDED) },
    { "max-operations", "N",
      "check: largest allowed number of operations for one image (default 1e16)",
      NUMBER(max_operations, 0, HRF_UNBOUNDED) },
    { "shapes", NULL, "check: check only shapes, do not set up the network", OPTION(shapes) },
    { "tissue", NULL, "check: whether the network can find tissue (tiler.tissue.method onnx)",
      OPTION(tissue) },
    { "class", "N", "check --tissue: the output that is tissue, from 0 (default: the last)",
      NUMBER(class, 0, HRF_COUNT_LIMIT) },
    { "layout", "L", "check: layout of the ranks that share the network, e.g. spatial=2,stages=2",
      OPTION(layout) },
    { "keep", "NAME", "check: a node or tensor that stays in float32 with int8; may be repeated",
      OPTION(keep) },
    { "json", NULL, "inspect: print JSON", OPTION(json) },
    { NULL },
};
#undef NUMBER
#undef OPTION
const struct hrf_model_request hrf_model_request_initial = {
    .classes = 2, .batch = 1, .seed = 1, .class = -1
};

static const struct hrf_field identity_fields[] = {
    HRF_FIELD(struct hrf_model_identity, "sha256", sha256, HRF_FIELD_HASH),
    HRF_FIELD(struct hrf_model_identity, "brings_scales", brings_scales, HRF_FIELD_BOOL),
};

json_t *hrf_model_identity_json(const struct hrf_model_identity *identity)
{
    return hrf_fields_json(HRF_FIELDS(identity_fields), identity);
}

enum hrf_status hrf_model_identity_read(const json_t *answer, struct hrf_model_identity *out,
                                        struct hrf_error *err)
{
    return hrf_fields_read(HRF_FIELDS(identity_fields), answer, "hires-engine model hash", out,
                           err);
}

/* ---- train ---- */

#define OPTION(member)      HRF_OPTION_OF(struct hrf_train_request, member)
#define NUMBER(member, ...) HRF_OPTION_NUMBER_OF(struct hrf_train_request, member, __VA_ARGS__)
const struct hrf_request_option hrf_train_options[] = {
    { "jobs", "N", "so many trainings side by side", NUMBER(jobs, 1, 1024) },
    { "threads", "N", "of each training (default: the cores divided by --jobs)",
      NUMBER(threads, 0, 4096) },
    { "fold", "N", "only this fold, from 0", NUMBER(fold, 0, HRF_UNBOUNDED) },
    { "seed", "N", "only this seed", OPTION(seed) },
    { "device", "NAME", "cpu, cuda, or ref (plain C in double precision)", OPTION(device) },
    { "comm", "C",
      "ranks of train.layout are threads (loop, default) or processes under mpirun (mpi)",
      OPTION(comm) },
    { "summary", NULL, "train nothing: the summary and the page of the trainings that are done",
      OPTION(summary) },
    { "list", "FILE",
      "train nothing: check all that a training needs, cut the patches of slides, and write the "
      "trainings as JSON",
      OPTION(list) },
    { "json", NULL, "print the summary as JSON", OPTION(json) },
    { "keys", NULL, "print the keys of FILE.yaml", OPTION(keys) },
    { NULL },
};
#undef NUMBER
#undef OPTION
const struct hrf_train_request hrf_train_request_initial = { .jobs = 1,
                                                             .fold = -1,
                                                             .device = "cpu" };

static const struct hrf_field training_fields[] = {
#define FIELD(key, type) HRF_FIELD(struct hrf_listed_training, #key, key, HRF_FIELD_##type)
    FIELD(folder, NEEDED), FIELD(key, HASH), FIELD(number, INT),
    FIELD(fold, INT),      FIELD(seed, INT), FIELD(done, BOOL),
#undef FIELD
};
static const struct hrf_field trainings_fields[] = {
    HRF_FIELD(struct hrf_listed_trainings, "out", out, HRF_FIELD_NEEDED),
    HRF_FIELD(struct hrf_listed_trainings, "model", model, HRF_FIELD_NEEDED),
    HRF_FIELD(struct hrf_listed_trainings, "layout", layout, HRF_FIELD_NEEDED),
    HRF_FIELD_STRUCTS(struct hrf_listed_trainings, "trainings", items, n, HRF_FIELD_LIST,
                      training_fields),
};

void hrf_listed_trainings_release(struct hrf_listed_trainings *list)
{
    hrf_fields_release(HRF_FIELDS(trainings_fields), list);
}

json_t *hrf_listed_trainings_json(const struct hrf_listed_trainings *list)
{
    return hrf_fields_json(HRF_FIELDS(trainings_fields), list);
}

enum hrf_status hrf_listed_trainings_read(const char *path, struct hrf_listed_trainings *out,
                                          struct hrf_error *err)
{
    HRF_AUTO_JSON json = NULL;
    HRF_TRY(hrf_json_read_file(path, &json, err));
    return hrf_fields_read(HRF_FIELDS(trainings_fields), json, path, out, err);
}

/* ---- plan, ranks ---- */

#define OPTION(member)      HRF_OPTION_OF(struct hrf_plan_request, member)
#define NUMBER(member, ...) HRF_OPTION_NUMBER_OF(struct hrf_plan_request, member, __VA_ARGS__)
const struct hrf_request_option hrf_plan_options[] = {
    { "model", "ARCH|FILE", "built-in architecture or ONNX file", OPTION(model) },
    { "size", "PX", "image size (default: the file's, or 256)", NUMBER(size, 0, HRF_COUNT_LIMIT) },
    { "batch", "N", "images in a batch", NUMBER(batch, 1, HRF_COUNT_LIMIT) },
    { "precision", "P", "",
      HRF_OPTION_WORD_OF(struct hrf_plan_request, precision, hrf_precision_names) },
    { "layout", "L",
      "how ranks share the work; N stands for the number of ranks; auto (default) finds the "
      "fastest that fits",
      OPTION(layout) },
    { "processes", "N", "ranks are processes, N on each machine (default: threads of one process)",
      NUMBER(processes, 0, HRF_COUNT_LIMIT) },
    { "ranks", "N", "numbers of ranks: 4, a list 1,2,6, or 1..128 for 1, 2, 4 ... 128",
      OPTION(ranks) },
    { "cluster", "FILE", "a machine file (machines/*.yaml; default: this machine)",
      OPTION(cluster) },
    { "costs", "FILE", "file with measured costs of nodes (default: those that 'profile' saved)",
      OPTION(costs) },
    { "memory", "GIB", "memory limit of a rank (default: what the machine has)",
      NUMBER(memory, 0, HRF_UNBOUNDED) },
    { "timeline", "FILE.json",
      "write what every rank does when; 'tools/draw timeline' of the source tree draws it",
      OPTION(timeline) },
    { "threads", "N", "threads of a rank, for measured costs", NUMBER(threads, 1, 4096) },
    { "train", NULL, "a step of training in place of the network: a loss and its gradients",
      OPTION(train) },
    { "classes", "N", "outputs of a built-in architecture", NUMBER(classes, 1, HRF_COUNT_LIMIT) },
    { "cache", "DIR", "folder of measured costs and machines", OPTION(cache) },
    { "json", NULL, "print JSON", OPTION(json) },
    { NULL },
};
#undef NUMBER
#undef OPTION
const struct hrf_plan_request hrf_plan_request_initial = {
    .precision = HRF_FP32, .batch = 1, .classes = 1000, .threads = 1
};

const struct hrf_request_option hrf_ranks_options[] = {
    { "expect", "N", "fail unless there are N ranks",
      HRF_OPTION_NUMBER_OF(struct hrf_ranks_request, expect, 0, HRF_COUNT_LIMIT) },
    { NULL },
};

/* ---- version ---- */

const struct hrf_request_option hrf_version_options[] = {
    { "json", NULL, "print JSON", HRF_OPTION_OF(struct hrf_version_request, json) },
    { NULL },
};

const char *hrf_engine_part_name(enum hrf_engine_part part)
{
    static const char *const names[HRF_N_ENGINE_PARTS] = {
        [HRF_PART_PROGRAM] = "program",
        [HRF_PART_LIBRARY] = "library",
        [HRF_PART_PROCESSOR] = "processor",
        [HRF_PART_DEVICES] = "devices",
        [HRF_PART_PRECISIONS] = "precisions",
        [HRF_PART_CPU] = "cpu",
        [HRF_PART_CUDA] = "cuda",
        [HRF_PART_NVJPEG] = "nvjpeg",
        [HRF_PART_NCCL] = "nccl",
        [HRF_PART_MPI] = "mpi",
    };
    return names[part];
}

json_t *hrf_engine_version_json(const struct hrf_engine_version *version)
{
    json_t *root = json_object(), *parts = json_object();
    for (int i = 0; i < HRF_N_ENGINE_PARTS; i++) {
        const struct hrf_engine_part_state *part = &version->parts[i];
        const bool has_failed = part->error.status != HRF_OK;
        json_t *state = json_object();
        if (has_failed)
            hrf_json_put(state, "error", hrf_error_to_json(&part->error));
        else
            hrf_json_put_text(state, "found", part->found);
        if (has_failed || part->found[0] != '\0')
            hrf_json_put(parts, hrf_engine_part_name((enum hrf_engine_part)i), state);
        else
            json_decref(state);
    }
    hrf_json_put_int(root, "version", 1);
    hrf_json_put(root, "parts", parts);
    return root;
}

enum hrf_status hrf_engine_version_read(const json_t *answer, struct hrf_engine_version *out,
                                        struct hrf_error *err)
{
    json_t *parts;
    HRF_TRY(hrf_json_get_object(answer, "parts", "hires-engine version", &parts, err));
    *out = (struct hrf_engine_version){ { { .found = "" } } };
    for (int i = 0; i < HRF_N_ENGINE_PARTS; i++) {
        const json_t *part = json_object_get(parts, hrf_engine_part_name((enum hrf_engine_part)i));
        const char *found = json_string_value(json_object_get(part, "found"));
        snprintf(out->parts[i].found, sizeof out->parts[i].found, "%s", found != NULL ? found : "");
        (void)hrf_error_from_json(json_object_get(part, "error"), &out->parts[i].error);
    }
    return HRF_OK;
}
