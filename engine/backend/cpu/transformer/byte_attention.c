/* byte_attention.c - the constants and the kernel rows of 8-bit attention (byte_attention.h). */
#include "engine/backend/cpu/transformer/byte_attention.h"

#include "engine/backend/cpu/cpu_private.h"

/* Describes how bytes of x become unsigned, or signed. */
static struct hrf_byte_matrix matrix_of(const struct hrf_operand *x, bool is_signed)
{
    const bool flips = (x->dtype == HRF_S8) != is_signed;
    const int32_t shift = !flips ? 0 : is_signed ? -128 : 128;
    return (struct hrf_byte_matrix){ .flip = flips ? 128 : 0,
                                     .zero = x->quantization.zero_point + shift };
}

void *hrf_byte_attention_prepare(const struct hrf_spec *spec)
{
    const struct hrf_operand *x = spec->inputs;
    struct hrf_byte_attention *a = hrf_calloc(1, sizeof *a);
    a->q = matrix_of(&x[HRF_ATTENTION_Q], false);
    a->k = matrix_of(&x[HRF_ATTENTION_K], true);
    a->v = matrix_of(&x[HRF_ATTENTION_V], true);
    a->steps = hrf_attention_steps_of(spec);
    return a;
}

static const char *byte_attention_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph;
    return node->attributes.attention.causal ? "it is causal" : NULL;
}

#define BYTE_ROW(title, on, form)                                                                  \
    {                                                                                              \
        .name = title, HRF_ROW_OPS(HRF_OP_BYTE_ATTENTION), .forms = HRF_FORM_INTEGER, .isa = on,   \
        .misfit = byte_attention_misfit, .compile = hrf_attention_compile, .own = &form            \
    }
#ifdef HRF_BUILD_AVX512
const struct hrf_kernel_row hrf_cpu_byte_attention_avx512 = BYTE_ROW(
    "bytes:avx512_vnni", HRF_ISA_AVX512_VNNI, hrf_byte_attention_avx512);
#endif
#ifdef HRF_BUILD_AVX2 /* which the back end requires */
const struct hrf_kernel_row hrf_cpu_byte_attention = BYTE_ROW("bytes:avx2", HRF_ISA_ANY,
                                                              hrf_byte_attention_avx2);
#else
const struct hrf_kernel_row hrf_cpu_byte_attention = BYTE_ROW("bytes:plain", HRF_ISA_ANY,
                                                              hrf_byte_attention_plain);
#endif
