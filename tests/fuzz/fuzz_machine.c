/* fuzz_machine.c - machine files of any bytes are read or refused; what is read is written so that
 * it reads back. */
#include "engine/planning/machine_file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hrf_machine machine, back;
    struct hrf_error err;
    if (hrf_machine_parse((const char *)data, size, "fuzz.yaml", &machine, &err) != HRF_OK)
        return 0;
    HRF_AUTO_JSON json = hrf_machine_json(&machine);
    HRF_AUTO_FREE char *text = json != NULL ? hrf_json_text(json) : NULL;
    if (text == NULL || hrf_machine_parse(text, strlen(text), "again", &back, &err) != HRF_OK) {
        fprintf(stderr, "does not read back: %s\n", text != NULL ? err.text : "not JSON");
        abort(); /* ci-allow: how a fuzz entry says no */
    }
    return 0;
}
