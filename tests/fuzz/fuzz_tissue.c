/* fuzz_tissue.c - any bytes as GeoJSON tissue: a mask of 0 and 255, or a sentence. */
#include "base/file.h"
#include "tiler/coords/coords.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_tissue: %s\n", what);
    abort(); /* ci-allow: how a fuzz entry reports */
}

static char folder[] = "/tmp/hrf-fuzz-tissue-XXXXXX", path[sizeof folder + 16];

static void remove_file(void)
{
    unlink(path);
    rmdir(folder);
}

/* A file with the suffix that its readers go by. */
static int make_file(void)
{
    require(mkdtemp(folder) != NULL && atexit(remove_file) == 0, "a temporary folder");
    snprintf(path, sizeof path, "%s/x.geojson", folder);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { SIDE = 64 };
    static int fd = -1;
    unsigned char mask[SIDE * SIDE];
    struct hrf_error err = { .status = HRF_OK };
    if (fd < 0)
        fd = make_file();
    require(fd >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0, "a temporary file");
    require(hrf_file_write_all(fd, data, size, path, NULL) == HRF_OK, "writing it");
    memset(mask, 0, sizeof mask);
    char *passed_over = NULL;
    char *names[] = { (char[]){ "Tissue" }, (char[]){ "Tumor" } };
    const struct hrf_text_list classes = { names, size % 2 == 0 ? 2 : 0 };
    const enum hrf_status status = hrf_coords_draw_tissue(path, 4096, 4096, &classes, mask, SIDE,
                                                          SIDE, &passed_over, &err);
    require(status == HRF_OK || passed_over == NULL, "only a drawing says what was passed over");
    hrf_free(passed_over);
    require(status == HRF_OK || err.text[0] != '\0', "an error has a text");
    for (size_t i = 0; i < sizeof mask && status == HRF_OK; i++)
        require(mask[i] == 0 || mask[i] == 255, "a mask is 0 or 255");
    return 0;
}
