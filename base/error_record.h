/* error_record.h - an error as a JSON object, the form in which it crosses processes:
 *
 *     {"id": "file-missing", "status": "external", "setting": "", "domain": "errno", "native": 2,
 *      "text": "cannot open 'a.svs': No such file or directory"}
 *
 * The reader takes hint, exit code and the setting's range from its own tables. If it does not know
 * the id, the status or the domain, it keeps the text.
 *
 * When one program asks another, it starts it with HRF_ASKED as the last word. If the asked program
 * fails, the last line on its standard error is such an object, and no other line there is about
 * the error.
 */
#ifndef HRF_BASE_ERROR_RECORD_H
#define HRF_BASE_ERROR_RECORD_H

#include "base/json.h"
#include "base/strbuf.h"

#define HRF_ASKED "--asked"

json_t *hrf_error_to_json(const struct hrf_error *err); /* new reference */
/* Returns false if `value` is not such an object. */
bool hrf_error_from_json(const json_t *value, struct hrf_error *out);

/* Writes to standard error how a command failed: as a record if the program was asked, otherwise as
 * "PROGRAM COMMAND: text", with the range and help of the setting that it is about (message.h) and
 * the hint of the error's row. Returns the exit code. */
int hrf_error_report(const char *program, const char *command, const struct hrf_error *err);
/* Makes hrf_error_report() write records from now on, because another program asked this one. */
void hrf_error_report_as_record(void);
/* Reads the error of an asked program that failed from what it wrote to standard error. If there is
 * no record (it was killed, or is another version), the last line becomes the text. Returns the
 * status of the error. */
enum hrf_status hrf_error_parse(const char *standard_error, const char *program,
                                struct hrf_error *err);

#endif
