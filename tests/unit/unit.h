/* unit.h - what every unit test includes: cmocka with the headers it wants before it. */
#ifndef HRF_TESTS_UNIT_UNIT_H
#define HRF_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
