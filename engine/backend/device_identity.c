/* device_identity.c - describes a device as text. */
#include "base/host.h"
#include "engine/backend/device.h"

#include <stdio.h>
#include <string.h>

static void append(char *out, size_t size, const char *before, const char *text)
{
    const size_t n = strlen(out);
    if (text[0] != '\0')
        snprintf(out + n, size - n, "%s%s%s", n > 0 ? ", " : "", before, text);
}

void hrf_device_identity_text(const struct hrf_device_identity *identity, char *out, size_t size)
{
    char memory[32] = "";
    if (identity->memory_bytes > 0)
        snprintf(memory, sizeof memory, "%.1f GiB", (double)identity->memory_bytes / 0x1p30);
    out[0] = '\0';
    append(out, size, "", identity->model);
    append(out, size, "", identity->path);
    append(out, size, "", memory);
    append(out, size, "driver for ", identity->driver);
    append(out, size, "", identity->libraries);
}

void hrf_device_identity_host(struct hrf_device_identity *out)
{
    *out = (struct hrf_device_identity){ .model = "" };
    hrf_process_processor(out->model, sizeof out->model);
}
