/* One ONNX node to one node of the graph, or to a value, or to a chain of nodes. */
#include "engine/onnx/convert_private.h"

#include "engine/ir/op.h"

#include <onnx.pb-c.h>
#include <stdio.h>
#include <string.h>

/* What a user can do about an operator that cannot be read. */
static const char *remedy_of(const char *type)
{
    static const struct {
        const char *type, *remedy;
    } remedies[] = {
        { "Loop", "unroll it in the model, and export again" },
        { "Scan", "unroll it in the model, and export again" },
        { "NonMaxSuppression", "export the model without its post-processing" },
        { "LSTM", "only image encoders, segmentation networks and slide heads are computed" },
        { "GRU", "only image encoders, segmentation networks and slide heads are computed" },
        { "DequantizeLinear", "quantise with a scale for each tensor or channel, in 8 bits" },
    };
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        if (strcmp(remedies[i].type, type) == 0)
            return remedies[i].remedy;
    return "write it as other operators in the model and export again; docs/models.md lists those "
           "that are computed";
}

static enum hrf_status name_output(struct hrf_onnx_conversion *c, const char *name, int32_t index)
{
    if (hrf_names_get(&c->reader->values, name, HRF_NAME_UNKNOWN) != HRF_NAME_UNKNOWN)
        return hrf_onnx_refuse(c, HRF_E_USER, "its output '%s' has the name of another value",
                               name);
    hrf_names_set(&c->reader->values, name, index);
    return HRF_OK;
}

enum hrf_status hrf_onnx_refuse_output(struct hrf_onnx_conversion *c, size_t k)
{
    return hrf_onnx_has_output(c, k)
               ? name_output(c, hrf_onnx_text(c->proto->output[k]), HRF_NAME_REFUSED)
               : HRF_OK;
}

enum hrf_status hrf_onnx_refuse_outputs(struct hrf_onnx_conversion *c, size_t first)
{
    for (size_t i = first; i < c->proto->n_output; i++)
        HRF_TRY(hrf_onnx_refuse_output(c, i));
    return HRF_OK;
}

/* Output 0 as a new value; further ones are legal as long as nobody uses them. */
static enum hrf_status add_output(struct hrf_onnx_conversion *c, int32_t *index)
{
    const struct hrf_shape unknown = { .rank = -1 };
    const char *name = hrf_onnx_text(c->proto->output[0]);
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, HRF_DTYPE_NONE, &unknown, NULL, index,
                                c->reader->err));
    HRF_TRY(name_output(c, name, *index));
    return hrf_onnx_refuse_outputs(c, 1);
}

static enum hrf_status read_inputs(struct hrf_onnx_conversion *c)
{
    HRF_AUTO_FREE char *user = hrf_format("node '%s' (%s)", hrf_onnx_text(c->proto->name),
                                          hrf_onnx_text(c->proto->op_type));
    for (size_t i = 0; i < c->proto->n_input; i++)
        HRF_TRY(hrf_onnx_lookup(c->reader, c->proto->input[i], user, &c->inputs[i]));
    c->n_inputs = (int32_t)c->proto->n_input;
    while (c->n_inputs > 0 && c->inputs[c->n_inputs - 1] == HRF_NO_VALUE)
        c->n_inputs--;
    return HRF_OK;
}

static enum hrf_status convert_constant(struct hrf_onnx_conversion *c)
{
    static const char *const known[] = { "value",     "value_float", "value_floats",
                                         "value_int", "value_ints",  NULL };
    HRF_TRY(hrf_onnx_check_attributes(c, HRF_N_OPS, known));
    if (c->proto->n_attribute != 1)
        return hrf_onnx_refuse(c, HRF_E_USER, "has %zu attributes, not one value",
                               c->proto->n_attribute);
    const Onnx__AttributeProto *a = c->proto->attribute[0];
    const char *kind = hrf_onnx_text(a->name), *name = hrf_onnx_text(c->proto->output[0]);
    HRF_AUTO_FREE void *data = NULL;
    enum hrf_dtype dtype = HRF_S64;
    struct hrf_shape shape = { .rank = 0 };
    const void *source = NULL;
    int32_t index;
    if (strcmp(kind, "value") == 0) {
        if (a->t == NULL)
            return hrf_onnx_wrong_type(c, kind, "a tensor");
        HRF_TRY(hrf_onnx_constant(c->reader, a->t, name, &dtype, &shape, &data));
        HRF_TRY(hrf_graph_take_value(c->reader->graph, name, dtype, &shape, &data, &index,
                                     c->reader->err));
        return name_output(c, name, index);
    }
    bool list = kind[strlen(kind) - 1] == 's';
    bool integer = strncmp(kind, "value_int", 9) == 0;
    dtype = integer ? HRF_S64 : HRF_F32;
    shape.rank = list ? 1 : 0;
    shape.dims[0] = (int64_t)(integer ? a->n_ints : a->n_floats);
    source = integer ? (list ? (const void *)a->ints : &a->i)
                     : (list ? (const void *)a->floats : &a->f);
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, dtype, &shape, source != NULL ? source : "",
                                &index, c->reader->err));
    return name_output(c, name, index);
}

/* Sum, Max or Min of n values: n - 1 operations from the left. */
static enum hrf_status convert_chain(struct hrf_onnx_conversion *c, enum hrf_op op)
{
    const struct hrf_shape unknown = { .rank = -1 };
    struct hrf_graph *graph = c->reader->graph;
    HRF_TRY(hrf_onnx_check_attributes(c, HRF_N_OPS, (const char *const[]){ NULL }));
    int32_t sum = c->n_inputs > 0 ? c->inputs[0] : HRF_NO_VALUE, output;
    for (int32_t i = 0; i < c->n_inputs; i++)
        if (c->inputs[i] == HRF_NO_VALUE)
            return hrf_onnx_refuse(c, HRF_E_USER, "input %d is missing", (int)i);
    if (c->n_inputs == 0)
        return hrf_onnx_refuse(c, HRF_E_USER, "has no input");
    for (int32_t i = 1; i + 1 < c->n_inputs; i++) {
        int32_t pair[2] = { sum, c->inputs[i] };
        HRF_TRY(
            hrf_graph_add_value(graph, "", HRF_DTYPE_NONE, &unknown, NULL, &sum, c->reader->err));
        HRF_TRY(hrf_graph_add_node(graph, op, NULL, pair, 2, &sum, 1, NULL, c->reader->err));
    }
    HRF_TRY(add_output(c, &output));
    int32_t last[2] = { sum, c->inputs[c->n_inputs - 1] };
    bool one = c->n_inputs == 1;
    return hrf_graph_add_node(graph, one ? HRF_OP_IDENTITY : op, c->proto->name, last, one ? 1 : 2,
                              &output, 1, NULL, c->reader->err);
}

const struct hrf_value *hrf_onnx_input(const struct hrf_onnx_conversion *c, int32_t k)
{
    return hrf_onnx_has_input(c, k) ? &c->reader->graph->values[c->inputs[k]] : NULL;
}

bool hrf_onnx_has_output(const struct hrf_onnx_conversion *c, size_t k)
{
    return k < c->proto->n_output && hrf_onnx_text(c->proto->output[k])[0] != '\0';
}

/* "output.1", "output.2" ...: INT8 ranges and messages name values. */
static char *make_name(struct hrf_onnx_conversion *c)
{
    return hrf_format("%s.%d", hrf_onnx_text(c->proto->output[0]), (int)++c->n_made);
}

enum hrf_status hrf_onnx_put(struct hrf_onnx_conversion *c, enum hrf_op op, const int32_t *inputs,
                             int32_t n_inputs, const struct hrf_attributes *a, int32_t *output)
{
    const struct hrf_shape unknown = { .rank = -1 };
    HRF_AUTO_FREE char *name = make_name(c);
    int32_t index; /* *output may be one of the inputs */
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, HRF_DTYPE_NONE, &unknown, NULL, &index,
                                c->reader->err));
    HRF_TRY(hrf_graph_add_node(c->reader->graph, op, name, inputs, n_inputs, &index, 1, a,
                               c->reader->err));
    *output = index;
    return HRF_OK;
}

enum hrf_status hrf_onnx_put_output(struct hrf_onnx_conversion *c, size_t k, enum hrf_op op,
                                    const int32_t *inputs, int32_t n_inputs,
                                    const struct hrf_attributes *a)
{
    const struct hrf_shape unknown = { .rank = -1 };
    const char *name = hrf_onnx_text(c->proto->output[k]);
    const char *own = hrf_onnx_text(c->proto->name);
    char numbered[24] = "";
    int32_t output;
    if (k > 0)
        snprintf(numbered, sizeof numbered, ".%zu", k);
    HRF_AUTO_FREE char *node = hrf_format("%s%s", own[0] != '\0' ? own : name, numbered);
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, HRF_DTYPE_NONE, &unknown, NULL, &output,
                                c->reader->err));
    HRF_TRY(name_output(c, name, output));
    return hrf_graph_add_node(c->reader->graph, op, node, inputs, n_inputs, &output, 1, a,
                              c->reader->err);
}

enum hrf_status hrf_onnx_put_constant(struct hrf_onnx_conversion *c, enum hrf_dtype dtype,
                                      const struct hrf_shape *shape, void **data, int32_t *index)
{
    HRF_AUTO_FREE char *name = make_name(c);
    return hrf_graph_take_value(c->reader->graph, name, dtype, shape, data, index, c->reader->err);
}

enum hrf_status hrf_onnx_put_integers(struct hrf_onnx_conversion *c, const int64_t *values,
                                      int32_t n, int32_t *index)
{
    const struct hrf_shape shape = { .rank = 1, .dims = { n } };
    HRF_AUTO_FREE char *name = make_name(c);
    return hrf_graph_add_value(c->reader->graph, name, HRF_S64, &shape, values, index,
                               c->reader->err);
}

enum hrf_status hrf_onnx_put_float(struct hrf_onnx_conversion *c, float value, int32_t *index)
{
    const struct hrf_shape scalar = { .rank = 0 };
    HRF_AUTO_FREE char *name = make_name(c);
    return hrf_graph_add_value(c->reader->graph, name, HRF_F32, &scalar, &value, index,
                               c->reader->err);
}

/* The branch that a constant condition chooses takes the node's place. */
enum hrf_status hrf_onnx_convert_if(struct hrf_onnx_conversion *c)
{
    const struct hrf_value *condition = hrf_onnx_input(c, 0);
    if (condition->data == NULL || condition->dtype != HRF_BOOL ||
        hrf_shape_count(&condition->shape) != 1)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "its condition is not a constant: export again by PyTorch's default "
                               "exporter, or for one image size");
    const bool is_true = *(const uint8_t *)condition->data != 0;
    const Onnx__AttributeProto *branch = hrf_onnx_attribute(c, is_true ? "then_branch"
                                                                       : "else_branch");
    if (branch == NULL || branch->g == NULL || branch->g->n_output != c->proto->n_output)
        return hrf_onnx_refuse(c, HRF_E_USER, "has no branch with %zu outputs", c->proto->n_output);
    HRF_TRY(hrf_onnx_read_branch(c->reader, branch->g));
    for (size_t k = 0; k < c->proto->n_output; k++) {
        int32_t value;
        HRF_TRY(
            hrf_onnx_lookup(c->reader, branch->g->output[k]->name, "the branch of an If", &value));
        if (value == HRF_NO_VALUE)
            return hrf_onnx_refuse(c, HRF_E_USER, "output %zu of its branch has no name", k);
        if (hrf_onnx_has_output(c, k))
            HRF_TRY(name_output(c, hrf_onnx_text(c->proto->output[k]), value));
    }
    return HRF_OK;
}

static enum hrf_status convert_compound(struct hrf_onnx_conversion *c,
                                        const struct hrf_onnx_compound *compound)
{
    const int32_t min = c->is_1d ? hrf_op_info(c->row->op)->min_inputs : compound->min_inputs;
    const int32_t max = c->is_1d ? c->row->max_inputs : compound->max_inputs;
    HRF_TRY(hrf_onnx_check_attributes(c, c->is_1d ? c->row->op : HRF_N_OPS,
                                      c->is_1d ? c->row->attributes : compound->attributes));
    if (c->n_inputs > max || c->n_inputs < min)
        return hrf_onnx_refuse(c, HRF_E_USER, "has %d inputs; it takes %d to %d", (int)c->n_inputs,
                               (int)min, (int)max);
    for (int32_t k = 0; k < min; k++)
        if (c->inputs[k] < 0)
            return hrf_onnx_refuse(c, HRF_E_USER, "its input %d is missing", (int)k);
    return compound->convert(c);
}

/* Windows over one axis: the length of kernel_shape says so, or the weights. */
static bool is_1d(const struct hrf_onnx_conversion *c)
{
    const Onnx__AttributeProto *kernel = hrf_onnx_attribute(c, "kernel_shape");
    const struct hrf_value *weights = hrf_onnx_input(c, 1);
    if (c->row == NULL || !HRF_OP_HAS(c->row->op, window.stride))
        return false;
    return kernel != NULL ? kernel->n_ints == 1
                          : weights != NULL && weights->data != NULL && weights->shape.rank == 3;
}

static enum hrf_status convert_by_row(struct hrf_onnx_conversion *c)
{
    struct hrf_graph *graph = c->reader->graph;
    int32_t output;
    HRF_TRY(hrf_onnx_check_attributes(c, c->row->op, c->row->attributes));
    int32_t fewest = hrf_op_info(c->row->op)->min_inputs;
    if (c->n_inputs > c->row->max_inputs || c->n_inputs < fewest)
        return hrf_onnx_refuse(c, HRF_E_USER, "has %d inputs; it takes %d to %d", (int)c->n_inputs,
                               (int)fewest, (int)c->row->max_inputs);
    c->op = c->row->op;
    HRF_TRY(hrf_onnx_read_attributes(c, c->op));
    if (c->row->convert != NULL)
        HRF_TRY(c->row->convert(c));
    /* Shared weights reach their users through Identity: an alias, not a node. */
    if (c->op == HRF_OP_IDENTITY && c->n_inputs == 1 && c->inputs[0] >= 0 &&
        graph->values[c->inputs[0]].data != NULL)
        return name_output(c, hrf_onnx_text(c->proto->output[0]), c->inputs[0]);
    HRF_TRY(add_output(c, &output));
    return hrf_graph_add_node(graph, c->op, c->proto->name, c->inputs, c->n_inputs, &output, 1,
                              &c->a, c->reader->err);
}

enum hrf_status hrf_onnx_convert_node(struct hrf_onnx_reader *reader, const Onnx__NodeProto *node)
{
    struct hrf_onnx_conversion c = { .reader = reader,
                                     .proto = node,
                                     .a = hrf_attributes_default() };
    const char *type = hrf_onnx_text(node->op_type), *domain = hrf_onnx_text(node->domain);
    const bool is_own = strcmp(domain, HRF_ONNX_OWN_DOMAIN) == 0;
    if (domain[0] != '\0' && strcmp(domain, "ai.onnx") != 0 && !is_own)
        return hrf_onnx_refuse(
            &c, HRF_E_UNSUPPORTED,
            "operators of the domain '%s' are not supported; they are a runtime's "
            "own: export the model again, without its optimiser",
            domain);
    struct hrf_onnx_row row;
    c.row = hrf_onnx_find_row(type, &row) ? &row : NULL;
    if (is_own != (c.row != NULL && c.row->op == HRF_OP_PERFORMER))
        return hrf_onnx_refuse(&c, HRF_E_UNSUPPORTED,
                               "the domain '%s' has no such operator; '%s' has %s", domain,
                               HRF_ONNX_OWN_DOMAIN, hrf_op_name(HRF_OP_PERFORMER));
    bool constant = strcmp(type, "Constant") == 0;
    const enum hrf_op chain = strcmp(type, "Sum") == 0   ? HRF_OP_ADD
                              : strcmp(type, "Max") == 0 ? HRF_OP_MAX
                              : strcmp(type, "Min") == 0 ? HRF_OP_MIN
                                                         : HRF_N_OPS;
    if (c.row == NULL && !constant && chain == HRF_N_OPS &&
        hrf_onnx_find_compound(type, false) == NULL)
        return hrf_onnx_refuse(&c, HRF_E_UNSUPPORTED, "the operator '%s' is not supported: %s",
                               type, remedy_of(type));
    if (node->n_output == 0 || hrf_onnx_text(node->output[0])[0] == '\0')
        return hrf_onnx_refuse(&c, HRF_E_USER, "has no first output");
    if (node->n_input > INT32_MAX - 8)
        return hrf_onnx_refuse(&c, HRF_E_UNSUPPORTED, "%zu inputs are too many", node->n_input);
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array(node->n_input + 4, sizeof *inputs);
    c.inputs = inputs;
    if (constant)
        return convert_constant(&c);
    HRF_TRY(read_inputs(&c));
    c.is_1d = is_1d(&c);
    const struct hrf_onnx_compound *compound = hrf_onnx_find_compound(type, c.is_1d);
    if (compound != NULL)
        return convert_compound(&c, compound);
    return chain != HRF_N_OPS ? convert_chain(&c, chain) : convert_by_row(&c);
}
