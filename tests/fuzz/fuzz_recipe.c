/* fuzz_recipe.c - any bytes as the file of `head train`: a recipe within its ranges, or findings.
 */
#include "heads/train/recipe.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_recipe: %s\n", what);
    abort(); /* ci-allow: how a fuzz entry reports */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HRF_AUTO(hrf_recipe) recipe = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_recipe_parse((const char *)data, size, "head.yaml",
                                                    "/folder", &recipe, &findings, &err);
    require((status == HRF_OK) == (recipe != NULL), "a recipe comes with success only");
    require(status == HRF_OK || err.text[0] != '\0', "an error has a text");
    if (recipe == NULL)
        return 0;
    require(recipe->features[0] == '/' && recipe->labels[0] == '/' && recipe->out[0] == '/',
            "paths are of the folder");
    require(recipe->classes.n_items >= 2, "there are classes");
    require(recipe->folds >= 2 && recipe->folds <= 100 && recipe->epochs >= 1 &&
                recipe->hidden >= 1 && recipe->hidden <= 8192 && recipe->learning_rate > 0,
            "numbers are within their ranges");
    return 0;
}
