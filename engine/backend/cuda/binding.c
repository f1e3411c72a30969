#include "engine/backend/cuda/binding.h"

#include "base/own_process.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A number >= 0 that begins the text ("4(x2)" of Slurm is 4); -1: none. */
static int number_of(const char *text)
{
    char *end = NULL;
    const long value = text != NULL ? strtol(text, &end, 10) : -1;
    return text != NULL && end != text && value >= 0 && value < 1 << 20 ? (int)value : -1;
}

/* Items of "0,1,5"; 0: none. */
static int count_items(const char *list)
{
    int n = list != NULL && *list != '\0';
    for (; list != NULL && *list != '\0'; list++)
        n += *list == ',';
    return n;
}

static int first_number(char *(*get)(const char *name), const char *const *names, int otherwise)
{
    for (; *names != NULL; names++) {
        const int value = number_of(get(*names));
        if (value >= 0)
            return value;
    }
    return otherwise;
}

struct hrf_binding hrf_binding_read(char *(*get)(const char *name), int n_visible)
{
    static const char *const ranks[] = { "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "PMIX_LOCAL_RANK", NULL };
    static const char *const sizes[] = { "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE",
                                         NULL };
    static const char *const node[] = { "SLURM_GPUS_ON_NODE", NULL };
    static const char *const promised[] = { "SLURM_CPUS_PER_TASK", NULL };
    struct hrf_binding b = { .rank = first_number(get, ranks, 0),
                             .n_ranks = first_number(get, sizes, 1),
                             .n_visible = n_visible,
                             .n_node = count_items(get("SLURM_STEP_GPUS")),
                             .n_promised = first_number(get, promised, 0) };
    if (b.n_node == 0)
        b.n_node = first_number(get, node, 0);
    if (b.n_ranks <= b.rank) /* Slurm says the first node's number on every node */
        b.n_ranks = b.rank + 1;
    return b;
}

int hrf_binding_device(const struct hrf_binding *b)
{
    return b->rank % b->n_visible;
}

/* GPUs of the node that its ranks take in turn. Where a process sees fewer than the job has there,
 * its starter has shared them out, as evenly as they go. */
static int n_taken(const struct hrf_binding *b)
{
    return b->n_node > b->n_visible ? b->n_node : b->n_visible;
}

bool hrf_binding_is_first(const struct hrf_binding *b)
{
    return b->rank < n_taken(b);
}

int hrf_binding_sharers(const struct hrf_binding *b)
{
    const int n = n_taken(b);
    return b->n_ranks / n + (b->rank % n < b->n_ranks % n);
}

static bool holds(const char *list, long cpu)
{
    while (*list != '\0') {
        char *end;
        const long first = strtol(list, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (end == list)
            return false;
        if (cpu >= first && cpu <= last)
            return true;
        list = *end == ',' ? end + 1 : end;
        while (isspace((unsigned char)*list))
            list++;
    }
    return false;
}

enum { MOST_CPUS = 8192 };

/* How many are allowed, and how many of those are near. */
static int count_near(const char *allowed, const char *near, int *n_near)
{
    int n = 0;
    *n_near = 0;
    if (allowed == NULL || near == NULL || !isdigit((unsigned char)*near))
        return 0;
    for (long cpu = 0; cpu < MOST_CPUS; cpu++)
        if (holds(allowed, cpu)) {
            n++;
            *n_near += holds(near, cpu);
        }
    return n;
}

enum hrf_nearness hrf_binding_nearness(const char *allowed, const char *near)
{
    int n_near;
    const int n = count_near(allowed, near, &n_near);
    return n == 0        ? HRF_NEAR_UNKNOWN
           : n_near == n ? HRF_NEAR_ALL
           : n_near > 0  ? HRF_NEAR_SOME
                         : HRF_NEAR_NONE;
}

/* The ones in both lists, as ranges; what does not fit is left out. */
static void write_common(const char *a, const char *b, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (long first = 0; first < MOST_CPUS; first++) {
        long last = first;
        char range[32];
        if (!holds(a, first) || !holds(b, first))
            continue;
        while (holds(a, last + 1) && holds(b, last + 1))
            last++;
        snprintf(range, sizeof range, last > first ? "%s%ld-%ld" : "%s%ld", n > 0 ? "," : "", first,
                 last);
        if (n + strlen(range) >= size)
            return;
        n += (size_t)snprintf(out + n, size - n, "%s", range);
        first = last;
    }
}

bool hrf_binding_narrow(const struct hrf_binding *b, const char *allowed, const char *near,
                        int n_online, char *out, size_t size)
{
    int n_near;
    const int n = count_near(allowed, near, &n_near);
    const int share = b->n_promised > 0 ? b->n_promised : n_online / b->n_ranks;
    const bool is_unbound = b->n_promised > 0 ? n > b->n_promised : n == n_online;
    if (b->n_ranks < 2 || !is_unbound || n_near == n || n_near == 0 ||
        n_near < share * hrf_binding_sharers(b))
        return false;
    write_common(allowed, near, out, size);
    return true;
}

void hrf_binding_text(const struct hrf_binding *b, const char *address, const char *allowed,
                      const char *near, char *out, size_t size)
{
    const enum hrf_nearness nearness = hrf_binding_nearness(allowed, near);
    const int others = hrf_binding_sharers(b) - 1;
    char shared[64] = "", place[512] = "";
    if (others > 0)
        snprintf(shared, sizeof shared, ", as %d other%s", others, others > 1 ? "s do" : " does");
    if (nearness == HRF_NEAR_ALL)
        snprintf(place, sizeof place, "; all its processors (%s) are near it", allowed);
    else if (nearness != HRF_NEAR_UNKNOWN)
        snprintf(place, sizeof place, "; %s of its processors (%s) %s near it: those are %s",
                 nearness == HRF_NEAR_NONE ? "none" : "not all", allowed,
                 nearness == HRF_NEAR_NONE ? "is" : "are", near);
    snprintf(out, size, "rank %d of %d on this node takes GPU %d of %d (%s)%s%s", b->rank,
             b->n_ranks, hrf_binding_device(b), b->n_visible, address, shared, place);
}

/* The rest of the first line that begins with `prefix`. */
static void read_after(const char *path, const char *prefix, char *out, size_t size)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    *out = '\0';
    while (file != NULL && *out == '\0' && fgets(line, (int)sizeof line, file) != NULL)
        if (strncmp(line, prefix, strlen(prefix)) == 0)
            snprintf(out, size, "%.*s", (int)strcspn(line + strlen(prefix), "\n"),
                     line + strlen(prefix));
    if (file != NULL)
        fclose(file);
}

/* What the kernel says of this process's processors and of those near the GPU; "" where it says
 * nothing. `sysfs` NULL: $HRF_SYSFS, or /sys where that is not set. */
static void binding_look(const char *address, const char *sysfs, char *allowed, char *near,
                         size_t size)
{
    char path[256], place[32];
    size_t n = 0;
    for (; n < sizeof place - 1 && address[n] != '\0'; n++)
        place[n] = (char)tolower((unsigned char)address[n]); /* CUDA's 3B is the kernel's 3b */
    place[n] = '\0';
    if (sysfs == NULL)
        sysfs = getenv("HRF_SYSFS");
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/local_cpulist",
             sysfs != NULL ? sysfs : "/sys", place);
    read_after(path, "", near, size);
    read_after("/proc/self/status", "Cpus_allowed_list:\t", allowed, size);
}

void hrf_binding_apply(const struct hrf_binding *b, const char *address, const char *sysfs,
                       char *out, size_t size)
{
    char before[256], allowed[256], near[256], wanted[256];
    struct hrf_error err = { .text = "" };
    binding_look(address, sysfs, before, near, sizeof near);
    const bool narrows = hrf_binding_narrow(b, before, near, (int)sysconf(_SC_NPROCESSORS_ONLN),
                                            wanted, sizeof wanted);
    const bool is_set = narrows && hrf_process_set_cpus(wanted, &err) == HRF_OK;
    binding_look(address, sysfs, allowed, near, sizeof near); /* as it is, not as was asked */
    hrf_binding_text(b, address, allowed, near, out, size);
    const size_t n = strlen(out);
    if (is_set && n < size)
        snprintf(out + n, size - n, ", which it now keeps to; it was given %s", before);
    else if (narrows && n < size)
        snprintf(out + n, size - n, "; it cannot keep to them: %.200s", err.text);
}
