/* check_rows.h - what `hires-engine check` compares and measures on a device, row by row.
 *
 * A part is a table of rows of one kind. Each row is a process's work: a row that hangs, crashes or
 * leaves the device in a bad state costs that row alone when it runs by itself, as tools/gpu-check
 * runs it. A row is named PART:NAME, e.g. "agreement:resnet18-int8-32".
 */
#ifndef HRF_ENGINE_CHECK_CHECK_ROWS_H
#define HRF_ENGINE_CHECK_CHECK_ROWS_H

#include "base/json.h"
#include "engine/ir/graph.h"
#include "engine/run/session.h"
#include "schema/settings/precision.h"

struct hrf_check {
    const char *device;
    const char *address; /* of the device on its bus, for the driver's energy meter; "" unknown */
    bool small;          /* the program itself is tried: every row, on small images */
    const char *outputs; /* a folder with the CPU's outputs (check_outputs.h); NULL: none */
    const char
        *networks; /* a folder with NAME.onnx of networks that are not built in; NULL: none */
};

struct hrf_check_row {
    bool good, left_out; /* left_out: what it needs is not here, the text says what */
    char text[1536];     /* a line for people, without an end of line */
    json_t *json;        /* the same as members of an object; owned by who asked for the row */
};

struct hrf_check_part {
    const char *name;
    int n_rows, n_quick; /* the first n_quick rows take seconds */
    void (*name_row)(int row, char *name, size_t size);
    void (*run)(const struct hrf_check *check, int row, struct hrf_check_row *out);
};

/* rounding: INT8 convolutions of whole numbers, whose every result is known exactly: rounding of
 * ties, saturation, residual sums, by numbers of channels.
 * agreement: networks in every precision against the CPU, three times with the same bits.
 * gradients: of a step of training, against the CPU, three times with the same bits while weights
 * are written again between.
 * layouts: INT8 by ranks that share the device, and in bands: the same bytes as by one.
 * speed: images per second, memory and energy of the networks that are asked about most, and their
 * last outputs against the CPU's, where these were carried along; networks: of other families;
 * speed-more: the first ones in other precisions. */
extern const struct hrf_check_part hrf_check_rounding, hrf_check_agreement, hrf_check_gradients,
    hrf_check_layouts, hrf_check_speed, hrf_check_networks, hrf_check_speed_more;

/* A built-in architecture, or `networks`/MODEL.onnx, with its input set to `batch` images of `size`
 * px, shapes inferred. */
HRF_CHECKED enum hrf_status hrf_check_graph(const char *networks, const char *model, int64_t size,
                                            int64_t batch, struct hrf_graph **out,
                                            struct hrf_error *err);
/* What a row that compares a network with the CPU says as JSON: how it ran, and how far off it was.
 */
struct hrf_check_network;
json_t *hrf_check_difference_json(const struct hrf_check_network *network, double difference,
                                  double limit, const char *error);
/* False: it is a file, and not there. */
bool hrf_check_has_network(const char *networks, const char *model);

/* The networks of `agreement` and `speed`, and how they run there: what their plans can be made
 * beforehand for. False: there is no network `i`. */
struct hrf_check_network {
    const char *model;
    enum hrf_precision precision;
    int64_t size, batch;
};
bool hrf_check_agreement_network(int i, struct hrf_check_network *out);
bool hrf_check_speed_network(int i, struct hrf_check_network *out);
/* Computes the CPU's outputs of the networks of `speed`, `networks` and `speed-more` (but the large
 * ones, and files that are not there) and writes them to check->outputs, keeping what stands there.
 * On another device than the CPU: adds its own outputs for the networks that tell images apart by
 * little, in the precisions that they are measured in, to these files. */
HRF_CHECKED enum hrf_status hrf_check_make_outputs(const struct hrf_check *check,
                                                   struct hrf_error *err);
/* Likewise of `layouts`: a network and how its ranks divide it (NULL: in bands). */
enum { HRF_CHECK_BANDS = 3 };
bool hrf_check_layout(int i, struct hrf_check_network *out, const char **layout);
/* The graph of a row of `rounding`, with the INT8 ranges of its values, [HRF_CHECK_MAX_RANGES]. */
enum { HRF_CHECK_MAX_RANGES = 8 };
HRF_CHECKED enum hrf_status hrf_check_rounding_graph(int i, struct hrf_graph **out,
                                                     struct hrf_range *ranges, int32_t *n_ranges,
                                                     struct hrf_error *err);
int hrf_check_n_roundings(void);

#endif
