/* command.c - starts Slurm's commands in a filtered environment, in the foreground or in a
 * thread. */
#include "orchestrator/executor/slurm/command.h"

#include "base/alloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

enum { OUTPUT_LIMIT = 256 << 20, MAX_WORDS = 32 };

int64_t hrf_slurm_wait_ms(int64_t ms)
{
    const char *text = getenv("HRF_SLURM_WAIT_PERCENT");
    const int64_t percent = text != NULL ? strtoll(text, NULL, 10) : 100;
    return percent > 0 ? ms * percent / 100 : ms;
}

void hrf_slurm_output_release(struct hrf_slurm_output *output)
{
    hrf_strbuf_release(&output->output);
    hrf_strbuf_release(&output->errors);
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The part of the user's environment that Slurm's commands get, and through `sbatch --export=ALL`
 * the jobs: search paths, the site's modules and containers, and our own variables. Left out are
 * LD_PRELOAD, variables of an enclosing job, and settings that change what the commands do or
 * print. docs/slurm.md has this list. */
static bool is_passed(const char *variable)
{
    static const char *const names[] = { "HOME=",
                                         "USER=",
                                         "LOGNAME=",
                                         "SHELL=",
                                         "PATH=",
                                         "TMPDIR=",
                                         "TZ=",
                                         "XDG_CACHE_HOME=",
                                         "KRB5CCNAME=",
                                         "LD_LIBRARY_PATH=",
                                         "SLURM_CONF=",
                                         "BASH_ENV=",
                                         "SLURM_CLUSTERS=",
                                         "MODULEPATH=",
                                         "MODULESHOME=",
                                         "LOADEDMODULES=",
                                         "_LMFILES_=",
                                         NULL };
    static const char *const families[] = { "HRF_",
                                            "MODULES_",
                                            "LMOD_",
                                            "__LMOD_",
                                            "_ModuleTable",
                                            "APPTAINER_",
                                            "SINGULARITY_",
                                            "BASH_FUNC_module",
                                            "BASH_FUNC_ml%",
                                            "BASH_FUNC__module_raw",
                                            NULL };
    for (size_t i = 0; names[i] != NULL; i++)
        if (begins_with(variable, names[i]))
            return true;
    for (size_t i = 0; families[i] != NULL; i++)
        if (begins_with(variable, families[i]))
            return true;
    return false;
}

/* A heap array of borrowed strings. */
static const char **make_environment(void)
{
    static const char *const added[] = { "LC_ALL=C", "SLURM_TIME_FORMAT=standard",
                                         "SLURM_BITSTR_LEN=0" };
    enum { N_ADDED = sizeof added / sizeof added[0] };
    size_t n = 0, kept = 0;
    while (environ[n] != NULL)
        n++;
    const char **out = hrf_alloc_array(n + N_ADDED + 1, sizeof *out);
    for (size_t i = 0; i < n; i++)
        if (is_passed(environ[i]))
            out[kept++] = environ[i];
    for (size_t i = 0; i < N_ADDED; i++)
        out[kept++] = added[i];
    out[kept] = NULL;
    return out;
}

enum hrf_status hrf_slurm_run(const char *const argv[], int64_t deadline_ms,
                              struct hrf_slurm_output *out, struct hrf_error *err)
{
    *out = (struct hrf_slurm_output){ .output = HRF_STRBUF_INIT, .errors = HRF_STRBUF_INIT };
    HRF_AUTO_FREE const char **environment = make_environment();
    enum hrf_status status = hrf_process_run(argv, environment, NULL, deadline_ms, OUTPUT_LIMIT,
                                             &out->output, &out->errors, &out->result, err);
    if (status != HRF_OK)
        hrf_slurm_output_release(out);
    return status;
}

bool hrf_slurm_ask(const char *const argv[], struct hrf_slurm_output *out)
{
    struct hrf_error err;
    if (hrf_slurm_run(argv, HRF_SLURM_DEADLINE_MS, out, &err) != HRF_OK)
        return false;
    if (hrf_slurm_succeeded(out))
        return true;
    hrf_slurm_output_release(out);
    return false;
}

struct hrf_slurm_query {
    pthread_t thread;
    bool is_busy; /* a thread was started and not joined */
    atomic_bool done;
    char *words[MAX_WORDS + 1];
    struct hrf_slurm_output output; /* belongs to the thread until `done` is set */
    enum hrf_status status;
    struct hrf_error error;
};

static void forget_words(struct hrf_slurm_query *query)
{
    for (size_t i = 0; i < MAX_WORDS; i++) {
        hrf_free(query->words[i]);
        query->words[i] = NULL;
    }
}

struct hrf_slurm_query *hrf_slurm_query_create(void)
{
    return hrf_calloc(1, sizeof(struct hrf_slurm_query));
}

void hrf_slurm_query_destroy(struct hrf_slurm_query *query)
{
    if (query == NULL)
        return;
    if (query->is_busy) {
        pthread_join(query->thread, NULL);
        if (query->status == HRF_OK)
            hrf_slurm_output_release(&query->output);
    }
    forget_words(query);
    hrf_free(query);
}

bool hrf_slurm_query_is_busy(const struct hrf_slurm_query *query)
{
    return query->is_busy;
}

static void *run_query(void *context)
{
    struct hrf_slurm_query *query = context;
    query->status = hrf_slurm_run((const char *const *)query->words, HRF_SLURM_DEADLINE_MS,
                                  &query->output, &query->error);
    atomic_store(&query->done, true);
    return NULL;
}

enum hrf_status hrf_slurm_query_start(struct hrf_slurm_query *query, const char *const argv[],
                                      struct hrf_error *err)
{
    forget_words(query);
    for (size_t i = 0; argv[i] != NULL; i++) {
        assert(i < MAX_WORDS);
        query->words[i] = hrf_strdup(argv[i]);
    }
    atomic_store(&query->done, false);
    const int native = pthread_create(&query->thread, NULL, run_query, query);
    if (native != 0)
        return hrf_error_set_errno(err, native, "cannot start a thread for %s", argv[0]);
    query->is_busy = true;
    return HRF_OK;
}

bool hrf_slurm_query_take(struct hrf_slurm_query *query, struct hrf_slurm_output *out,
                          enum hrf_status *status, struct hrf_error *err)
{
    if (!query->is_busy || !atomic_load(&query->done))
        return false;
    pthread_join(query->thread, NULL);
    query->is_busy = false;
    *status = query->status;
    if (query->status == HRF_OK)
        *out = query->output;
    else if (err != NULL)
        *err = query->error;
    return true;
}
