/* adopt_input.c - what a model's file says of its images, where the workflow does not (cli.h). */
#include "orchestrator/cli/cli.h"
#include "orchestrator/launch/model_input.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool differs(const double a[3], const double b[3])
{
    for (int i = 0; i < 3; i++)
        if (fabs(a[i] - b[i]) > 1e-4)
            return true;
    return false;
}

static void adopt_colours(struct hrf_workflow *w, const struct hrf_model_input *input)
{
    if (w->model.input.is_given &&
        (differs(w->model.input.mean, input->mean) || differs(w->model.input.std, input->std)))
        fprintf(stderr,
                "warning: %s was trained with mean [%g, %g, %g] and std [%g, %g, %g], and "
                "model.input says otherwise: leave it out to use the model's own\n",
                w->model.file, input->mean[0], input->mean[1], input->mean[2], input->std[0],
                input->std[1], input->std[2]);
    if (!w->model.input.is_given) {
        memcpy(w->model.input.mean, input->mean, sizeof input->mean);
        memcpy(w->model.input.std, input->std, sizeof input->std);
    }
}

static void adopt_patch_size(struct hrf_workflow *w, int64_t size)
{
    if (w->tiler.patch.size_is_given || w->tiler.coords != NULL)
        return;
    w->tiler.patch.size = size;
    if (!w->tiler.patch.stride_is_given)
        w->tiler.patch.stride = size;
}

/* Warns if images of another resolution than in training reach the network. */
static void check_resolution(const struct hrf_workflow *w, const struct hrf_model_input *input)
{
    const bool is_slide = w->tiler.mode == HRF_TILER_SLIDE;
    const int64_t size = is_slide ? w->tiler.slide.size : w->tiler.patch.size;
    const double cut = is_slide ? w->tiler.slide.mpp : w->tiler.patch.mpp;
    const bool is_resized = !is_slide && w->model.input.size > 0 && w->model.input.resize != size;
    const double mpp = cut * (is_resized ? (double)size / (double)w->model.input.resize : 1);
    if (input->mpp <= 0 || mpp <= 0 || fabs(mpp / input->mpp - 1) < 0.05)
        return;
    fprintf(stderr,
            "warning: %s was trained on images of %lld px at %g um/px and will see %g um/px: %lld "
            "px at %g um/px%s; set %s\n",
            w->model.file, (long long)input->size, input->mpp, mpp, (long long)size, cut,
            is_resized ? ", resized" : "", is_slide ? "tiler.slide" : "tiler.patch");
}

static enum hrf_status adopt_preparation(struct hrf_workflow *w,
                                         const struct hrf_model_input *input, struct hrf_error *err)
{
    const struct hrf_preparation asked = hrf_workflow_preparation(w);
    const bool is_asked = asked.size > 0 || asked.resize > 0 ||
                          asked.interpolation != HRF_INTERPOLATION_AUTO;
    const long long patch = w->tiler.patch.size;
    struct hrf_preparation p;
    if (w->tiler.mode == HRF_TILER_SLIDE)
        return HRF_OK;
    HRF_TRY(hrf_model_input_prepare(input, w->model.file, &asked, patch, &p, err));
    w->model.input.size = p.size;
    w->model.input.resize = p.resize;
    w->model.input.interpolation = p.interpolation;
    if (p.size == 0)
        return HRF_OK;
    if (w->model.output == HRF_OUTPUT_SEGMENTATION)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes images of %lld px, and with model.output 'segmentation' "
                             "patches of %lld px are not resized: the pixels of a label map are "
                             "those of its patch; set tiler.patch.size: %lld",
                             w->model.file, (long long)p.size, patch, (long long)p.size);
    HRF_AUTO_FREE char *text = hrf_workflow_preparation_text(w);
    fprintf(stderr, "%s, as %s asks\n", text, is_asked ? "model.input" : w->model.file);
    return HRF_OK;
}

enum hrf_status hrf_cli_adopt_input(struct hrf_workflow *w, struct hrf_error *err)
{
    struct hrf_model_input input;
    if (w->model.file == NULL)
        return HRF_OK;
    const bool is_open = !w->tiler.patch.size_is_given && w->tiler.coords == NULL &&
                         w->tiler.mode != HRF_TILER_SLIDE;
    HRF_TRY(hrf_model_input_read(w->model.file, is_open, &input, err));
    if (input.is_known)
        adopt_colours(w, &input);
    if (input.size > 0)
        adopt_patch_size(w, input.size);
    HRF_TRY(adopt_preparation(w, &input, err));
    if (w->tiler.coords == NULL)
        check_resolution(w, &input);
    return HRF_OK;
}
