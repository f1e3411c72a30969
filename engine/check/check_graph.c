/* check_graph.c - the networks that rows are about. */
#include "base/path.h"
#include "engine/check/check_rows.h"
#include "engine/model/model.h"
#include "engine/planning/request.h"

static char *file_of(const char *networks, const char *model)
{
    return networks != NULL && !hrf_model_is_built_in(model)
               ? hrf_format("%s/%s.onnx", networks, model)
               : NULL;
}

bool hrf_check_has_network(const char *networks, const char *model)
{
    HRF_AUTO_FREE char *file = file_of(networks, model);
    return hrf_model_is_built_in(model) || (file != NULL && hrf_path_exists(file));
}

enum hrf_status hrf_check_graph(const char *networks, const char *model, int64_t size,
                                int64_t batch, struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_FREE char *file = file_of(networks, model);
    HRF_TRY(hrf_engine_load_model(file != NULL ? file : model, 10, size, &graph, err));
    HRF_TRY(hrf_engine_set_image_input(graph, batch, size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

json_t *hrf_check_difference_json(const struct hrf_check_network *network, double difference,
                                  double limit, const char *error)
{
    json_t *json = json_object();
    hrf_json_put_text(json, "model", network->model);
    hrf_json_put_int(json, "size", network->size);
    hrf_json_put_int(json, "batch", network->batch);
    hrf_json_put_text(json, "precision", hrf_precision_name(network->precision));
    hrf_json_put_number(json, "difference", difference);
    hrf_json_put_number(json, "limit", limit);
    hrf_json_put_text(json, "error", error);
    return json;
}
