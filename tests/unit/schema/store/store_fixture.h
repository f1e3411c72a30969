/* store_fixture.h - a directory with a store for each test, and processes beside the test. */
#ifndef HRF_TESTS_UNIT_SCHEMA_STORE_STORE_FIXTURE_H
#define HRF_TESTS_UNIT_SCHEMA_STORE_STORE_FIXTURE_H

#include "schema/store/store.h"
#include "schema/store/tasks.h"

#include <stdbool.h>
#include <sys/types.h>

int fixture_make(void **state);
int fixture_remove(void **state);
const char *fixture_directory(void);
const char *fixture_file(const char *name); /* two live at a time */
struct hrf_store *fixture_open(enum hrf_store_mode mode);
/* A task of slide `slide_id`; its key is 64 times the letter. */
struct hrf_task_row fixture_task(enum hrf_task_kind kind, int64_t slide_id, const char *precision,
                                 int64_t first_patch, int64_t n_patches, char letter);
/* A record of that task, whole, with `text` in it. Heap. */
struct hrf_bytes fixture_record(const struct hrf_task_row *task, const char *text);
void fixture_tile_plan(struct hrf_store *store, int64_t slide_id, int64_t n_patches, char letter);

/* A forked process that runs `work` and then, unless it ended, waits to be killed. Returns when
 * `work` is done. */
pid_t fixture_spawn(void (*work)(void));
void fixture_kill(pid_t pid);
/* Runs argv; true when it ended with 0. */
bool fixture_run(const char *const argv[]);

#endif
