/* infer_words.h - messages about a workflow, in the words of `infer`: who gives options should not
 * read of keys and lines of a file that they have not written. */
#ifndef HRF_ORCHESTRATOR_CLI_INFER_WORDS_H
#define HRF_ORCHESTRATOR_CLI_INFER_WORDS_H

/* The text with each workflow key as the option that sets it: 'tiler.patch.size' is --size, a key
 * without an option of its own --set KEY. Heap; NULL if memory ran out. */
char *hrf_infer_reword(const char *text);

#endif
