/* Attention of bytes on the emulated GPU gives the bytes that the CPU gives, over more queries,
 * keys and channels than one tile has, and over more channels than are summed as floats. */
#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cuda/cuda.h"
#include "engine/backend/device.h"
#include "tests/unit/engine/backend/cpu/byte_attention_problem.h"

#include <string.h>

struct device {
    const struct hrf_backend_ops *ops;
    struct hrf_backend *backend;
};

static int64_t count_outputs(const struct problem *p)
{
    return p->n_queries * p->heads * p->depth;
}

static void wait(const struct device *on)
{
    must(on->ops->device->mark(on->backend, 0, &err));
    must(on->ops->device->wait(on->backend, 0, &err));
}

/* n bytes of the device; from NULL: what is there. */
static void *on_device(const struct device *on, const void *from, size_t n)
{
    void *memory = NULL, *host = NULL;
    must(on->ops->device->allocate(on->backend, n, &memory, &err));
    if (from == NULL)
        return memory;
    must(on->ops->device->allocate_host(on->backend, n, &host, &err));
    memcpy(host, from, n);
    must(on->ops->device->upload(on->backend, memory, host, n, &err));
    wait(on);
    on->ops->device->release_host(on->backend, host);
    return memory;
}

static void read_back(const struct device *on, void *to, const void *memory, size_t n)
{
    void *host = NULL;
    must(on->ops->device->allocate_host(on->backend, n, &host, &err));
    must(on->ops->device->download(on->backend, host, memory, n, &err));
    wait(on);
    memcpy(to, host, n);
    on->ops->device->release_host(on->backend, host);
}

static uint8_t *compute(const struct device *on, const struct problem *p)
{
    const struct hrf_node *node = &p->graph->nodes[0];
    const size_t n_y = (size_t)count_outputs(p);
    uint8_t *y = hrf_alloc(n_y);
    HRF_AUTO(hrf_kernel) kernel = NULL;
    must(hrf_backend_compile(on->ops, on->backend, p->graph, node, &kernel, &err));
    if (on->ops->device == NULL) {
        HRF_AUTO_FREE void *workspace = hrf_alloc_aligned(kernel->workspace_bytes,
                                                          HRF_BUFFER_ALIGNMENT);
        const struct hrf_kernel_call call = { (const void *const *)p->x, y, workspace };
        must(kernel->run(kernel, &call, &err));
        return y;
    }
    void *x[3], *to = on_device(on, NULL, n_y);
    for (int i = 0; i < 3; i++)
        x[i] = on_device(on, p->x[i], (size_t)hrf_value_bytes(&p->graph->values[node->inputs[i]]));
    const struct hrf_kernel_call call = { (const void *const *)x, to, NULL };
    must(kernel->run(kernel, &call, &err));
    read_back(on, y, to, n_y);
    for (int i = 0; i < 3; i++)
        on->ops->device->release(on->backend, x[i]);
    on->ops->device->release(on->backend, to);
    return y;
}

static struct device open_device(const struct hrf_backend_ops *ops)
{
    const struct hrf_backend_config config = { .n_threads = 1 };
    struct device device = { .ops = ops };
    must(ops->create(&config, &device.backend, &err));
    if (ops->enter != NULL)
        ops->enter(device.backend);
    return device;
}

static void the_gpu_gives_the_bytes_of_the_cpu(void **unused)
{
    (void)unused;
    const struct device cpu = open_device(&hrf_backend_cpu), gpu = open_device(&hrf_backend_cuda);
    for (int i = 0; i < 60; i++) {
        numbers = hrf_random_init((uint64_t)i);
        struct problem p = make_problem(i % 10 == 9 ? 240 : 0);
        HRF_AUTO_FREE uint8_t *wanted = compute(&cpu, &p), *got = compute(&gpu, &p);
        for (int64_t k = 0; k < count_outputs(&p); k++)
            if (got[k] != wanted[k])
                fail_msg("problem %d: byte %lld is %d, not %d", i, (long long)k, got[k], wanted[k]);
        release_problem(&p);
    }
    cpu.ops->destroy(cpu.backend);
    gpu.ops->destroy(gpu.backend);
}

static void causal_attention_of_bytes_is_refused(void **unused)
{
    (void)unused;
    numbers = hrf_random_init(1);
    struct problem p = make_problem(0);
    p.graph->nodes[0].attributes.attention.causal = true;
    assert_false(hrf_backend_supports(&hrf_backend_cuda, p.graph, &p.graph->nodes[0], &err));
    release_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gpu_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(causal_attention_of_bytes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
