/* nvml.c - libnvidia-ml.so.1 as a test wants it.
 *
 * One GPU, at 0000:3b:00.0. $HRF_EMULATED_NVML is a file of lines, read at every call:
 * "energy MJ" or "energy rising" (1 W; absent: not supported), "pid N bytes B" for each process on
 * it ("own" as N: this one), "no-init", "no-driver".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9 };
struct process {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int status);
int nvmlSystemGetDriverVersion(char *out, unsigned int size);
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *n, struct process *out);

static int is_open, the_device;

/* The lines that begin with `word`, one by one; false: no more. */
static int next_line(FILE *file, const char *word, char *rest, int size)
{
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, word, strlen(word)) != 0)
            continue;
        snprintf(rest, (size_t)size, "%s", line + strlen(word));
        return 1;
    }
    return 0;
}

static FILE *script(void)
{
    const char *path = getenv("HRF_EMULATED_NVML");
    return path != NULL ? fopen(path, "r") : NULL;
}

static int says(const char *word, char *rest, int size)
{
    FILE *file = script();
    const int found = next_line(file, word, rest, size);
    if (file != NULL)
        fclose(file);
    return found;
}

int nvmlInit_v2(void)
{
    char rest[256];
    if (says("no-init", rest, sizeof rest))
        return NO_DRIVER;
    is_open++;
    return OK;
}

int nvmlShutdown(void)
{
    is_open--;
    return OK;
}

const char *nvmlErrorString(int status)
{
    return status == NO_DRIVER ? "Driver Not Loaded" : status == NOT_FOUND ? "Not Found" : "Other";
}

int nvmlSystemGetDriverVersion(char *out, unsigned int size)
{
    char rest[256];
    if (says("no-driver", rest, sizeof rest))
        return NOT_SUPPORTED;
    snprintf(out, size, "580.82.07");
    return OK;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device)
{
    if (is_open < 1)
        return NO_DRIVER;
    if (strcmp(address, "0000:3b:00.0") != 0 && strcmp(address, "0000:3B:00.0") != 0)
        return NOT_FOUND;
    *device = &the_device;
    return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
    char rest[256];
    if (device != &the_device || !says("energy ", rest, sizeof rest))
        return NOT_SUPPORTED;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = strcmp(rest, "rising") == 0 ? (unsigned long long)now.tv_sec * 1000 +
                                                     (unsigned long long)now.tv_nsec / 1000000
                                               : strtoull(rest, NULL, 10);
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *n, struct process *out)
{
    char rest[256];
    unsigned int found = 0;
    FILE *file = script();
    (void)device;
    while (next_line(file, "pid ", rest, sizeof rest)) {
        const char *bytes = strstr(rest, " bytes ");
        if (bytes == NULL || found == *n)
            continue;
        const unsigned long pid = strncmp(rest, "own ", 4) == 0 ? (unsigned long)getpid()
                                                                : strtoul(rest, NULL, 10);
        out[found++] = (struct process){ .pid = (unsigned int)pid,
                                         .used_bytes = strtoull(bytes + 7, NULL, 10) };
    }
    if (file != NULL)
        fclose(file);
    *n = found;
    return OK;
}
