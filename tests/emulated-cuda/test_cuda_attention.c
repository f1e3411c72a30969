/* The own kernel of attention (engine/backend/cuda/attention.h) on the emulated GPU, over more
 * queries, keys and channels than one tile has, against plain loops in double. */
#include "base/alloc.h"
#include "base/random.h"
#include "engine/backend/cuda/attention.h"
#include "engine/backend/cuda/cuda_device.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

/* A tensor on both sides. */
struct tensor {
    float *host, *device;
};

struct problem {
    struct hrf_k_attention f;
    struct tensor q, k, v, mask, y;
    int64_t n_y;
    struct hrf_cuda_device *gpu;
};

static int64_t pick(struct hrf_random *random, int64_t least, int64_t most)
{
    return least + (int64_t)(hrf_random_unit(random) * (double)(most - least + 1));
}

static struct tensor random_numbers(const struct problem *p, struct hrf_random *random, int64_t n)
{
    void *device = NULL;
    struct tensor t = { .host = hrf_alloc_array((size_t)n + 1, sizeof(float)) };
    assert_non_null(t.host);
    for (int64_t i = 0; i < n; i++)
        t.host[i] = (float)(hrf_random_unit(random) * 2 - 1);
    assert_int_equal(hrf_cuda_upload(p->gpu, t.host, (size_t)n * sizeof(float), &device, NULL),
                     HRF_OK);
    t.device = device;
    return t;
}

/* Heads in the channels of tokens, `gap` numbers behind each. */
static struct hrf_k_heads heads_of(float *data, int64_t n_tokens, int64_t n_heads, int64_t size,
                                   int64_t gap, int64_t shared)
{
    return (struct hrf_k_heads){ .array = { data, HRF_K_F32, 1, 0 },
                                 .image = n_tokens * n_heads * (size + gap),
                                 .head = size + gap,
                                 .token = n_heads * (size + gap),
                                 .channel = 1,
                                 .shared = shared };
}

static struct problem make_problem(struct hrf_cuda_device *gpu, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    struct problem p = { .f = { .images = pick(&random, 1, 2) }, .gpu = gpu };
    struct hrf_k_attention *f = &p.f;
    const int64_t shared = pick(&random, 1, 2), gap = pick(&random, 0, 3);
    f->n_queries = pick(&random, 1, 150);
    f->n_keys = pick(&random, 1, 150);
    f->heads = shared * pick(&random, 1, 2);
    f->depth = pick(&random, 1, 140);
    f->channels = pick(&random, 1, 140);
    f->scale = (float)(1 / sqrt((double)f->depth));
    f->causal = seed % 3 == 1;
    const int64_t few = f->heads / shared;
    p.n_y = f->images * f->n_queries * f->heads * f->channels;
    p.q = random_numbers(&p, &random, f->images * f->n_queries * f->heads * (f->depth + gap));
    p.k = random_numbers(&p, &random, f->images * f->n_keys * few * (f->depth + gap));
    p.v = random_numbers(&p, &random, f->images * f->n_keys * few * (f->channels + gap));
    p.mask = random_numbers(&p, &random, f->heads * f->n_queries * f->n_keys);
    p.y = random_numbers(&p, &random, p.n_y);
    f->q = heads_of(p.q.device, f->n_queries, f->heads, f->depth, gap, 1);
    f->k = heads_of(p.k.device, f->n_keys, few, f->depth, gap, shared);
    f->v = heads_of(p.v.device, f->n_keys, few, f->channels, gap, shared);
    f->y = heads_of(p.y.device, f->n_queries, f->heads, f->channels, 0, 1);
    f->mask.shared = 1;
    if (seed % 2 == 0) { /* some keys are not seen, in one query none */
        const int64_t n = f->heads * f->n_queries * f->n_keys;
        for (int64_t i = 0; i < n; i += 5)
            p.mask.host[i] = -INFINITY;
        for (int64_t s = 0; s < f->n_keys; s++)
            p.mask.host[s] = -INFINITY;
        assert_int_equal(
            hrf_cuda_write(gpu, p.mask.host, (size_t)n * sizeof(float), p.mask.device, NULL),
            HRF_OK);
        f->mask = (struct hrf_k_heads){ .array = { p.mask.device, HRF_K_F32, 1, 0 },
                                        .head = f->n_queries * f->n_keys,
                                        .token = f->n_keys,
                                        .channel = 1,
                                        .shared = 1 };
        f->mask_images = 1;
    }
    return p;
}

static void release_problem(struct problem *p)
{
    struct tensor *const all[] = { &p->q, &p->k, &p->v, &p->mask, &p->y };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hrf_cuda_release(all[i]->device);
        hrf_free(all[i]->host);
    }
}

/* The results, when y is the problem's. */
static void run(const struct problem *p, const struct hrf_k_attention *f)
{
    assert_int_equal(hrf_k_attend(f, p->gpu->stream), cudaSuccess);
    assert_int_equal(
        hrf_cuda_read(p->gpu, p->y.device, (size_t)p->n_y * sizeof(float), p->y.host, NULL),
        HRF_OK);
}

static double number(const struct hrf_k_heads *x, const struct tensor *t, int64_t image,
                     int64_t head, int64_t token, int64_t channel)
{
    return (double)t->host[image * x->image + head / x->shared * x->head + token * x->token +
                           channel * x->channel];
}

/* Channel c of the result: sums of exp(score) v and of exp(score). */
static double expected(const struct problem *p, int64_t n, int64_t h, int64_t t, int64_t c)
{
    const struct hrf_k_attention *f = &p->f;
    double over = 0, under = 0;
    for (int64_t s = 0; s < f->n_keys; s++) {
        double score = 0;
        for (int64_t i = 0; i < f->depth; i++)
            score += number(&f->q, &p->q, n, h, t, i) * number(&f->k, &p->k, n, h, s, i);
        score *= (double)f->scale;
        if (f->mask.array.data != NULL)
            score += number(&f->mask, &p->mask, 0, h, t, s);
        if (f->causal != 0 && s > t)
            score = -INFINITY;
        over += exp(score) * number(&f->v, &p->v, n, h, s, c);
        under += exp(score);
    }
    return under > 0 ? over / under : 0;
}

static void it_agrees_with_plain_loops(void **state)
{
    for (uint64_t seed = 0; seed < 24; seed++) {
        struct problem p = make_problem(*state, seed);
        const struct hrf_k_attention *f = &p.f;
        run(&p, f);
        for (int64_t i = 0; i < p.n_y; i += 1 + p.n_y / 300) {
            const int64_t c = i % f->channels, h = i / f->channels % f->heads;
            const int64_t t = i / f->channels / f->heads % f->n_queries;
            const int64_t n = i / f->channels / f->heads / f->n_queries;
            const double want = expected(&p, n, h, t, c);
            if (!(fabs((double)p.y.host[i] - want) <= 2e-6))
                fail_msg("seed %d, image %d, head %d, query %d, channel %d: %g instead of %g",
                         (int)seed, (int)n, (int)h, (int)t, (int)c, (double)p.y.host[i], want);
        }
        release_problem(&p);
    }
}

/* Two parts that begin at whole blocks, with the state between them in place. */
static void keys_in_parts_give_the_bits_of_all_at_once(void **state)
{
    for (uint64_t seed = 1; seed < 24; seed += 2) { /* without masks */
        struct problem p = make_problem(*state, seed);
        struct hrf_k_attention first = p.f, second = p.f;
        first.causal = second.causal = p.f.causal = 0; /* which parts do not have */
        HRF_AUTO_FREE float *whole = hrf_alloc_array((size_t)p.n_y, sizeof *whole);
        assert_non_null(whole);
        run(&p, &p.f);
        memcpy(whole, p.y.host, (size_t)p.n_y * sizeof *whole);
        void *seen = NULL;
        const size_t state_bytes = (size_t)(p.n_y / p.f.channels * (p.f.channels + 2)) * 4;
        assert_int_equal(hrf_cuda_allocate(p.gpu, state_bytes, &seen, NULL), HRF_OK);
        first.n_keys = p.f.n_keys > 64 ? 32 : 0;
        first.gives_state = 1;
        first.y.array.data = seen;
        run(&p, &first);
        struct hrf_k_attention middle = first;
        middle.seen = seen;
        middle.k.array.data = p.k.device + first.n_keys * p.f.k.token;
        middle.v.array.data = p.v.device + first.n_keys * p.f.v.token;
        run(&p, &middle);
        second.n_keys = p.f.n_keys - 2 * first.n_keys;
        second.seen = seen;
        second.k.array.data = p.k.device + 2 * first.n_keys * p.f.k.token;
        second.v.array.data = p.v.device + 2 * first.n_keys * p.f.v.token;
        run(&p, &second);
        assert_memory_equal(p.y.host, whole, (size_t)p.n_y * sizeof *whole);
        hrf_cuda_release(seen);
        release_problem(&p);
    }
}

static int open_gpu(void **state)
{
    struct hrf_cuda_device *gpu = NULL;
    *state = NULL;
    if (hrf_cuda_device_open(0, &gpu, NULL) != HRF_OK)
        return -1;
    *state = gpu;
    return 0;
}

static int close_gpu(void **state)
{
    hrf_cuda_device_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_plain_loops),
        cmocka_unit_test(keys_in_parts_give_the_bits_of_all_at_once),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
