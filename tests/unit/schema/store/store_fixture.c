#include "tests/unit/schema/store/store_fixture.h"

#include "base/process.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int fixture_make(void **state)
{
    return make_directory(state);
}

int fixture_remove(void **state)
{
    return remove_directory(state);
}

const char *fixture_directory(void)
{
    return directory;
}

const char *fixture_file(const char *name)
{
    return file(name);
}

struct hrf_store *fixture_open(enum hrf_store_mode mode)
{
    struct hrf_store *store = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_store_open(fixture_file("run.db"), mode, &store, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return store;
}

struct hrf_task_row fixture_task(enum hrf_task_kind kind, int64_t slide_id, const char *precision,
                                 int64_t first_patch, int64_t n_patches, char letter)
{
    struct hrf_task_row row = {
        .kind = kind, .slide_id = slide_id, .first_patch = first_patch, .n_patches = n_patches
    };
    memset(row.key, letter, sizeof row.key - 1);
    snprintf(row.precision, sizeof row.precision, "%s", precision);
    return row;
}

struct hrf_bytes fixture_record(const struct hrf_task_row *task, const char *text)
{
    struct hrf_record_identity identity = { .task = "" };
    struct hrf_bytes bytes = { NULL, 0 };
    memcpy(identity.task, task->key, sizeof identity.task);
    assert_int_equal(
        hrf_text_record_encode(hrf_task_record_kind(task->kind), &identity, text, &bytes, NULL),
        HRF_OK);
    return bytes;
}

void fixture_tile_plan(struct hrf_store *store, int64_t slide_id, int64_t n_patches, char letter)
{
    char text[] = "x";
    struct hrf_patch *patches = hrf_calloc((size_t)n_patches, sizeof patches[0]);
    struct hrf_tile_plan plan = { .slide_path = text,
                                  .vendor = text,
                                  .width = 1,
                                  .height = 1,
                                  .mpp_x = 1,
                                  .mpp_y = 1,
                                  .mpp_source = text,
                                  .patch_size = 1,
                                  .patch_mpp = 1,
                                  .patch_stride = 1,
                                  .patch_width0 = 1,
                                  .patch_height0 = 1,
                                  .stride_x0 = 1,
                                  .stride_y0 = 1,
                                  .tissue_method = text,
                                  .n_patches = n_patches,
                                  .patches = patches };
    struct hrf_bytes bytes = { NULL, 0 };
    struct hrf_task_row task = fixture_task(HRF_TASK_TILE, slide_id, "", 0, 0, letter);
    struct hrf_task_rows rows = { NULL, 0 };
    bool is_new = false;
    assert_non_null(patches);
    memset(plan.identity.task, letter, sizeof plan.identity.task - 1);
    assert_int_equal(hrf_tile_plan_seal(&plan, NULL), HRF_OK);
    assert_int_equal(hrf_tile_plan_encode(&plan, &bytes, NULL), HRF_OK);
    assert_int_equal(hrf_store_plan_tasks(store, slide_id, HRF_TASK_TILE, &task, 1, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_tasks(store, &rows, NULL), HRF_OK);
    for (size_t i = 0; i < rows.n_items; i++)
        if (rows.items[i].slide_id == slide_id && rows.items[i].kind == HRF_TASK_TILE)
            assert_int_equal(hrf_store_finish_task(store, rows.items[i].id, task.key, bytes.data,
                                                   bytes.n_bytes, &is_new, NULL),
                             HRF_OK);
    hrf_task_rows_release(&rows);
    hrf_bytes_release(&bytes);
    hrf_free(patches);
}

pid_t fixture_spawn(void (*work)(void))
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ready[0]);
        work();
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) < 0) /* 0: it ended by itself */
        fail();
    close(ready[0]);
    return pid;
}

void fixture_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

bool fixture_run(const char *const argv[])
{
    struct hrf_process_result result = { .exit_code = -1 };
    return hrf_process_run(argv, NULL, NULL, 20000, 0, NULL, NULL, &result, NULL) == HRF_OK &&
           result.exited && result.exit_code == 0;
}
