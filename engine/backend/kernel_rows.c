#include "engine/backend/kernel_rows.h"

#include "base/strbuf.h"
#include "engine/backend/kernel.h"

#include <assert.h>
#include <string.h>

enum hrf_node_form hrf_node_form(const struct hrf_graph *graph, const struct hrf_node *node)
{
    bool half = false, integer = false;
    for (int32_t i = -1; i < node->n_inputs; i++) {
        const int32_t index = i < 0 ? node->outputs[0] : node->inputs[i];
        if (index < 0 || graph->values[index].data != NULL)
            continue;
        const enum hrf_dtype dtype = graph->values[index].dtype;
        half |= hrf_dtype_is_half(dtype);
        integer |= hrf_dtype_is_byte(dtype);
    }
    return integer ? HRF_FORM_INTEGER : half ? HRF_FORM_HALF : HRF_FORM_FLOAT;
}

static bool has_form(const struct hrf_kernel_row *row, enum hrf_node_form form)
{
    return row->forms == 0 || (row->forms & (unsigned)form) != 0;
}

static bool is_of(const struct hrf_kernel_row *row, enum hrf_op op)
{
    for (int32_t i = 0; i < row->n_ops; i++)
        if (row->ops[i] == op)
            return true;
    return row->is_op != NULL && row->is_op(op);
}

static const char *form_misfit(enum hrf_node_form form)
{
    return form == HRF_FORM_INTEGER ? "it computes no 8-bit integers"
           : form == HRF_FORM_HALF  ? "it computes no floats of 16 bits"
                                    : "it computes no float32";
}

static const char *isa_misfit(const struct hrf_kernel_table *table, enum hrf_isa isa)
{
    static const char *const reasons[] = {
        [HRF_ISA_ANY] = NULL,
        [HRF_ISA_AVX512] = "the processor has no AVX-512",
        [HRF_ISA_AVX512_VNNI] = "the processor has no AVX-512 VNNI",
        [HRF_ISA_AVX512_BF16] = "the processor has no AVX-512 BF16",
        [HRF_ISA_AMX] = "the processor has no AMX",
    };
    const bool has = isa == HRF_ISA_ANY || (table->has_isa != NULL && table->has_isa(isa));
    return has ? NULL : reasons[isa];
}

/* Of a row of the node's operator. */
static const char *misfit_of(const struct hrf_kernel_table *table, const struct hrf_kernel_row *row,
                             const struct hrf_graph *graph, const struct hrf_node *node)
{
    const enum hrf_node_form form = hrf_node_form(graph, node);
    if (!has_form(row, form))
        return form_misfit(form);
    const char *reason = isa_misfit(table, row->isa);
    if (reason != NULL)
        return reason;
    if (hrf_node_has_prologue(node) && (row->extras & HRF_TAKES_PROLOGUE) == 0)
        return "it takes no prologue";
    return row->misfit != NULL ? row->misfit(graph, node) : NULL;
}

const char *hrf_kernel_misfit(const struct hrf_kernel_table *table,
                              const struct hrf_kernel_row *row, const struct hrf_graph *graph,
                              const struct hrf_node *node)
{
    return is_of(row, node->op) ? misfit_of(table, row, graph, node)
                                : "it computes other operators";
}

static void kernel_rows_refuse(const struct hrf_kernel_table *table, const struct hrf_graph *graph,
                               const struct hrf_node *node, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) reasons = HRF_STRBUF_INIT;
    const char *last = "";
    for (const struct hrf_kernel_row *const *row = table->rows; *row != NULL; row++) {
        const char *reason = is_of(*row, node->op) ? misfit_of(table, *row, graph, node) : last;
        if (strcmp(reason, last) != 0)
            hrf_strbuf_addf(&reasons, "%s%s: %s", last[0] != '\0' ? "; " : "", (*row)->name,
                            reason);
        last = reason;
    }
    const char *advice = table->advice != NULL ? table->advice : "";
    const char *kind = hrf_node_form(graph, node) == HRF_FORM_INTEGER ? "INT8 " : "";
    if (last[0] == '\0')
        hrf_error_set(err, HRF_E_UNSUPPORTED,
                      "node '%s': the operator %s has no %skernel on device %s%s", node->name,
                      hrf_op_name(node->op), kind, table->device, advice);
    else
        hrf_error_set(err, HRF_E_UNSUPPORTED,
                      "node '%s' (%s): it fits no %skernel of device %s (%s)%s", node->name,
                      hrf_op_name(node->op), kind, table->device, reasons.text, advice);
}

const struct hrf_kernel_row *hrf_kernel_find(const struct hrf_kernel_table *table,
                                             const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_error *err)
{
    for (const struct hrf_kernel_row *const *row = table->rows; *row != NULL; row++)
        if (is_of(*row, node->op) && misfit_of(table, *row, graph, node) == NULL)
            return *row;
    if (err != NULL)
        kernel_rows_refuse(table, graph, node, err);
    return NULL;
}

enum hrf_status hrf_kernel_compile(const struct hrf_kernel_table *table,
                                   struct hrf_backend *backend, const struct hrf_graph *graph,
                                   const struct hrf_node *node, struct hrf_kernel **out,
                                   struct hrf_error *err)
{
    const struct hrf_kernel_row *row = hrf_kernel_find(table, graph, node, err);
    if (row == NULL)
        return HRF_E_UNSUPPORTED;
    for (int32_t k = -1; k < node->n_inputs; k++) {
        const int32_t value = k < 0 ? node->outputs[0] : node->inputs[k];
        assert(value < 0 || graph->values[value].pixel_stride == 0 ||
               hrf_kernels_take_pixel_stride(table, graph, node, k));
        (void)value;
    }
    HRF_TRY(row->compile(row, backend, graph, node, out, err));
    (*out)->row = row;
    if ((*out)->implementation == NULL)
        (*out)->implementation = row->name;
    return HRF_OK;
}

bool hrf_kernels_have(const struct hrf_kernel_table *table, enum hrf_op op, enum hrf_node_form form)
{
    for (const struct hrf_kernel_row *const *row = table->rows; *row != NULL; row++)
        if (has_form(*row, form) && is_of(*row, op))
            return true;
    return false;
}

bool hrf_kernels_take_activation(const struct hrf_kernel_table *table,
                                 const struct hrf_graph *graph, const struct hrf_node *node,
                                 enum hrf_activation activation)
{
    if (hrf_node_form(graph, node) == HRF_FORM_INTEGER)
        return false; /* its result has a scale of its own */
    const struct hrf_kernel_row *row = hrf_kernel_find(table, graph, node, NULL);
    return row != NULL && (row->epilogues & HRF_EPILOGUE(activation)) != 0;
}

bool hrf_kernels_take_prologue(const struct hrf_kernel_table *table, const struct hrf_graph *graph,
                               const struct hrf_node *conv)
{
    if (hrf_node_form(graph, conv) == HRF_FORM_INTEGER)
        return false;
    /* The node with some constants in the place of the prologue's, which do not exist yet. */
    int32_t inputs[HRF_CONV_MAX_INPUTS];
    struct hrf_node with = *conv;
    for (int32_t i = 0; i < HRF_CONV_MAX_INPUTS; i++)
        inputs[i] = i < conv->n_inputs ? conv->inputs[i] : HRF_NO_VALUE;
    inputs[HRF_CONV_FACTORS] = inputs[HRF_CONV_SHIFTS] = conv->inputs[HRF_CONV_WEIGHTS];
    with.inputs = inputs;
    with.n_inputs = HRF_CONV_MAX_INPUTS;
    return hrf_kernel_find(table, graph, &with, NULL) != NULL;
}

bool hrf_kernels_take_norm(const struct hrf_kernel_table *table, const struct hrf_graph *graph,
                           const struct hrf_node *conv, const struct hrf_node *norm)
{
    const struct hrf_kernel_row *row = hrf_kernel_find(table, graph, conv, NULL);
    return row != NULL && row->takes_norm != NULL && row->takes_norm(graph, conv, norm);
}

bool hrf_kernels_take_pixel_stride(const struct hrf_kernel_table *table,
                                   const struct hrf_graph *graph, const struct hrf_node *node,
                                   int32_t k)
{
    const struct hrf_kernel_row *row = hrf_kernel_find(table, graph, node, NULL);
    const unsigned of_k = k < 0    ? HRF_STRIDED_OUTPUT
                          : k == 0 ? HRF_STRIDED_INPUT | HRF_STRIDED_INPUTS
                                   : HRF_STRIDED_INPUTS;
    return row != NULL && (row->extras & of_k) != 0;
}
