/* replay.c - a fuzz entry as a plain regression program: runs it over every file of a corpus,
 * and over every prefix-truncated and bit-flipped form of the small ones. */
#include "base/file.h"
#include "base/path.h"

#include "base/alloc.h"
#include "base/random.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_MUTATIONS = 300, SMALL_BYTES = 1 << 16 };

/* A copy of exactly n bytes, so that a sanitizer sees the first byte read beyond. */
static void run_one(const char *bytes, size_t n)
{
    uint8_t *exact = hrf_alloc(n);
    if (exact == NULL)
        return;
    memcpy(exact, bytes, n);
    LLVMFuzzerTestOneInput(exact, n);
    hrf_free(exact);
}

static void run_mutations(char *bytes, size_t n, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    for (int i = 0; i < N_MUTATIONS; i++) {
        size_t at = (size_t)hrf_random_below(&random, (int64_t)n);
        if (i % 3 == 0) {
            run_one(bytes, at);
            continue;
        }
        char old = bytes[at];
        int changed = i % 3 == 1 ? old ^ (1 << hrf_random_below(&random, 8))
                                 : (int)hrf_random_below(&random, 256);
        bytes[at] = (char)changed;
        run_one(bytes, n);
        bytes[at] = old;
    }
}

static int run_file(const char *path, uint64_t seed)
{
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    struct hrf_error err;
    if (hrf_file_read(path, (size_t)64 << 20, &bytes, &n, &err) != HRF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    run_one(bytes, n);
    if (n > 0 && n <= SMALL_BYTES)
        run_mutations(bytes, n, seed);
    return 0;
}

/* True if every file of the corpus could be read, and there was one. */
static bool run_corpus(const char *folder)
{
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        fprintf(stderr, "cannot open the corpus '%s'\n", folder);
        return false;
    }
    bool is_good = true;
    uint64_t n_files = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        HRF_AUTO_FREE char *path = hrf_path_join(folder, entry->d_name);
        struct stat stat_of;
        if (path != NULL && stat(path, &stat_of) == 0 && !S_ISREG(stat_of.st_mode))
            continue; /* a folder */
        is_good = path != NULL && run_file(path, ++n_files) == 0 && is_good;
    }
    closedir(directory);
    printf("%s: %llu files\n", folder, (unsigned long long)n_files);
    return is_good && n_files > 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s CORPUS_DIRECTORY...\n", argv[0]);
        return 2;
    }
    bool is_good = true;
    for (int i = 1; i < argc; i++)
        is_good = run_corpus(argv[i]) && is_good;
    return is_good ? 0 : 1;
}
