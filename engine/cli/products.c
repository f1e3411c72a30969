#include "engine/cli/products.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/sort.h"

#include <oneapi/dnnl/dnnl.h>

#include <string.h>

/* One layer's: its rows and results stand where those of all others do. */
struct product {
    dnnl_primitive_t primitive;
    dnnl_memory_t rows, weights, result;
};

struct products {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct product *items;
    int32_t n;
    void *rows, *result; /* as large as the largest */
    size_t rows_bytes, result_bytes;
};

#define CHECK_DNNL(call, what)                                                                     \
    do {                                                                                           \
        const dnnl_status_t dnnl_status_ = (call);                                                 \
        if (dnnl_status_ != dnnl_success)                                                          \
            return hrf_error_set(err, HRF_E_EXTERNAL, "oneDNN's matrix product: %s (status %d)",   \
                                 what, (int)dnnl_status_);                                         \
    } while (0)

static void release_memory(dnnl_memory_t memory)
{
    if (memory != NULL)
        dnnl_memory_destroy(memory);
}

static void release(struct products *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        release_memory(p->items[i].rows);
        release_memory(p->items[i].weights);
        release_memory(p->items[i].result);
        if (p->items[i].primitive != NULL)
            dnnl_primitive_destroy(p->items[i].primitive);
    }
    hrf_free(p->items);
    hrf_free(p->rows);
    hrf_free(p->result);
    if (p->stream != NULL)
        dnnl_stream_destroy(p->stream);
    if (p->engine != NULL)
        dnnl_engine_destroy(p->engine);
}

/* Noise that is a number of each type: small floats, bfloat16 of about 1, any bytes. */
static void fill(void *to, size_t n_bytes, dnnl_data_type_t type)
{
    struct hrf_random random = hrf_random_init(1);
    for (size_t i = 0; i + 4 <= n_bytes; i += 4) {
        uint32_t word = (uint32_t)hrf_random_u64(&random);
        const float number = (float)(word & 0xffffff) * 0x1p-23f - 1;
        if (type == dnnl_f32)
            memcpy(&word, &number, sizeof word);
        else if (type == dnnl_bf16)
            word = (word & 0x807f807fU) | 0x3f003f00U;
        memcpy((char *)to + i, &word, sizeof word);
    }
}

static enum hrf_status make(struct products *p, const struct hrf_bench_layer *layer,
                            struct hrf_error *err)
{
    const bool is_bytes = layer->weights == HRF_S8, is_bf16 = layer->weights == HRF_B16;
    const dnnl_data_type_t type = is_bytes ? dnnl_u8 : is_bf16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_data_type_t w_type = is_bytes ? dnnl_s8 : type;
    const dnnl_dims_t rows = { layer->rows, layer->depth }, w = { layer->depth, layer->columns };
    const dnnl_dims_t result = { layer->rows, layer->columns };
    struct product *item = &p->items[p->n];
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc = NULL;
    CHECK_DNNL(dnnl_memory_desc_init_by_tag(&a, 2, rows, type, dnnl_ab), "rows");
    CHECK_DNNL(dnnl_memory_desc_init_by_tag(&b, 2, w, w_type, dnnl_format_tag_any), "weights");
    CHECK_DNNL(dnnl_memory_desc_init_by_tag(&c, 2, result, is_bf16 ? type : dnnl_f32, dnnl_ab),
               "result");
    CHECK_DNNL(dnnl_matmul_desc_init(&matmul, &a, &b, NULL, &c), "description");
    CHECK_DNNL(dnnl_primitive_desc_create(&desc, &matmul, NULL, p->engine, NULL), "choice");
    p->n++;
    dnnl_status_t status = dnnl_primitive_create(&item->primitive, desc);
    const dnnl_memory_desc_t wanted = *dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_destroy(desc);
    CHECK_DNNL(status, "making it");
    CHECK_DNNL(dnnl_memory_create(&item->rows, &a, p->engine, DNNL_MEMORY_NONE), "rows");
    CHECK_DNNL(dnnl_memory_create(&item->weights, &wanted, p->engine, DNNL_MEMORY_ALLOCATE),
               "weights");
    CHECK_DNNL(dnnl_memory_create(&item->result, &c, p->engine, DNNL_MEMORY_NONE), "result");
    void *weights = NULL;
    CHECK_DNNL(dnnl_memory_get_data_handle(item->weights, &weights), "weights");
    fill(weights, dnnl_memory_desc_get_size(&wanted), w_type);
    const size_t a_bytes = dnnl_memory_desc_get_size(&a), c_bytes = dnnl_memory_desc_get_size(&c);
    p->rows_bytes = a_bytes > p->rows_bytes ? a_bytes : p->rows_bytes;
    p->result_bytes = c_bytes > p->result_bytes ? c_bytes : p->result_bytes;
    return HRF_OK;
}

static enum hrf_status make_all(struct products *p, const struct hrf_bench *bench,
                                struct hrf_products *out, struct hrf_error *err)
{
    enum hrf_dtype type = HRF_F32;
    CHECK_DNNL(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "starting it");
    CHECK_DNNL(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags), "starting it");
    p->items = hrf_calloc((size_t)bench->n_layers + 1, sizeof *p->items);
    for (int32_t i = 0; i < bench->n_layers; i++) {
        const struct hrf_bench_layer *layer = &bench->layers[i];
        if (layer->rows == 0)
            continue;
        HRF_TRY(make(p, layer, err));
        type = layer->weights;
        out->operations += 2.0 * (double)layer->rows * (double)layer->depth *
                           (double)layer->columns;
    }
    p->rows = hrf_alloc_aligned(p->rows_bytes + 64, 64);
    p->result = hrf_alloc_aligned(p->result_bytes + 64, 64);
    HRF_CHECK_MEMORY(p->rows != NULL && p->result != NULL, err, "no memory for products");
    fill(p->rows, p->rows_bytes, type == HRF_S8 ? dnnl_u8 : type == HRF_B16 ? dnnl_bf16 : dnnl_f32);
    memset(p->result, 0, p->result_bytes);
    for (int32_t i = 0; i < p->n; i++) {
        CHECK_DNNL(dnnl_memory_set_data_handle(p->items[i].rows, p->rows), "rows");
        CHECK_DNNL(dnnl_memory_set_data_handle(p->items[i].result, p->result), "result");
    }
    out->n = p->n;
    return HRF_OK;
}

static enum hrf_status run(const struct products *p, int64_t n_runs, double *seconds,
                           struct hrf_error *err)
{
    for (int64_t r = -1; r < n_runs; r++) { /* the first warms up */
        const double start = hrf_clock_seconds();
        for (int32_t i = 0; i < p->n; i++) {
            const struct product *item = &p->items[i];
            const dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, item->rows },
                                             { DNNL_ARG_WEIGHTS, item->weights },
                                             { DNNL_ARG_DST, item->result } };
            CHECK_DNNL(dnnl_primitive_execute(item->primitive, p->stream, 3, args), "running it");
        }
        CHECK_DNNL(dnnl_stream_wait(p->stream), "running it");
        if (r >= 0)
            seconds[r] = hrf_clock_seconds() - start;
    }
    return HRF_OK;
}

enum hrf_status hrf_products_time(const struct hrf_bench *bench, struct hrf_products *out,
                                  struct hrf_error *err)
{
    struct products products = { .n = 0 };
    HRF_AUTO_FREE double *seconds = hrf_alloc_array((size_t)bench->n_runs, sizeof *seconds);
    *out = (struct hrf_products){ .n = 0 };
    enum hrf_status status = make_all(&products, bench, out, err);
    if (status == HRF_OK && products.n > 0)
        status = run(&products, bench->n_runs, seconds, err);
    if (status == HRF_OK && products.n > 0)
        out->seconds = hrf_median(seconds, (size_t)bench->n_runs);
    release(&products);
    return status;
}
