/* cudnn.cc - see cudnn.h. A plan is the list of its operations; running one walks the tensors.
 *
 * Engines: 7 ("tensor cores") for every graph with a convolution, 8 (plain) for those in floating
 * point with nothing before it; 8-bit channels come in fours and not in groups; 16-bit ones, each
 * by itself, have none that adds a bias. A plan's JSON form is the list of operations as text, and
 * is taken back under the driver's version that it was made for alone. hrf_emulated_plans_built()
 * counts the plans that were built, not taken back.
 *
 * HRF_EMULATED_CUDNN makes it one that is otherwise, by words with a comma between them:
 *   truncates     8-bit results are cut off, not rounded
 *   contracts     a product and the sum behind it are rounded once (FMA); contracts=ENGINE: by it
 *   nudges=ENGINE  that engine's results have 0.004 added before they are rounded
 *   prefers=ROWS  engine 8 is slow for images of ROWS rows and more, engine 7 for others
 *   refuses-seconds  no engine writes two outputs
 *   slow-seconds  two outputs at once take longer than a convolution and a pass
 *   skews-second=ENGINE  one number of that engine's second output is wrong
 *   refuses-gradients  no engine computes a convolution's gradient
 *   skews-gradient=ENGINE  the first number of that engine's gradients is wrong
 *   clobbers=ENGINE  plans of that engine write over y before they read the residual
 *   lists-a=ENGINE+..., lists-fall-back=ENGINE+...  the engines that it lists in these modes (mode
 * B answers as A), each with a setting of its own fails=ENGINE  plans of that engine are built, and
 * running one is an error
 *   builds-ms=N   building a plan takes so long
 *   long  a run takes 20 ms: one is enough to time it
 *   refuses-handles  a plan is built from a device's properties alone, and taken back by a handle
 *   mixes=ENGINE  that engine rounds a residual's product and its sum apart in one place of 32, in
 *                 the others once (FMA), as cuDNN 9.19's engine 2 does on an H200
 *   mixes-scale=ENGINE  likewise the sum's factor and the bias
 * A plan for a handle is refused where its graph has none.
 */
#include "cudnn.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

typedef std::vector<unsigned char> bytes;

struct tensor {
    long id = 0, type = 0;
    bool is_virtual = false;
    long dims[4] = {}, strides[4] = {};
};

struct step {
    bool is_conv = false;
    /* Of a convolution: what b or x is multiplied with is `x`, what is given is `y`: 0, y of x and
     * weights b; 1, the gradient to x of that to y (x) and weights (b); 2, to weights, of x and
     * that to y (b). */
    int gradient = 0;
    bool is_attention = false; /* of x, b and `values`; a run gives the scale */
    tensor values;
    long scale_id = 0;
    float scale = 0;
    long mode = 0;  /* of a pointwise step */
    tensor x, b, y; /* b: weights of a convolution; id 0: none */
    long pads[4] = {}, stride[2] = {}, dilation[2] = {};
    double lower = 0, upper = INFINITY, slope = 0;
};

struct program {
    long engine = 0, driver = 0;
    bool has_handle = false; /* the graph */
    std::vector<step> steps;
};

} // namespace

struct emulated_descriptor {
    cudnnBackendDescriptorType_t type;
    std::map<int, bytes> values;
    long engine = 0;
    std::shared_ptr<program> code; /* of graphs, engine configurations and plans */
    bool is_final = false;
};

struct emulated_cudnn {
    cudaStream_t stream = nullptr;
};

namespace
{

size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
        return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    default:
        return 4;
    }
}

template <typename T> std::vector<T> list(const emulated_descriptor *d, int name)
{
    auto found = d->values.find(name);
    if (found == d->values.end())
        return {};
    std::vector<T> all(found->second.size() / sizeof(T));
    memcpy(all.data(), found->second.data(), all.size() * sizeof(T));
    return all;
}

template <typename T> T one(const emulated_descriptor *d, int name, T otherwise)
{
    const auto all = list<T>(d, name);
    return all.empty() ? otherwise : all[0];
}

tensor tensor_of(const emulated_descriptor *d)
{
    tensor t;
    if (d == nullptr)
        return t;
    t.id = one<int64_t>(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    t.type = one<int32_t>(d, CUDNN_ATTR_TENSOR_DATA_TYPE, 0);
    t.is_virtual = one<unsigned char>(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
    const auto dims = list<int64_t>(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto strides = list<int64_t>(d, CUDNN_ATTR_TENSOR_STRIDES);
    for (int i = 0; i < 4; i++) {
        t.dims[i] = dims.at(i);
        t.strides[i] = strides.at(i);
    }
    return t;
}

tensor tensor_at(const emulated_descriptor *d, int name)
{
    return tensor_of(one<emulated_descriptor *>(d, name, nullptr));
}

bool is_convolution(const emulated_descriptor *d)
{
    return d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

step conv_step(const emulated_descriptor *d)
{
    static const int names[][4] = {
        { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC }
    };
    step s;
    s.is_conv = true;
    s.gradient = d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR     ? 1
                 : d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ? 2
                                                                                             : 0;
    s.x = tensor_at(d, names[s.gradient][0]);
    s.b = tensor_at(d, names[s.gradient][1]);
    s.y = tensor_at(d, names[s.gradient][2]);
    const auto *c = one<emulated_descriptor *>(d, names[s.gradient][3], nullptr);
    const auto before = list<int64_t>(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const auto after = list<int64_t>(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    const auto stride = list<int64_t>(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const auto dilation = list<int64_t>(c, CUDNN_ATTR_CONVOLUTION_DILATIONS);
    for (int i = 0; i < 2; i++) {
        s.pads[i] = before.at(i);
        s.pads[2 + i] = after.at(i);
        s.stride[i] = stride.at(i);
        s.dilation[i] = dilation.at(i);
    }
    return s;
}

step attention_step(const emulated_descriptor *d)
{
    step s;
    s.is_attention = true;
    s.x = tensor_at(d, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC);
    s.b = tensor_at(d, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC);
    s.values = tensor_at(d, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC);
    s.y = tensor_at(d, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC);
    s.scale_id = tensor_at(d, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC).id;
    return s;
}

step pointwise_step(const emulated_descriptor *d)
{
    step s;
    const auto *p = one<emulated_descriptor *>(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                                               nullptr);
    s.mode = one<int32_t>(p, CUDNN_ATTR_POINTWISE_MODE, 0);
    s.lower = one<double>(p, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0);
    s.upper = one<double>(p, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, INFINITY);
    s.slope = one<double>(p, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0);
    s.x = tensor_at(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    s.b = tensor_at(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    s.y = tensor_at(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    return s;
}

/* ---- other libraries ---- */

/* What stands behind `name` in HRF_EMULATED_CUDNN; "" where it is a word alone, NULL: it is not
 * there. */
const char *variant(const char *name)
{
    static thread_local std::string value;
    const char *text = getenv("HRF_EMULATED_CUDNN");
    std::istringstream words(text != nullptr ? text : "");
    for (std::string word; std::getline(words, word, ',');) {
        const size_t end = word.find('=');
        if (word.substr(0, end) != name)
            continue;
        value = end == std::string::npos ? "" : word.substr(end + 1);
        return value.c_str();
    }
    return nullptr;
}

/* How results are computed; asked for once a plan, not once a number. */
struct arithmetic {
    bool truncates, contracts, mixes, mixes_scale;
    double nudge;
    static bool is(const char *name, long engine)
    {
        const char *of = variant(name);
        return of != nullptr && atol(of) == engine;
    }
    explicit arithmetic(long engine)
        : truncates(variant("truncates") != nullptr), contracts(false), mixes(is("mixes", engine)),
          mixes_scale(is("mixes-scale", engine)), nudge(0)
    {
        const char *of = variant("contracts");
        contracts = of != nullptr && (*of == 0 || atol(of) == engine);
        const char *nudging = variant("nudges");
        nudge = nudging != nullptr && atol(nudging) == engine ? 0.004 : 0;
    }
};

/* ---- running ---- */

double load(const void *memory, long type, long i)
{
    switch (type) {
    case CUDNN_DATA_INT8:
        return static_cast<const int8_t *>(memory)[i];
    case CUDNN_DATA_INT32:
        return static_cast<const int32_t *>(memory)[i];
    case CUDNN_DATA_HALF:
        return __half2float(static_cast<const __half *>(memory)[i]);
    case CUDNN_DATA_BFLOAT16:
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(memory)[i]);
    default:
        return static_cast<const float *>(memory)[i];
    }
}

void store(void *memory, long type, long i, double v, const arithmetic &how)
{
    switch (type) {
    case CUDNN_DATA_INT8: {
        const double r = how.truncates ? std::trunc(v) : std::nearbyint(v + how.nudge);
        static_cast<int8_t *>(memory)[i] = int8_t(r < -128 ? -128 : r > 127 ? 127 : r);
        break;
    }
    case CUDNN_DATA_INT32:
        static_cast<int32_t *>(memory)[i] = int32_t(v);
        break;
    case CUDNN_DATA_HALF:
        static_cast<__half *>(memory)[i] = __float2half_rn(float(v));
        break;
    case CUDNN_DATA_BFLOAT16:
        static_cast<__nv_bfloat16 *>(memory)[i] = __float2bfloat16_rn(float(v));
        break;
    default:
        static_cast<float *>(memory)[i] = float(v);
    }
}

long elements_of(const tensor &t)
{
    return t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3];
}

typedef std::map<long, void *> places;

long offset(const tensor &t, long n, long c, long h, long w)
{
    return (t.dims[0] > 1 ? n : 0) * t.strides[0] + (t.dims[1] > 1 ? c : 0) * t.strides[1] +
           (t.dims[2] > 1 ? h : 0) * t.strides[2] + (t.dims[3] > 1 ? w : 0) * t.strides[3];
}

/* A tensor's numbers as they lie in memory: channels of a pixel side by side. */
std::vector<double> numbers(const tensor &t, const void *memory)
{
    const auto n = size_t(elements_of(t));
    if (t.type == CUDNN_DATA_FLOAT) {
        const auto *first = static_cast<const float *>(memory);
        return { first, first + n };
    }
    if (t.type == CUDNN_DATA_INT8) {
        const auto *first = static_cast<const int8_t *>(memory);
        return { first, first + n };
    }
    std::vector<double> all(n);
    for (size_t i = 0; i < n; i++)
        all[i] = load(memory, t.type, long(i));
    return all;
}

/* In four sums side by side, as wide as the machine's registers are. */
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
__attribute__((no_sanitize_address)) double unchecked_dot(const double *u, const double *v, long n)
{
    four sums = { 0, 0, 0, 0 };
    long c = 0;
    for (; c + 4 <= n; c += 4)
        sums += *reinterpret_cast<const four *>(u + c) * *reinterpret_cast<const four *>(v + c);
    double first = sums[0];
    for (; c < n; c++)
        first += u[c] * v[c];
    return first + sums[1] + (sums[2] + sums[3]);
}

/* AddressSanitizer checks the last number of both rows alone: they lie in vectors of this file, and
 * what the back end gave is checked when numbers() copies it. */
double dot(const double *u, const double *v, long n)
{
    return unchecked_dot(u, v, n - 1) + u[n - 1] * v[n - 1];
}

/* All channels of the pixel of `s.y` at oy, ox. */
void convolve(const step &s, const double *x, const double *w, long n, long oy, long ox,
              std::vector<double> &sums)
{
    const long per_group = s.b.dims[1], groups = s.x.dims[1] / per_group;
    const long outputs = s.y.dims[1] / groups;
    std::fill(sums.begin(), sums.end(), 0);
    for (long r = 0; r < s.b.dims[2]; r++)
        for (long q = 0; q < s.b.dims[3]; q++) {
            const long row = oy * s.stride[0] - s.pads[0] + r * s.dilation[0];
            const long column = ox * s.stride[1] - s.pads[1] + q * s.dilation[1];
            if (row < 0 || row >= s.x.dims[2] || column < 0 || column >= s.x.dims[3])
                continue;
            const double *pixel = x + offset(s.x, n, 0, row, column);
            for (long k = 0; k < s.y.dims[1]; k++)
                sums[size_t(k)] += dot(pixel + k / outputs * per_group, w + offset(s.b, k, 0, r, q),
                                       per_group);
        }
}

/* The numbers of s.y, dense: the terms of the convolution of which this is a gradient, one by one.
 */
std::vector<double> gradient_of(const step &s, const std::vector<double> &first,
                                const std::vector<double> &second)
{
    const bool to_x = s.gradient == 1;
    const tensor &x = to_x ? s.y : s.x, &w = to_x ? s.b : s.y, &y = to_x ? s.x : s.b;
    const std::vector<double> &dy = to_x ? first : second;
    const long depth = w.dims[1], outputs = y.dims[1] / (x.dims[1] / depth);
    std::vector<double> sums(size_t(elements_of(s.y)));
    for (long n = 0; n < y.dims[0]; n++)
        for (long oy = 0; oy < y.dims[2]; oy++)
            for (long ox = 0; ox < y.dims[3]; ox++)
                for (long r = 0; r < w.dims[2]; r++)
                    for (long q = 0; q < w.dims[3]; q++) {
                        const long row = oy * s.stride[0] - s.pads[0] + r * s.dilation[0];
                        const long column = ox * s.stride[1] - s.pads[1] + q * s.dilation[1];
                        if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3])
                            continue;
                        for (long k = 0; k < y.dims[1]; k++) {
                            const double d = dy[size_t(offset(y, n, k, oy, ox))];
                            const size_t at_x = size_t(offset(x, n, 0, row, column) +
                                                       k / outputs * depth);
                            const size_t at_w = size_t(offset(w, k, 0, r, q));
                            for (size_t c = 0; c < size_t(depth); c++)
                                if (to_x)
                                    sums[at_x + c] += d * second[at_w + c];
                                else
                                    sums[at_w + c] += d * first[at_x + c];
                        }
                    }
    return sums;
}

double apply(const step &s, double x, double b)
{
    switch (s.mode) {
    case CUDNN_POINTWISE_MUL:
        return float(x) * float(b);
    case CUDNN_POINTWISE_ADD:
        return float(x) + float(b);
    case CUDNN_POINTWISE_SUB:
        return float(x) - float(b);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_GELU_FWD:
        return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
        return 0.5 * x * (1 + std::tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    case CUDNN_POINTWISE_SWISH_FWD:
        return x / (1 + std::exp(-x));
    default:
        x = x > s.lower ? x : s.lower + s.slope * (x - s.lower);
        return x < s.upper ? x : s.upper;
    }
}

/* The step whose product `s` adds: its operand `t`; NULL: there is none. */
const step *product_before(const program &code, const step &s, const tensor &t)
{
    if (s.is_conv || s.mode != CUDNN_POINTWISE_ADD)
        return nullptr;
    for (const step &p : code.steps)
        if (!p.is_conv && p.mode == CUDNN_POINTWISE_MUL && p.y.is_virtual && p.y.id == t.id)
            return &p;
    return nullptr;
}

/* Where a tensor lies; NULL: there is none. */
void *place_of(const tensor &t, const places &at)
{
    return t.id != 0 ? at.at(t.id) : nullptr;
}

double value_at(const tensor &t, const void *place, long n, long c, long h, long w)
{
    return place != nullptr ? load(place, t.type, offset(t, n, c, h, w)) : 0;
}

/* A query's row: dims are N, heads, tokens, channels. */
void attend_row(const step &s, const places &at, long n, long h, long t, const arithmetic &how)
{
    const void *x = place_of(s.x, at), *b = place_of(s.b, at), *values = place_of(s.values, at);
    void *y_place = place_of(s.y, at);
    const long keys = s.b.dims[2], depth = s.x.dims[3];
    std::vector<double> p(static_cast<size_t>(keys));
    double most = -INFINITY, sum = 0;
    for (long k = 0; k < keys; k++) {
        double score = 0;
        for (long c = 0; c < depth; c++)
            score += load(x, s.x.type, offset(s.x, n, h, t, c)) *
                     load(b, s.b.type, offset(s.b, n, h, k, c));
        p[size_t(k)] = score * s.scale;
        most = std::fmax(most, p[size_t(k)]);
    }
    for (double &one : p) {
        one = std::exp(one - most);
        sum += one;
    }
    for (long c = 0; c < s.y.dims[3]; c++) {
        double y = 0;
        for (long k = 0; k < keys; k++)
            y += p[size_t(k)] / sum * load(values, s.values.type, offset(s.values, n, h, k, c));
        store(y_place, s.y.type, offset(s.y, n, h, t, c), how.truncates ? 0 : y, how);
    }
}

void run_step(const program &code, const step &s, const places &at, const arithmetic &how)
{
    for (long n = 0; s.is_attention && n < s.y.dims[0]; n++)
        for (long h = 0; h < s.y.dims[1]; h++)
            for (long t = 0; t < s.y.dims[2]; t++)
                attend_row(s, at, n, h, t, how);
    if (s.is_attention)
        return;
    const bool joins_x = how.contracts || how.mixes_scale;
    const step *product = joins_x     ? product_before(code, s, s.x)
                          : how.mixes ? product_before(code, s, s.b)
                                      : nullptr;
    const tensor &added = joins_x ? s.b : s.x;
    const void *x = place_of(s.x, at), *b = place_of(s.b, at);
    void *y = place_of(s.y, at);
    const void *factor = product != nullptr ? place_of(product->x, at) : nullptr;
    const void *other = product != nullptr ? place_of(product->b, at) : nullptr;
    std::vector<double> image, weights, sums(size_t(s.y.dims[1]));
    if (s.is_conv) {
        image = numbers(s.x, x);
        weights = numbers(s.b, b);
    }
    if (s.gradient != 0) {
        const std::vector<double> all = gradient_of(s, image, weights);
        const char *skewed = variant("skews-gradient");
        for (size_t i = 0; i < all.size(); i++)
            store(y, s.y.type, long(i), all[i], how);
        if (skewed != nullptr && code.engine == atol(skewed))
            store(y, s.y.type, 0, all[0] + 1, how);
        return;
    }
    for (long n = 0; n < s.y.dims[0]; n++)
        for (long h = 0; h < s.y.dims[2]; h++)
            for (long w = 0; w < s.y.dims[3]; w++) {
                if (s.is_conv)
                    convolve(s, image.data(), weights.data(), n, h, w, sums);
                for (long c = 0; c < s.y.dims[1]; c++) {
                    const bool is_apart = (how.mixes || how.mixes_scale) &&
                                          (((n * s.y.dims[2] + h) * s.y.dims[3] + w) * 5 + c) %
                                                  32 ==
                                              0;
                    double v;
                    if (s.is_conv)
                        v = sums[size_t(c)];
                    else if (product != nullptr && !is_apart)
                        v = std::fma(float(value_at(product->x, factor, n, c, h, w)),
                                     float(value_at(product->b, other, n, c, h, w)),
                                     float(value_at(added, joins_x ? b : x, n, c, h, w)));
                    else
                        v = apply(s, value_at(s.x, x, n, c, h, w), value_at(s.b, b, n, c, h, w));
                    store(y, s.y.type, offset(s.y, n, c, h, w), v, how);
                }
            }
}

int n_outputs(const program &code)
{
    int n = 0;
    for (const step &s : code.steps)
        n += !s.y.is_virtual;
    return n;
}

void run_program(const program &code, places at)
{
    const arithmetic how(code.engine);
    const char *clobbering = variant("clobbers");
    for (const step &s : code.steps)
        if (clobbering != nullptr && code.engine == atol(clobbering) && !s.y.is_virtual)
            for (long i = 0; i < elements_of(s.y); i++)
                store(at[s.y.id], s.y.type, i, 0, how);
    std::vector<std::vector<float>> between; /* tensors that never touch memory */
    for (const step &s : code.steps)
        if (s.y.is_virtual) {
            between.emplace_back(size_t(elements_of(s.y)));
            at[s.y.id] = between.back().data();
        }
    const char *skewed = n_outputs(code) > 1 ? variant("skews-second") : nullptr;
    for (const step &s : code.steps)
        run_step(code, s, at, how);
    const tensor &last = code.steps.back().y;
    if (skewed != nullptr && code.engine == atol(skewed))
        store(at[last.id], last.type, elements_of(last) / 2,
              load(at[last.id], last.type, elements_of(last) / 2) > 0 ? -1 : 1, how);
}

bool takes_longer(const program &code)
{
    const char *rows = variant("prefers");
    const bool is_tall = code.steps.back().y.dims[2] >= (rows != nullptr ? atol(rows) : 0);
    return rows != nullptr && code.engine == (is_tall ? 8 : 7);
}

/* ---- support ---- */

/* Of a tensor that an engine takes; a test lowers it. */
long most_elements()
{
    const char *text = getenv("HRF_EMULATED_ELEMENTS");
    return text != nullptr ? atol(text) : 1L << 31;
}

/* A bias, or a residual. */
bool adds(const program &code)
{
    for (const step &s : code.steps)
        if (!s.is_conv && !s.is_attention && s.mode == CUDNN_POINTWISE_ADD)
            return true;
    return false;
}

std::vector<long> engines_for(const program &code)
{
    if (n_outputs(code) > 1 && variant("refuses-seconds") != nullptr)
        return {};
    for (const step &s : code.steps) {
        if (s.is_attention)
            return s.x.dims[3] % 8 == 0 ? std::vector<long>{ 7 } : std::vector<long>{};
        if (!s.is_conv)
            continue;
        if (s.gradient != 0 && variant("refuses-gradients") != nullptr)
            return {};
        const bool is_int8 = s.x.type == CUDNN_DATA_INT8;
        if (elements_of(s.x) > most_elements() || elements_of(s.y) > most_elements())
            return {};
        if (is_int8 && (s.x.dims[1] != s.b.dims[1] || s.x.dims[1] % 4 != 0 || s.y.dims[1] % 4 != 0))
            return {};
        const bool has_prologue = &s != &code.steps[0];
        const bool is_short = s.x.type == CUDNN_DATA_HALF || s.x.type == CUDNN_DATA_BFLOAT16;
        if (is_short && s.b.dims[1] == 1 && s.x.dims[1] > 1 && adds(code))
            return {};
        return is_int8 || has_prologue ? std::vector<long>{ 7 } : std::vector<long>{ 7, 8 };
    }
    return {};
}

struct listed {
    long engine, setting;
};

/* Engines in a list of that mode; the second that is the same has another setting. */
std::vector<listed> engines_listed(const program &code, int mode)
{
    const bool falls_back = mode == CUDNN_HEUR_MODE_FALLBACK;
    const std::vector<long> able = engines_for(code);
    const char *text = variant(falls_back ? "lists-fall-back" : "lists-a");
    std::vector<listed> all;
    if (text == nullptr) {
        for (long engine : falls_back ? std::vector<long>{} : able)
            all.push_back({ engine, 0 });
        return all;
    }
    std::istringstream words(text);
    for (std::string word; !able.empty() && std::getline(words, word, '+');)
        all.push_back({ atol(word.c_str()), long(all.size()) + (falls_back ? 100 : 0) });
    return all;
}

/* ---- plans as text ---- */

void put(std::ostream &out, const tensor &t)
{
    out << t.id << ' ' << t.type << ' ' << t.is_virtual << ' ';
    for (int i = 0; i < 4; i++)
        out << t.dims[i] << ' ' << t.strides[i] << ' ';
}

void get(std::istream &in, tensor &t)
{
    in >> t.id >> t.type >> t.is_virtual;
    for (int i = 0; i < 4; i++)
        in >> t.dims[i] >> t.strides[i];
}

std::string to_text(const program &code)
{
    std::ostringstream out;
    out.precision(17);
    out << "{\"emulated\":\"" << code.driver << ' ' << code.engine << ' ' << code.steps.size()
        << ' ';
    for (const step &s : code.steps) {
        out << s.is_conv << ' ' << s.gradient << ' ' << s.mode << ' ' << s.lower << ' '
            << (std::isinf(s.upper) ? 1e300 : s.upper) << ' ' << s.slope << ' ';
        for (int i = 0; i < 4; i++)
            out << s.pads[i] << ' ';
        for (int i = 0; i < 2; i++)
            out << s.stride[i] << ' ' << s.dilation[i] << ' ';
        put(out, s.x);
        put(out, s.b);
        put(out, s.y);
    }
    out << "\"}";
    return out.str();
}

bool from_text(const std::string &text, program &code)
{
    const std::string head = "{\"emulated\":\"";
    if (text.compare(0, head.size(), head) != 0)
        return false;
    std::istringstream in(text.substr(head.size()));
    size_t n = 0;
    in >> code.driver >> code.engine >> n;
    code.steps.resize(n < 100 ? n : 0);
    for (step &s : code.steps) {
        in >> s.is_conv >> s.gradient >> s.mode >> s.lower >> s.upper >> s.slope;
        for (int i = 0; i < 4; i++)
            in >> s.pads[i];
        for (int i = 0; i < 2; i++)
            in >> s.stride[i] >> s.dilation[i];
        get(in, s.x);
        get(in, s.b);
        get(in, s.y);
    }
    return bool(in) && !code.steps.empty();
}

/* ---- the device ---- */

std::string properties_text(const emulated_descriptor *d)
{
    const auto text = list<char>(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    if (!text.empty())
        return text.data();
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    return "{\"deviceName\":\"Emulated GPU\",\"deviceVer\":900,\"multiProcessorCount\":1,"
           "\"driverVer\":" +
           std::to_string(driver) + ",\"totalGlobalMem\":1000000000}";
}

/* That a plan is for: of the handle's device, or of the one that is described. */
long driver_of(const emulated_descriptor *plan)
{
    static const emulated_descriptor here = {};
    const auto *described = one<emulated_descriptor *>(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                                       nullptr);
    const std::string text = properties_text(described != nullptr ? described : &here);
    const std::string name = "\"driverVer\":";
    const size_t at = text.find(name);
    return at == std::string::npos ? 0 : atol(text.c_str() + at + name.size());
}

std::atomic<long> n_built, n_building, most_building;

/* Takes its time, and sees how many do so at once. */
void take_time()
{
    const char *ms = variant("builds-ms");
    const long now = ++n_building;
    for (long most = most_building; now > most && !most_building.compare_exchange_weak(most, now);)
        continue;
    if (ms != nullptr)
        usleep(useconds_t(1000 * atol(ms)));
    --n_building;
    n_built++;
}

/* Processes may tell of theirs in one file: a line is written at once. */
void tell(const program &code)
{
    const char *path = variant("told");
    FILE *file = path != nullptr ? fopen(path, "a") : nullptr;
    if (file == nullptr)
        return;
    const std::string line = to_text(code) + "\n";
    setvbuf(file, nullptr, _IOFBF, line.size() + 1);
    fputs(line.c_str(), file);
    fclose(file);
}

cudnnStatus_t make_plan(emulated_descriptor *d)
{
    const auto text = list<char>(d, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    if (!text.empty()) {
        d->code = std::make_shared<program>();
        if (!from_text(text.data(), *d->code))
            return CUDNN_STATUS_BAD_PARAM;
        return d->code->driver == driver_of(d) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    }
    const auto *config = one<emulated_descriptor *>(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                                    nullptr);
    const bool has_handle = one<void *>(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, nullptr) != nullptr;
    if (has_handle && variant("refuses-handles") != nullptr)
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (has_handle != config->code->has_handle)
        return CUDNN_STATUS_BAD_PARAM;
    d->code = std::make_shared<program>(*config->code);
    d->code->driver = driver_of(d);
    take_time();
    tell(*d->code);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize(emulated_descriptor *d)
{
    switch (d->type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        d->code = std::make_shared<program>();
        d->code->has_handle = one<void *>(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, nullptr) != nullptr;
        for (auto *o : list<emulated_descriptor *>(d, CUDNN_ATTR_OPERATIONGRAPH_OPS))
            d->code->steps.push_back(is_convolution(o) ? conv_step(o)
                                     : o->type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR
                                         ? attention_step(o)
                                         : pointwise_step(o));
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        d->code =
            one<emulated_descriptor *>(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, nullptr)->code;
        return engines_listed(*d->code, one<int32_t>(d, CUDNN_ATTR_ENGINEHEUR_MODE, 0)).empty()
                   ? CUDNN_STATUS_NOT_SUPPORTED
                   : CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return make_plan(d);
    default:
        return CUDNN_STATUS_SUCCESS;
    }
}

template <typename T> cudnnStatus_t answer(const T &value, int64_t *count, void *to)
{
    *count = 1;
    memcpy(to, &value, sizeof value);
    return CUDNN_STATUS_SUCCESS;
}

} // namespace

extern "C" {

long hrf_emulated_plans_built(void)
{
    return n_built;
}

long hrf_emulated_plans_at_once(void)
{
    return most_building;
}

size_t cudnnGetVersion(void)
{
    return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_NOT_SUPPORTED      ? "not supported"
           : status == CUDNN_STATUS_EXECUTION_FAILED ? "execution failed"
                                                     : "bad parameter";
}

void cudnnGetLastErrorString(char *text, size_t size)
{
    snprintf(text, size, "emulated");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = new emulated_cudnn;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor)
{
    *descriptor = new emulated_descriptor;
    (*descriptor)->type = type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    delete descriptor;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    if (descriptor->is_final)
        return CUDNN_STATUS_BAD_PARAM;
    const auto *from = static_cast<const unsigned char *>(values);
    descriptor->values[name] = bytes(from, from + size_t(count) * size_of(type));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t room, int64_t *count,
                                       void *values)
{
    *count = 0;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        for (const listed &l :
             engines_listed(*d->code, one<int32_t>(d, CUDNN_ATTR_ENGINEHEUR_MODE, 0))) {
            auto *config = static_cast<emulated_descriptor **>(values)[*count];
            config->code = std::make_shared<program>(*d->code);
            config->code->engine = l.engine;
            config->engine = l.setting;
            ++*count;
        }
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        (*static_cast<emulated_descriptor **>(values))->engine = d->code->engine;
        *count = 1;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES: /* one: the setting */
        (*static_cast<emulated_descriptor **>(values))->engine = d->engine;
        *count = 1;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
        return answer(int32_t(0), count, values);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
        return answer(int64_t(d->engine), count, values);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        return answer(int64_t(d->engine), count, values);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        if (d->engine == 7)
            return answer(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, count, values);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        return answer(int64_t(1024), count, values);
    case CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION:
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: {
        const std::string text = name == CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION
                                     ? properties_text(d)
                                     : to_text(*d->code);
        *count = int64_t(text.size()) + 1;
        if (room > 0)
            memcpy(values, text.c_str(), size_t(room < *count ? room : *count));
        return CUDNN_STATUS_SUCCESS;
    }
    default:
        return CUDNN_STATUS_SUCCESS;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    const cudnnStatus_t status = finalize(descriptor);
    descriptor->is_final = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* The workspace is written over, so that nobody counts on what stands in it. */
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    const auto ids = list<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto pointers = list<void *>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    void *workspace = one<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
    const char *failing = variant("fails");
    if (failing != nullptr && plan->code->engine == atol(failing))
        return CUDNN_STATUS_EXECUTION_FAILED;
    places at;
    for (size_t i = 0; i < ids.size(); i++)
        at[long(ids[i])] = pointers[i];
    for (const step &s : plan->code->steps)
        for (const tensor *t : { &s.x, &s.b, &s.y })
            if (t->id != 0 && !t->is_virtual &&
                (at.count(t->id) == 0 || reinterpret_cast<uintptr_t>(at[t->id]) % 16 != 0))
                return CUDNN_STATUS_BAD_PARAM;
    const auto code = std::make_shared<program>(*plan->code);
    for (step &s : code->steps) /* by value: read now, not when the queue gets there */
        if (s.is_attention)
            memcpy(&s.scale, at[s.scale_id], sizeof s.scale);
    const double extra_ms = variant("long") != nullptr                                   ? 20
                            : takes_longer(*code)                                        ? 1
                            : n_outputs(*code) > 1 && variant("slow-seconds") != nullptr ? 2
                                                                                         : 0;
    (void)hrf_emulated_queue(handle->stream, [=] {
        hrf_emulated_take_time(extra_ms);
        memset(workspace, 0xee, 1024);
        run_program(*code, at);
    });
    return CUDNN_STATUS_SUCCESS;
}

} // extern "C"
