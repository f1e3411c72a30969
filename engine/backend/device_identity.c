/* device_identity.c - what a device is, in words. */
#include "base/host.h"
#include "engine/backend/device.h"

#include <stdio.h>
#include <string.h>

static void append(char *words, size_t size, const char *before, const char *text)
{
    const size_t n = strlen(words);
    if (text[0] != '\0')
        snprintf(words + n, size - n, "%s%s%s", n > 0 ? ", " : "", before, text);
}

void hrf_device_identity_words(const struct hrf_device_identity *identity, char *words, size_t size)
{
    char memory[32] = "";
    if (identity->memory_bytes > 0)
        snprintf(memory, sizeof memory, "%.1f GiB", (double)identity->memory_bytes / 0x1p30);
    words[0] = '\0';
    append(words, size, "", identity->model);
    append(words, size, "", identity->path);
    append(words, size, "", memory);
    append(words, size, "driver for ", identity->driver);
    append(words, size, "", identity->libraries);
}

void hrf_device_identity_host(struct hrf_device_identity *out)
{
    *out = (struct hrf_device_identity){ .model = "" };
    hrf_process_processor(out->model, sizeof out->model);
}
