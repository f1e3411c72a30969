/* unit.h - what every unit test includes: cmocka with the headers it wants before it. */
#ifndef HRF_TESTS_UNIT_UNIT_H
#define HRF_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The same as cmocka's, whose macro stands in a system header: there the compiler says nothing of a
 * format that does not fit its arguments. */
#undef fail_msg
#define fail_msg(...) (print_error("ERROR: "), print_error(__VA_ARGS__), print_error("\n"), fail())

/* Leaves a test out for want of something that another user or another checkout has (root, real
 * data): tools/test --again looks for these words. What a processor lacks is skip() alone. cmocka
 * jumps past what the test would free. */
static inline void skip_for_want_of(const char *what)
{
    print_message("skipped: for want of %s\n", what);
    skip();
}

#endif
