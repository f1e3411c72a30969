/* slide_folder.c - see slide_folder.h. */
#include "orchestrator/ingest/slide_folder.h"

#include "base/alloc.h"
#include "base/directory.h"
#include "base/path.h"
#include "tiler/slide/slide.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 };

struct listing {
    bool is_recursive;
    enum hrf_status (*take)(void *context, const char *path, struct hrf_error *err);
    void *context;
    struct hrf_skipped_files *passed;
};

static void pass_file(struct hrf_skipped_files *passed, const char *name)
{
    enum { MAX = sizeof passed->kinds / sizeof passed->kinds[0] };
    HRF_AUTO_FREE char *ending = hrf_path_extension(name);
    passed->n_files++;
    int i = 0;
    while (i < passed->n_kinds && strcmp(passed->kinds[i].ending, ending) != 0)
        i++;
    if (i == passed->n_kinds && i < MAX) {
        snprintf(passed->kinds[i].ending, sizeof passed->kinds[i].ending, "%s",
                 i == MAX - 1 ? "others" : ending);
        passed->n_kinds++;
    }
    passed->kinds[i < MAX ? i : MAX - 1].n++;
}

void hrf_skipped_files_text(const struct hrf_skipped_files *passed, struct hrf_strbuf *out)
{
    if (passed->n_files > 0) {
        hrf_strbuf_addf(out, "%lld %s (", (long long)passed->n_files,
                        passed->n_files == 1 ? "file that is no slide"
                                             : "files that are no slides");
        for (int i = 0; i < passed->n_kinds; i++) {
            const char *ending = passed->kinds[i].ending;
            hrf_strbuf_addf(out, "%s%lld %s%s", i > 0 ? ", " : "", (long long)passed->kinds[i].n,
                            ending[0] == '\0' ? "without ending" : ".", ending);
        }
        hrf_strbuf_adds(out, ")");
    }
    if (passed->n_folders > 0)
        hrf_strbuf_addf(out, "%s%lld folder%s", passed->n_files > 0 ? " and " : "",
                        (long long)passed->n_folders, passed->n_folders == 1 ? "" : "s");
    if (passed->n_runs > 0)
        hrf_strbuf_addf(out, "%sthe results of %lld run%s", out->length > 0 ? " and " : "",
                        (long long)passed->n_runs, passed->n_runs == 1 ? "" : "s");
}

static enum hrf_status list_folder(const struct listing *l, const char *folder, int depth,
                                   struct hrf_error *err);

/* True for the directory of a run, whose masks of labels are TIFFs, too. */
static bool is_of_run(const char *path)
{
    HRF_AUTO_FREE char *store = hrf_path_join(path, "run.db");
    return hrf_path_exists(store);
}

/* True for the folder of a MIRAX slide, which has the slide's name without its extension. */
static bool belongs_to_slide(const char *path)
{
    HRF_AUTO_FREE char *slide = hrf_format("%s.mrxs", path);
    return hrf_path_exists(slide);
}

static enum hrf_status list_one(const struct listing *l, const char *path, const char *name,
                                int depth, struct hrf_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return HRF_OK; /* it went away */
    const bool is_link = S_ISLNK(st.st_mode);
    if (is_link ? hrf_path_is_directory(path) : S_ISDIR(st.st_mode)) {
        if (belongs_to_slide(path))
            return HRF_OK;
        if (is_of_run(path)) {
            l->passed->n_runs++;
            return HRF_OK;
        }
        if (l->is_recursive && !is_link && depth < MAX_DEPTH)
            return list_folder(l, path, depth + 1, err);
        l->passed->n_folders++;
        return HRF_OK;
    }
    if (hrf_slide_is_named(name))
        return l->take(l->context, path, err);
    pass_file(l->passed, name);
    return HRF_OK;
}

static enum hrf_status list_folder(const struct listing *l, const char *folder, int depth,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    HRF_TRY(hrf_path_list_directory(folder, &names, err));
    for (size_t i = 0; i < names.n_items; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(folder, names.items[i]);
        HRF_TRY(list_one(l, path, names.items[i], depth, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_slide_folder_list(const char *folder, bool is_recursive,
                                      enum hrf_status (*take)(void *context, const char *path,
                                                              struct hrf_error *err),
                                      void *context, struct hrf_skipped_files *passed,
                                      struct hrf_error *err)
{
    const struct listing listing = {
        .is_recursive = is_recursive, .take = take, .context = context, .passed = passed
    };
    return list_folder(&listing, folder, 0, err);
}
