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

/* What the workflow leaves open, from the model; from what it says itself where the model says
 * nothing. */
static struct hrf_preparation complete(const struct hrf_workflow *w,
                                       const struct hrf_model_input *input)
{
    struct hrf_preparation p = hrf_workflow_preparation(w);
    if (p.size == 0)
        p.size = input->is_known ? input->size : p.resize > 0 ? p.resize : w->tiler.patch.size;
    if (p.resize == 0)
        p.resize = input->resize > 0 && p.size == input->size ? input->resize : p.size;
    if (p.interpolation == HRF_INTERPOLATION_AUTO)
        p.interpolation = input->interpolation;
    if (p.interpolation == HRF_INTERPOLATION_AUTO && p.resize == w->tiler.patch.size)
        p.interpolation = HRF_NEAREST; /* only cropped */
    return p;
}

static enum hrf_status check_preparation(const struct hrf_workflow *w,
                                         const struct hrf_preparation *p, struct hrf_error *err)
{
    const long long patch = w->tiler.patch.size, resize = p->resize, size = p->size;
    if (size > resize)
        return hrf_error_set(err, HRF_E_USER,
                             "patches are resized to %lld px, and '%s' takes %lld: model.input."
                             "resize has to be at least model.input.size",
                             resize, w->model.file, size);
    if (p->interpolation == HRF_INTERPOLATION_AUTO)
        return hrf_error_set(err, HRF_E_USER,
                             "patches of %lld px are to be resized to %lld, and '%s' does not say "
                             "how: name model.input.interpolation (bilinear is torchvision's "
                             "default)",
                             patch, resize, w->model.file);
    if (w->model.output == HRF_OUTPUT_SEGMENTATION)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes images of %lld px, and with model.output 'segmentation' "
                             "patches of %lld px are not resized: the pixels of a label map are "
                             "those of its patch; set tiler.patch.size: %lld",
                             w->model.file, size, patch, size);
    return HRF_OK;
}

static enum hrf_status say_preparation(const struct hrf_workflow *w, bool is_asked,
                                       struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = hrf_workflow_preparation_text(w);
    HRF_CHECK_MEMORY(text != NULL, err, "no memory to read the model's metadata");
    fprintf(stderr, "%s, as %s asks\n", text, is_asked ? "model.input" : w->model.file);
    return HRF_OK;
}

/* A patch that is as large as the network's input goes in as it is, unless the workflow itself asks
 * for more. */
static enum hrf_status adopt_preparation(struct hrf_workflow *w,
                                         const struct hrf_model_input *input, struct hrf_error *err)
{
    const bool is_asked = w->model.input.size > 0 || w->model.input.resize > 0 ||
                          w->model.input.interpolation != HRF_INTERPOLATION_AUTO;
    if (w->tiler.mode == HRF_TILER_SLIDE ||
        (!is_asked && (!input->is_known || input->size == w->tiler.patch.size)))
        return HRF_OK;
    struct hrf_preparation p = complete(w, input);
    const bool is_nothing = p.size == w->tiler.patch.size && p.resize == w->tiler.patch.size;
    if (is_nothing)
        p = (struct hrf_preparation){ .size = 0 };
    else
        HRF_TRY(check_preparation(w, &p, err));
    w->model.input.size = p.size;
    w->model.input.resize = p.resize;
    w->model.input.interpolation = p.interpolation;
    return is_nothing ? HRF_OK : say_preparation(w, is_asked, err);
}

enum hrf_status hrf_cli_adopt_input(struct hrf_workflow *w, struct hrf_error *err)
{
    struct hrf_model_input input;
    if (w->model.file == NULL)
        return HRF_OK;
    HRF_TRY(hrf_model_input_read(w->model.file, &input, err));
    if (input.is_known) {
        adopt_colours(w, &input);
        adopt_patch_size(w, input.size);
    }
    return adopt_preparation(w, &input, err);
}
