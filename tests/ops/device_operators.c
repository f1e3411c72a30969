/* device_operators.c - every operator's cases (cases.h) on a device against the reference, for
 * tools/gpu-check: the program that test_cuda is on the emulated GPU.
 *
 *   device_operators PRECISION [--device D] [--cases N]
 *
 * fp32: each case within its tolerance (2e-5 of the largest output where sums are in float32);
 * others: on average as far from float32 as the type is. Three runs of each (queued, recorded,
 * replayed). A process of its own computes from one operator on: one that crashes or hangs is
 * named, and the next begins behind it. The last line sums up. Exit: 0 all are right, 1 some are
 * not. */
#include "base/alloc.h"
#include "engine/run/session.h"
#include "tests/ops/cases.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANGS_MS = 30000 };

static const struct limit {
    enum hrf_precision precision;
    double mean;   /* of a precision's cases of one operator; 0: each by its own tolerance */
    int n_default; /* cases of each operator */
} limits[] = {
    { HRF_FP32, 0, 6 }, { HRF_INT8, 0.08, 2 }, { HRF_BF16, 0.02, 2 }, { HRF_FP16, 0.003, 2 }
};

/* What a child says of an operator: before it, and behind it. */
struct said {
    int op;
    bool is_done;
    int n_run; /* 0: no case has a kernel on this device */
    double worst, mean;
};

struct asked {
    const char *device;
    const struct limit *limit;
    int n_cases;
};

/* The device says that it has no kernel for one of the nodes. */
static bool is_refused(const struct hrf_graph *graph, const char *device)
{
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_error err = { .text = "" };
    const struct hrf_session_config config = { .device = device,
                                               .precision = HRF_FP32,
                                               .n_threads = 1 };
    return hrf_session_create(graph, &config, &session, &err) != HRF_OK &&
           strstr(err.text, ": run it with --device cpu") != NULL;
}

static double compare_case(const struct asked *asked, int op, int k, bool *is_run)
{
    const uint64_t seed = (uint64_t)(1000 * op + k);
    const bool is_full = asked->limit->mean == 0;
    struct build b = build_start(seed);
    b.between_products = !is_full;
    const int32_t output = op_cases[op].make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    double difference = 0;
    *is_run = !is_refused(graph, asked->device);
    if (*is_run) {
        int64_t n, n_ref;
        float *truth = run_graph(graph, "ref", 1, seed, 1, &n_ref);
        float *ours = run_graph_in(graph, asked->device, asked->limit->precision, 1, seed, 3, &n,
                                   NULL);
        difference = n == n_ref ? relative_difference(ours, truth, n) : INFINITY;
        hrf_free(truth);
        hrf_free(ours);
    }
    hrf_graph_destroy(graph);
    return difference;
}

static void tell(int to, const struct said *said)
{
    if (write(to, said, sizeof *said) != (ssize_t)sizeof *said)
        _exit(1);
}

/* A quotient by a number near zero is as far off as one likes, and of two numbers that rounding
 * makes equal another one is the largest. */
static bool is_left_out(const struct asked *asked, int op)
{
    return asked->limit->mean > 0 &&
           (op_cases[op].op == HRF_OP_DIV || op_cases[op].op == HRF_OP_MATMUL ||
            op_cases[op].op == HRF_OP_MAX_POOL_GRADIENT);
}

static void compute(const struct asked *asked, int first, int to)
{
    for (int op = first; op < n_op_cases; op++) {
        struct said said = { .op = op };
        int most = op_cases[op].n_cases < asked->n_cases ? op_cases[op].n_cases : asked->n_cases;
        tell(to, &said);
        for (int k = 0; k < op_cases[op].n_cases && said.n_run < most && !is_left_out(asked, op);
             k++) {
            bool is_run;
            const double difference = compare_case(asked, op, k, &is_run);
            said.n_run += is_run;
            said.mean += difference;
            said.worst = difference <= said.worst ? said.worst : difference; /* NaN is the worst */
        }
        said.mean /= said.n_run > 0 ? said.n_run : 1;
        said.is_done = true;
        tell(to, &said);
    }
}

struct found {
    int n_right, n_wrong, n_without;
    double worst;
    int worst_op;
};

static double limit_of(const struct asked *asked, int op)
{
    if (asked->limit->mean > 0)
        return asked->limit->mean;
    return op_cases[op].tolerance > 2e-5 ? op_cases[op].tolerance : 2e-5;
}

static void judge(const struct asked *asked, const struct said *said, struct found *found)
{
    const double is = asked->limit->mean > 0 ? said->mean : said->worst;
    const double part = is / limit_of(asked, said->op);
    const bool is_right = is <= limit_of(asked, said->op);
    if (said->n_run == 0) {
        found->n_without++;
        return;
    }
    printf("%-4s %-24s %d cases, %.1e of the largest output (at most %.1e)\n",
           is_right ? "ok" : "BAD", op_cases[said->op].name, said->n_run, is,
           limit_of(asked, said->op));
    found->n_right += is_right;
    found->n_wrong += !is_right;
    if (!(part <= found->worst)) {
        found->worst = part;
        found->worst_op = said->op;
    }
}

/* Reads what a child says until it ends; gives the operator that the next one begins with. */
static int follow(const struct asked *asked, pid_t child, int from, int first, struct found *found)
{
    struct said said = { .op = first }, last = said;
    struct pollfd waited = { .fd = from, .events = POLLIN };
    int status = 0;
    bool hangs = false;
    for (;;) {
        hangs = poll(&waited, 1, HANGS_MS) == 0;
        if (hangs || read(from, &said, sizeof said) != (ssize_t)sizeof said)
            break;
        last = said;
        if (said.is_done)
            judge(asked, &said, found);
    }
    if (hangs)
        (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    if (last.is_done && last.op == n_op_cases - 1)
        return n_op_cases;
    const int op = last.is_done ? last.op + 1 : last.op;
    found->n_wrong++;
    if (hangs)
        printf("BAD  %-24s nothing for %d s\n", op_cases[op].name, HANGS_MS / 1000);
    else
        printf("BAD  %-24s ended by %s %d\n", op_cases[op].name,
               WIFSIGNALED(status) ? "signal" : "exit code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return op + 1;
}

static int run_all(const struct asked *asked, struct found *found)
{
    for (int first = 0; first < n_op_cases;) {
        int ends[2];
        (void)fflush(stdout);
        if (pipe(ends) != 0)
            return -1;
        const pid_t child = fork();
        if (child < 0)
            return -1;
        if (child == 0) {
            (void)close(ends[0]);
            compute(asked, first, ends[1]);
            _exit(0);
        }
        (void)close(ends[1]);
        first = follow(asked, child, ends[0], first, found);
        (void)close(ends[0]);
    }
    return 0;
}

static bool read_arguments(int argc, char **argv, struct asked *out)
{
    *out = (struct asked){ .device = "cuda" };
    for (size_t i = 0; argc > 1 && i < sizeof limits / sizeof limits[0]; i++)
        if (strcmp(argv[1], hrf_precision_name(limits[i].precision)) == 0)
            out->limit = &limits[i];
    if (out->limit != NULL)
        out->n_cases = out->limit->n_default;
    char *end = NULL;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--device") == 0)
            out->device = argv[i + 1];
        else if (strcmp(argv[i], "--cases") == 0)
            out->n_cases = (int)strtol(argv[i + 1], &end, 10);
        else
            return false;
    }
    return out->limit != NULL && out->n_cases > 0 && argc % 2 == 0 && (end == NULL || *end == '\0');
}

int main(int argc, char **argv)
{
    struct asked asked;
    struct found found = { .worst = 0 };
    if (!read_arguments(argc, argv, &asked)) {
        fprintf(stderr, "usage: %s fp32|int8|bf16|fp16 [--device D] [--cases N]\n", argv[0]);
        return 2;
    }
    if (run_all(&asked, &found) != 0) {
        fprintf(stderr, "%s: no process can be started\n", argv[0]);
        return 1;
    }
    printf(
        "%d operators in %s as the reference, %d NOT; %d without a kernel here; the farthest off "
        "has %.2f of its limit (%s)\n",
        found.n_right, hrf_precision_name(asked.limit->precision), found.n_wrong, found.n_without,
        found.worst, op_cases[found.worst_op].name);
    return found.n_wrong == 0 && found.n_right > 0 ? 0 : 1;
}
