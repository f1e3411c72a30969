/* exclusions.c - the list, from the data set's README, its users' threads and later papers. */
#include "aggregate/camelyon16/exclusions.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PARTLY "not exhaustively annotated"

const struct hrf_exclusion hrf_camelyon16_exclusions[] = {
    { "test_049", false, "a duplicate, withdrawn from the release" },
    { "test_114", true, PARTLY },
    { "normal_086", false, "holds a tumour: the release has it again as tumor_111" },
    { "tumor_010", true, PARTLY },
    { "tumor_015", true, PARTLY },
    { "tumor_018", true, PARTLY },
    { "tumor_020", true, PARTLY },
    { "tumor_025", true, PARTLY },
    { "tumor_029", true, PARTLY },
    { "tumor_033", true, PARTLY },
    { "tumor_034", true, PARTLY },
    { "tumor_044", true, PARTLY },
    { "tumor_046", true, PARTLY },
    { "tumor_051", true, PARTLY },
    { "tumor_054", true, PARTLY },
    { "tumor_055", true, PARTLY },
    { "tumor_056", true, PARTLY },
    { "tumor_067", true, PARTLY },
    { "tumor_079", true, PARTLY },
    { "tumor_085", true, PARTLY },
    { "tumor_092", true, PARTLY },
    { "tumor_095", true, PARTLY },
    { "tumor_110", true, PARTLY },
};
const size_t hrf_n_camelyon16_exclusions = sizeof hrf_camelyon16_exclusions /
                                           sizeof hrf_camelyon16_exclusions[0];

static bool ends_in(const char *text, size_t n, const char *end)
{
    const size_t n_end = strlen(end);
    return n >= n_end && strncasecmp(text + n - n_end, end, n_end) == 0;
}

/* The name without folders, known extensions and "_mask". */
static size_t stem_of(const char **name)
{
    static const char *const endings[] = { ".tif", ".tiff", ".xml", ".csv" };
    const char *slash = strrchr(*name, '/');
    *name = slash != NULL ? slash + 1 : *name;
    size_t n = strlen(*name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (ends_in(*name, n, endings[i])) {
            n -= strlen(endings[i]);
            break;
        }
    return ends_in(*name, n, "_mask") ? n - strlen("_mask") : n;
}

void hrf_camelyon16_name(const char *name, char out[HRF_CAMELYON16_NAME])
{
    static const char *const kinds[] = { "normal_", "tumor_", "test_" };
    size_t n = stem_of(&name);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const size_t n_kind = strlen(kinds[i]);
        if (n <= n_kind || n > n_kind + 6 || strncasecmp(name, kinds[i], n_kind) != 0 ||
            strspn(name + n_kind, "0123456789") < n - n_kind)
            continue;
        snprintf(out, HRF_CAMELYON16_NAME, "%s%03ld", kinds[i], strtol(name + n_kind, NULL, 10));
        return;
    }
    n = n < HRF_CAMELYON16_NAME ? n : HRF_CAMELYON16_NAME - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower((unsigned char)name[i]);
    out[n] = '\0';
}

const struct hrf_exclusion *hrf_camelyon16_exclusion(const char *slide)
{
    char name[HRF_CAMELYON16_NAME];
    hrf_camelyon16_name(slide, name);
    for (size_t i = 0; i < hrf_n_camelyon16_exclusions; i++)
        if (strcmp(hrf_camelyon16_exclusions[i].slide, name) == 0)
            return &hrf_camelyon16_exclusions[i];
    return NULL;
}
