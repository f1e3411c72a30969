/* input_entry.c - see input_entry.h. */
#include "schema/record/input_entry.h"

#include "base/json.h"

#include <string.h>

enum { MAX_SIDE = 8192 };

static enum hrf_status read_triple(const json_t *object, const char *name, const char *where,
                                   double out[3], struct hrf_error *err)
{
    json_t *list;
    HRF_TRY(hrf_json_get_array(object, name, where, &list, err));
    for (size_t i = 0; i < 3; i++) {
        const json_t *number = json_array_get(list, i);
        out[i] = json_number_value(number);
        if (json_array_size(list) != 3 || !json_is_number(number) ||
            (strcmp(name, "std") == 0 && !(out[i] > 0)))
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: '%s' of the model's metadata is not three numbers%s", where,
                                 name, strcmp(name, "std") == 0 ? " above 0" : "");
    }
    return HRF_OK;
}

static enum hrf_status read_mpp(const json_t *object, const char *path,
                                struct hrf_model_input *input, struct hrf_error *err)
{
    const json_t *mpp = json_object_get(object, "mpp");
    if (mpp == NULL)
        return HRF_OK;
    input->mpp = json_number_value(mpp);
    if (!(input->mpp > 0 && input->mpp < 1000))
        return hrf_error_set(err, HRF_E_USER,
                             "%s: 'mpp' of its metadata is not a resolution in um/px", path);
    return HRF_OK;
}

/* The entries that not every file has: they say what becomes of patches of another size. */
static enum hrf_status read_resize(const json_t *object, const char *path,
                                   struct hrf_model_input *input, struct hrf_error *err)
{
    const json_t *resize = json_object_get(object, "resize");
    const json_t *word = json_object_get(object, "interpolation");
    if (resize != NULL) {
        HRF_TRY(hrf_json_get_int(object, "resize", path, &input->resize, err));
        if (input->resize < input->size || input->resize > MAX_SIDE)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: its metadata ask for patches resized to %lld px, of which "
                                 "the network takes %lld",
                                 path, (long long)input->resize, (long long)input->size);
    }
    if (word == NULL)
        return HRF_OK;
    const char *name = json_is_string(word) ? json_string_value(word) : "";
    input->interpolation = hrf_interpolation_find(name);
    if (input->interpolation == HRF_N_INTERPOLATIONS ||
        input->interpolation == HRF_INTERPOLATION_AUTO)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: its metadata ask for the interpolation '%.40s'; nearest, box, "
                             "bilinear, bicubic and lanczos are known",
                             path, name);
    return HRF_OK;
}

enum hrf_status hrf_model_input_parse(const char *text, size_t n, const char *path,
                                      struct hrf_model_input *out, struct hrf_error *err)
{
    HRF_AUTO_JSON object = NULL;
    struct hrf_model_input input = { .is_known = true };
    HRF_TRY(hrf_json_parse(text, n, path, &object, err));
    if (json_object_get(object, "fixed_size") != NULL) { /* `model input` of a file without entry */
        *out = (struct hrf_model_input){ .is_known = false };
        return hrf_json_get_int(object, "fixed_size", path, &out->size, err);
    }
    HRF_TRY(hrf_json_get_int(object, "size", path, &input.size, err));
    HRF_TRY(read_triple(object, "mean", path, input.mean, err));
    HRF_TRY(read_triple(object, "std", path, input.std, err));
    if (input.size < 16 || input.size > MAX_SIDE)
        return hrf_error_set(err, HRF_E_USER, "%s: its metadata ask for images of %lld px", path,
                             (long long)input.size);
    HRF_TRY(read_resize(object, path, &input, err));
    HRF_TRY(read_mpp(object, path, &input, err));
    *out = input;
    return HRF_OK;
}

/* ---- what becomes of a patch ---- */

/* What is not asked for, from the model; from what is asked for where the model says nothing. */
static struct hrf_preparation complete(const struct hrf_model_input *input,
                                       const struct hrf_preparation *asked, int64_t patch)
{
    struct hrf_preparation p = *asked;
    if (p.size == 0)
        p.size = input->is_known ? input->size : p.resize > 0 ? p.resize : patch;
    if (p.resize == 0)
        p.resize = input->resize > 0 && p.size == input->size ? input->resize : p.size;
    if (p.interpolation == HRF_INTERPOLATION_AUTO)
        p.interpolation = input->interpolation;
    if (p.interpolation == HRF_INTERPOLATION_AUTO && p.resize == patch)
        p.interpolation = HRF_NEAREST; /* only cropped */
    return p;
}

enum hrf_status hrf_model_input_prepare(const struct hrf_model_input *input, const char *file,
                                        const struct hrf_preparation *asked, int64_t patch,
                                        struct hrf_preparation *out, struct hrf_error *err)
{
    const struct hrf_preparation as_it_is = { .size = 0 }, p = complete(input, asked, patch);
    const bool is_asked = asked->size > 0 || asked->resize > 0 ||
                          asked->interpolation != HRF_INTERPOLATION_AUTO;
    *out = as_it_is;
    if ((!is_asked && (!input->is_known || input->size == patch)) ||
        (p.size == patch && p.resize == patch))
        return HRF_OK;
    if (p.size > p.resize)
        return hrf_error_set(err, HRF_E_USER,
                             "patches are resized to %lld px, and '%s' takes %lld: model.input."
                             "resize has to be at least model.input.size",
                             (long long)p.resize, file, (long long)p.size);
    if (p.interpolation == HRF_INTERPOLATION_AUTO)
        return hrf_error_set(err, HRF_E_USER,
                             "patches of %lld px are to be resized to %lld, and '%s' does not say "
                             "how: name model.input.interpolation (bilinear is torchvision's "
                             "default)",
                             (long long)patch, (long long)p.resize, file);
    *out = p;
    return HRF_OK;
}
