/* score_patch.c - scores one patch of a slide as a run does:
 *
 *   score_patch MODEL.onnx SLIDE X Y SIZE MPP CLASS...     e.g. demo.onnx a.svs 1024 2048 256 0.5
 * normal tumor
 *
 * Build: cc score_patch.c $(pkg-config --cflags --libs hires-flow) -o score_patch
 */
#include <hires_flow.h>
#include <stdio.h>
#include <stdlib.h>

static int score_patch_fail(void)
{
    fprintf(stderr, "score_patch: %s\n", hires_flow_last_error());
    return 1;
}

static int score_patch_score(struct hires_flow_model *model, struct hires_flow_slide *slide,
                             char **argv)
{
    const long long x = strtoll(argv[3], NULL, 10), y = strtoll(argv[4], NULL, 10);
    const long long size = strtoll(argv[5], NULL, 10);
    const double mpp = strtod(argv[6], NULL);
    int64_t n_scores = 0;
    uint8_t *rgb = size > 0 && size < 8192 ? malloc((size_t)(size * size * 3)) : NULL;
    if (rgb == NULL) {
        fprintf(stderr, "score_patch: no memory for a patch of %s px\n", argv[5]);
        return 1;
    }
    const float *scores = NULL;
    if (hires_flow_slide_read_patch(slide, x, y, size, mpp, 0, rgb) == HIRES_FLOW_OK)
        scores = hires_flow_model_score(model, rgb, 1, size, &n_scores);
    free(rgb);
    if (scores == NULL)
        return score_patch_fail();
    for (int64_t i = 0; i < n_scores; i++)
        printf("%s %.6g\n", hires_flow_model_class(model, i), (double)scores[i]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 8) {
        fprintf(stderr, "usage: score_patch MODEL.onnx SLIDE X Y SIZE MPP CLASS...\n");
        return 2;
    }
    const struct hires_flow_model_options options = { .size = sizeof options,
                                                      .classes = (const char *const *)(argv + 7),
                                                      .n_classes = argc - 7 };
    struct hires_flow_model *model = hires_flow_model_open(argv[1], &options);
    struct hires_flow_slide *slide = model != NULL ? hires_flow_slide_open(argv[2]) : NULL;
    const int code = slide != NULL ? score_patch_score(model, slide, argv) : score_patch_fail();
    hires_flow_slide_close(slide);
    hires_flow_model_close(model);
    return code;
}
