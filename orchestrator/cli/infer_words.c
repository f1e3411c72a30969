/* infer_words.c - replaces the names of keys in a message by infer's options (infer_words.h). */
#include "orchestrator/cli/infer_words.h"

#include "base/strbuf.h"
#include "schema/workflow/keys.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char *key, *option;
} options[] = {
    { "model.file", "--model" },         { "model.classes", "--classes" },
    { "model.positive", "--positive" },  { "tiler.patch.size", "--size" },
    { "tiler.patch.mpp", "--mpp" },      { "dataset.mpp", "--slide-mpp" },
    { "precision", "--precision" },      { "engine.device", "--device" },
    { "engine.batch", "--batch" },       { "dataset.recursive", "--recursive" },
    { "dataset.files", "SLIDE|FOLDER" },
};

/* Phrases that speak of the file as a whole; longer ones stand before what they contain. */
static const struct {
    const char *phrase, *instead;
} phrases[] = {
    { "in the workflow", "among the options" },
    { "does not fit the workflow", "does not fit what is asked" },
    { "the workflow names", "there are" },
};

static bool is_part_of_word(char c)
{
    return isalnum((unsigned char)c) || strchr("_./-", c) != NULL;
}

/* The longest key that stands at `at` as a word of its own, which follows `before`. NULL: none. A
 * key of one word is also a word of the language, and is meant only in quotes or before a colon. */
static const char *key_at(const char *at, char before)
{
    const char *found = NULL;
    if (before != '\0' && is_part_of_word(before))
        return NULL;
    for (size_t i = 0; i < hrf_n_keys; i++) {
        const char *key = hrf_keys[i].path;
        const size_t n = strlen(key);
        if (strncmp(at, key, n) != 0 || isalnum((unsigned char)at[n]) || at[n] == '_' ||
            (at[n] == '.' && isalpha((unsigned char)at[n + 1])))
            continue;
        if (strchr(key, '.') == NULL &&
            (strcmp(key, "precision") != 0 || (before != '\'' && at[n] != ':')))
            continue;
        if (found == NULL || n > strlen(found))
            found = key;
    }
    return found;
}

/* Appends the option that sets the key. */
static void add_option(struct hrf_strbuf *out, const char *key)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(options[i].key, key) == 0) {
            hrf_strbuf_adds(out, options[i].option);
            return;
        }
    hrf_strbuf_addf(out, "--set %s", key);
}

/* "KEY: 224" tells what to write in a file, and becomes "--set KEY=224" or "--option 224". Returns
 * the length of what stands between the two; 0: no number follows. */
static size_t add_number(struct hrf_strbuf *out, const char *key, const char *at)
{
    bool has_option = false;
    if (strncmp(at, ": ", 2) != 0 || !isdigit((unsigned char)at[2]))
        return 0;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        has_option = has_option || strcmp(options[i].key, key) == 0;
    hrf_strbuf_addc(out, has_option ? ' ' : '=');
    return 2;
}

/* Appends what stands for a phrase at `at`. Returns the phrase's length, 0: there is none. */
static size_t add_phrase(struct hrf_strbuf *out, const char *at)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        const size_t n = strlen(phrases[i].phrase);
        if (strncmp(at, phrases[i].phrase, n) == 0) {
            hrf_strbuf_adds(out, phrases[i].instead);
            return n;
        }
    }
    return 0;
}

char *hrf_infer_reword(const char *text)
{
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    for (const char *at = text; *at != '\0';) {
        const bool quoted = *at == '\'';
        const char *key = key_at(at + quoted, quoted ? '\'' : at > text ? at[-1] : '\0');
        if (key != NULL && (!quoted || at[1 + strlen(key)] == '\'')) {
            add_option(&out, key);
            at += strlen(key) + (quoted ? 2 : 0);
            at += add_number(&out, key, at);
            continue;
        }
        const size_t n = add_phrase(&out, at);
        if (n == 0)
            hrf_strbuf_addc(&out, *at++);
        at += n;
    }
    return hrf_strbuf_detach(&out);
}
