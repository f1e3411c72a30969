/* fuzz_train_recipe.c - any bytes as the file of `train`: a recipe within its ranges, or findings.
 */
#include "training/recipe/train_recipe.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_train_recipe: %s\n", what);
    abort(); /* ci-allow: how a fuzz entry reports */
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    HRF_AUTO(hrf_train_recipe) recipe = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_train_recipe_parse((const char *)bytes, size, "train.yaml",
                                                          "/folder", &recipe, &findings, &err);
    require((status == HRF_OK) == (recipe != NULL), "a recipe comes with success only");
    require(status == HRF_OK || err.text[0] != '\0', "an error has a text");
    if (recipe == NULL)
        return 0;
    const char *data = recipe->folders != NULL ? recipe->folders
                       : recipe->csv != NULL   ? recipe->csv
                                               : recipe->slides;
    require(recipe->model[0] == '/' && recipe->out[0] == '/' && data[0] == '/',
            "paths are of the folder");
    require(recipe->classes.n_items >= 2 && recipe->seeds.n_items >= 1, "there are classes");
    require(recipe->folds >= 2 && recipe->folds <= 100 && recipe->epochs >= 1 &&
                recipe->batch >= 1 && recipe->learning_rate >= 0 &&
                recipe->warmup_epochs <= (double)recipe->epochs,
            "numbers are within their ranges");
    return 0;
}
