/* directory.h - a directory of the test program's own: set-up and tear-down of a test or a group.
 */
#ifndef HRF_TESTS_UNIT_DIRECTORY_H
#define HRF_TESTS_UNIT_DIRECTORY_H

#include "base/directory.h"

#include <stdio.h>
#include <stdlib.h>

static char directory[64];

static inline int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/hrf-test-XXXXXX");
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static inline int remove_directory(void **state)
{
    (void)state;
    return hrf_path_remove_tree(directory, NULL) == HRF_OK ? 0 : -1;
}

/* A file in it; two names are good at a time. */
static inline const char *file(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", directory, name);
    return path[turn];
}

#endif
