/* dump_level FILE LEVEL [X Y WIDTH HEIGHT] - the pixels of a level as the product reads them:
 * "WIDTH HEIGHT LEVELS\n" and RGB, to be compared with what another program gives. */
#include "tiler/slide/slide.h"

#include <stdio.h>
#include <stdlib.h>

static int fail(const struct hrf_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (argc != 3 && argc != 7)
        return 2;
    if (hrf_slide_open(argv[1], &slide, &err) != HRF_OK)
        return fail(&err);
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    const int32_t level = (int32_t)strtol(argv[2], NULL, 10);
    if (level < 0 || level >= info->n_levels)
        return 2;
    int64_t x = 0, y = 0, width = info->level[level].width, height = info->level[level].height;
    if (argc == 7) {
        x = strtoll(argv[3], NULL, 10);
        y = strtoll(argv[4], NULL, 10);
        width = strtoll(argv[5], NULL, 10);
        height = strtoll(argv[6], NULL, 10);
    }
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc_array((size_t)(width * height), 3);
    if (rgb == NULL || hrf_slide_read(slide, level, x, y, width, height, rgb, NULL, &err) != HRF_OK)
        return fail(&err);
    printf("%lld %lld %d %s\n", (long long)width, (long long)height, info->n_levels, info->vendor);
    return fwrite(rgb, 3, (size_t)(width * height), stdout) == (size_t)(width * height) ? 0 : 1;
}
