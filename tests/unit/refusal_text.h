/* refusal_text.h - what every refusal of a model says: the node and its operator, or what of the
 * model it is, and a way out; and no name of a tensor, which an exporter or a pass made up. */
#ifndef HRF_TESTS_UNIT_REFUSAL_TEXT_H
#define HRF_TESTS_UNIT_REFUSAL_TEXT_H

#include "engine/ir/graph.h"
#include "tests/unit/unit.h"

#include <string.h>

static inline bool check_has_remedy(const char *text)
{
    static const char *const remedies[] = { "export",  "set ",     "give ",     "docs/models.md",
                                            "without", "quantise", "calibrate", "use ",
                                            "keep ",   "take " };
    bool has_remedy = false;
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        has_remedy = has_remedy || strstr(text, remedies[i]) != NULL;
    return has_remedy;
}

/* `graph`, where there is one, is what the text is about; `name` is the test's case. */
static inline void check_refusal_text(const char *name, enum hrf_status status,
                                      const struct hrf_graph *graph, const char *text)
{
    const char *node = strstr(text, "node '");
    if (node != NULL && (strchr(node, '(') == NULL || strstr(text, "hrf_") != NULL ||
                         (status == HRF_E_UNSUPPORTED && !check_has_remedy(text))))
        fail_msg("%s: no operator or no way out in: %s", name, text);
    for (int32_t v = 0; graph != NULL && v < graph->n_values; v++) {
        const struct hrf_value *value = &graph->values[v];
        HRF_AUTO_FREE char *quoted = hrf_format("'%s'", value->name);
        bool is_known = value->producer < 0;
        for (int32_t n = 0; n < graph->n_nodes; n++)
            is_known = is_known || strcmp(graph->nodes[n].name, value->name) == 0;
        if (!is_known && strstr(text, quoted) != NULL)
            fail_msg("%s: names the tensor %s: %s", name, quoted, text);
    }
}

#endif
