/* check_graph.c - the networks that rows are about. */
#include "engine/check/check_rows.h"
#include "engine/planning/request.h"

enum hrf_status hrf_check_graph(const char *model, int64_t size, int64_t batch,
                                struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_engine_load_model(model, 10, size, &graph, err));
    HRF_TRY(hrf_engine_set_image_input(graph, batch, size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}
