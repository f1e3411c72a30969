/* activate_avx512.c - activations of an epilogue that take more than a few instructions. Compiled
 * with -mavx512f. */
#include "engine/backend/cpu/avx512/epilogue_avx512.h"
#include "engine/backend/cpu/avx512/math_avx512.h"

enum { LANES = 16 };

/* Fitted by iteratively reweighted least squares on Chebyshev nodes, weighted by the allowed
 * error. */
_Alignas(64) const float hrf_gelu_tails[HRF_GELU_TERMS][2 * LANES] = {
    {
        0x1p-1f,         0x1.ad344ep-2f,  0x1.5dc656p-2f,  0x1.14ac22p-2f,
        0x1.a841c6p-3f,  0x1.3aea7p-3f,   0x1.c421c2p-4f,  0x1.399ae2p-4f,
        0x1.a4031p-5f,   0x1.0f5b3p-5f,   0x1.52138cp-6f,  0x1.95e88ep-7f,
        0x1.d57082p-8f,  0x1.05601p-8f,   0x1.182622p-9f,  0x1.20ed4ap-10f,
        0x1.1ea4bcp-11f, 0x1.117e22p-12f, 0x1.f5ce1ep-14f, 0x1.ba8dfp-15f,
        0x1.77246cp-16f, 0x1.319a1ep-17f, 0x1.de6dccp-19f, 0x1.67cdbep-20f,
        0x1.03f204p-21f, 0x1.68c9ep-23f,  0x1.e0f56p-25f,  0x1.33e10cp-26f,
        0x1.7a8708p-28f, 0x1.bee35ep-30f, 0x1.fa971ap-32f, 0.0f,
    },
    {
        -0x1.4d7ba8p-4f,  -0x1.469c2ep-4f,  -0x1.32d46ep-4f,  -0x1.147d22p-4f,
        -0x1.ddf7fep-5f,  -0x1.8c47f6p-5f,  -0x1.3b26cp-5f,   -0x1.e0d054p-6f,
        -0x1.5fd116p-6f,  -0x1.edda7p-7f,   -0x1.4c7a06p-7f,  -0x1.ad676ep-8f,
        -0x1.09fb78p-8f,  -0x1.3c118p-9f,   -0x1.684396p-10f, -0x1.89e334p-11f,
        -0x1.9d14acp-12f, -0x1.9f894ep-13f, -0x1.90f42cp-14f, -0x1.731992p-15f,
        -0x1.4974ecp-16f, -0x1.188de4p-17f, -0x1.ca53eep-19f, -0x1.6719ccp-20f,
        -0x1.0de0b4p-21f, -0x1.8518eep-23f, -0x1.0d0c5p-24f,  -0x1.64e566p-26f,
        -0x1.c61cdep-28f, -0x1.151e58p-29f, -0x1.446b74p-31f, 0.0f,
    },
    {
        -0x1.fa2012p-22f, 0x1.b34da6p-10f, 0x1.98efdcp-9f,  0x1.145f96p-8f,
        0x1.3e8318p-8f,   0x1.4a1858p-8f,  0x1.3b04a4p-8f,  0x1.185b1ep-8f,
        0x1.d4e3ecp-9f,   0x1.723bc4p-9f,  0x1.14f28cp-9f,  0x1.8974dcp-10f,
        0x1.09df8p-10f,   0x1.5644e2p-11f, 0x1.a4243p-12f,  0x1.ec2adap-13f,
        0x1.1347ecp-13f,  0x1.2639a6p-14f, 0x1.2c9994p-15f, 0x1.25acbep-16f,
        0x1.127144p-17f,  0x1.eac8b6p-19f, 0x1.a3fap-20f,   0x1.5802e4p-21f,
        0x1.0dc7aap-22f,  0x1.952a7p-24f,  0x1.235e16p-25f, 0x1.915f4p-27f,
        0x1.08cfd6p-28f,  0x1.4ebea6p-30f, 0x1.956656p-32f, 0.0f,
    },
    {
        0x1.297ddap-11f,  0x1.15983ap-11f,  0x1.c5b168p-12f,  0x1.32dfaep-12f,
        0x1.1ba956p-13f,  -0x1.c0cc96p-17f, -0x1.164ec4p-13f, -0x1.bb3e08p-13f,
        -0x1.03b9dcp-12f, -0x1.03f7p-12f,   -0x1.d30882p-13f, -0x1.813156p-13f,
        -0x1.2760dap-13f, -0x1.a86fb8p-14f, -0x1.1f283cp-14f, -0x1.6f31aep-15f,
        -0x1.bcddb2p-16f, -0x1.ffa338p-17f, -0x1.17b73ap-17f, -0x1.231e16p-18f,
        -0x1.20abc4p-19f, -0x1.10efdep-20f, -0x1.ec727cp-22f, -0x1.a81aep-23f,
        -0x1.5cd90ap-24f, -0x1.122bb8p-25f, -0x1.9bea92p-27f, -0x1.27d958p-28f,
        -0x1.966c7ep-30f, -0x1.0b0a5ep-31f, -0x1.4fbf8ap-33f, 0.0f,
    },
    {
        -0x1.3b6b4cp-18f, -0x1.1eb1d4p-16f, -0x1.0128fcp-15f, -0x1.41b392p-15f,
        -0x1.495248p-15f, -0x1.1e404p-15f,  -0x1.a22412p-16f, -0x1.dad988p-17f,
        -0x1.12ba6cp-18f, 0x1.ef14b8p-19f,  0x1.1e97dp-17f,   0x1.63cd8ep-17f,
        0x1.610cp-17f,    0x1.320ee4p-17f,  0x1.e0521p-18f,   0x1.5b58acp-18f,
        0x1.d3d3b8p-19f,  0x1.274b8p-19f,   0x1.5ee966p-20f,  0x1.89c0b8p-21f,
        0x1.a23114p-22f,  0x1.a5325p-23f,   0x1.92eb52p-24f,  0x1.6e87fp-25f,
        0x1.3d64c2p-26f,  0x1.05d77p-27f,   0x1.9bdf06p-29f,  0x1.35004ep-30f,
        0x1.ba7f9ep-32f,  0x1.2e8356p-33f,  0x1.8b1376p-35f,  0.0f,
    },
};

#define EACH(FORMULA)                                                                              \
    for (int64_t i = 0; i < n_registers; i++) {                                                    \
        const __m512 x = _mm512_loadu_ps(sums + i * LANES);                                        \
        _mm512_storeu_ps(sums + i * LANES, FORMULA);                                               \
    }                                                                                              \
    break;

/* Activates sums that are rounded to bfloat16 afterwards. */
static void activate_shortly(float *sums, int64_t n_registers, const struct hrf_epilogue *e)
{
    switch (e->activation) {
    case HRF_ACT_SIGMOID:
        EACH(hrf_v_sigmoid_b16(x))
    case HRF_ACT_SWISH:
        EACH(x * hrf_v_sigmoid_b16(x))
    case HRF_ACT_GELU_TANH:
        EACH(x * hrf_v_sigmoid_b16(hrf_v_gelu_tanh_argument(x)))
    default:
        break;
    }
}

void hrf_activate_sums_avx512(float *sums, int64_t n_registers, const struct hrf_epilogue *e)
{
    const __m512 alpha = hrf_v_all(e->slope), beta = hrf_v_all(e->offset);
    const enum hrf_activation short_ones = e->type == HRF_B16 ? e->activation : HRF_ACT_NONE;
    if (short_ones == HRF_ACT_SIGMOID || short_ones == HRF_ACT_SWISH ||
        short_ones == HRF_ACT_GELU_TANH) {
        activate_shortly(sums, n_registers, e);
        return;
    }
    switch (e->activation) {
    case HRF_ACT_SIGMOID:
        EACH(hrf_v_sigmoid(x))
    case HRF_ACT_HARD_SIGMOID:
        EACH(hrf_v_hard_sigmoid(x, alpha, beta))
    case HRF_ACT_SWISH:
        EACH(x * hrf_v_sigmoid(x))
    case HRF_ACT_HARD_SWISH:
        EACH(hrf_v_hard_swish(x))
    case HRF_ACT_GELU:
        EACH(hrf_v_gelu(x))
    case HRF_ACT_GELU_TANH:
        EACH(hrf_v_gelu_tanh(x))
    default:
        break;
    }
}
