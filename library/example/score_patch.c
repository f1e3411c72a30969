/* score_patch.c - scores one patch of a slide:  score_patch MODEL.onnx SLIDE X Y SIZE MPP
 *
 * Build: cc score_patch.c $(pkg-config --cflags --libs hires-flow) -o score_patch
 */
#include <hires_flow.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void)
{
    fprintf(stderr, "score_patch: %s\n", hires_flow_last_error());
    return 1;
}

/* Pixels of 0 to 255, rows of RGB, as numbers of 0 to 1, a plane a colour. */
static float *planes_of(const unsigned char *rgb, long long size)
{
    const long long area = size * size;
    float *planes = malloc((size_t)(3 * area) * sizeof *planes);
    for (long long i = 0; planes != NULL && i < area; i++)
        for (long long c = 0; c < 3; c++)
            planes[c * area + i] = (float)rgb[i * 3 + c] / 255;
    return planes;
}

static int score(struct hires_flow_model *model, struct hires_flow_slide *slide, char **argv)
{
    const long long size = strtoll(argv[5], NULL, 10);
    struct hires_flow_shape shape = { .rank = 4, .dims = { 1, 3, size, size } };
    unsigned char *rgb = size > 0 ? malloc((size_t)(size * size * 3)) : NULL;
    int code = rgb != NULL ? hires_flow_slide_read_patch(slide, strtoll(argv[3], NULL, 10),
                                                         strtoll(argv[4], NULL, 10), size,
                                                         strtod(argv[6], NULL), 0, rgb)
                           : HIRES_FLOW_NO_MEMORY;
    float *planes = code == HIRES_FLOW_OK ? planes_of(rgb, size) : NULL;
    if (planes != NULL)
        code = hires_flow_model_run(model, planes, &shape);
    free(planes);
    free(rgb);
    if (code != HIRES_FLOW_OK)
        return fail();
    const float *scores = hires_flow_model_output(model, 0, &shape);
    for (long long i = 0; i < shape.dims[shape.rank - 1]; i++)
        printf("%g\n", (double)scores[i]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: score_patch MODEL.onnx SLIDE X Y SIZE MPP\n");
        return 2;
    }
    struct hires_flow_model *model = hires_flow_model_open(argv[1], NULL);
    struct hires_flow_slide *slide = model != NULL ? hires_flow_slide_open(argv[2]) : NULL;
    const int code = slide != NULL ? score(model, slide, argv) : fail();
    hires_flow_slide_close(slide);
    hires_flow_model_close(model);
    return code;
}
