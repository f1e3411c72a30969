/* capture.cc - see cuda_runtime_api.h: streams that are recorded into a graph, and its replay. */
#include "runtime_private.hh"

#include <thread>

struct emulated_graph {
    struct node {
        std::function<hrf_emulated_attempt()> begin;
        std::vector<int> after;
    };
    std::vector<node> nodes;
};

namespace emulated
{

/* Streams that are being recorded together. */
struct recording {
    recording(cudaGraph_t g, cudaStream_t s) : graph(g), origin(s)
    {
    }
    cudaGraph_t graph;
    cudaStream_t origin;
    std::thread::id by = std::this_thread::get_id();
    bool is_over = false;
};

void add_node(cudaStream_t stream, std::function<hrf_emulated_attempt()> begin)
{
    cudaGraph_t graph = stream->capture->graph;
    graph->nodes.push_back({ std::move(begin), stream->tails });
    stream->tails = { int(graph->nodes.size()) - 1 };
}

bool is_over(const recording_part &recorded)
{
    return recorded != nullptr && recorded->is_over;
}

bool is_own(const recording_part &recorded)
{
    return recorded != nullptr && recorded->by == std::this_thread::get_id();
}

namespace
{

/* All nodes that come before one of `tails`, those included. */
std::set<int> before(cudaGraph_t graph, std::vector<int> tails)
{
    std::set<int> found;
    while (!tails.empty()) {
        const int node = tails.back();
        tails.pop_back();
        if (found.insert(node).second)
            tails.insert(tails.end(), graph->nodes[size_t(node)].after.begin(),
                         graph->nodes[size_t(node)].after.end());
    }
    return found;
}

/* A recording that is done in the order which its dependencies allow and that is farthest from the
 * one in which it was recorded. */
struct replay {
    explicit replay(const emulated_graph &graph)
    {
        for (const auto &node : graph.nodes)
            nodes.push_back({ node.begin(), node.after, false });
    }
    bool operator()()
    {
        for (size_t i = nodes.size(); i-- > 0;) {
            node &n = nodes[i];
            bool may = !n.is_done;
            for (int before : n.after)
                may = may && nodes[size_t(before)].is_done;
            if (!may || !n.attempt())
                continue;
            n.is_done = true;
            n_done++;
            i = nodes.size();
        }
        return n_done == nodes.size();
    }
    struct node {
        hrf_emulated_attempt attempt;
        std::vector<int> after;
        bool is_done;
    };
    std::vector<node> nodes;
    size_t n_done = 0;
};

} // namespace

} // namespace emulated

using namespace emulated;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
    ALONE;
    stream->capture = std::make_shared<recording>(new emulated_graph, stream);
    stream->tails.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    ALONE;
    const recording_part capture = stream->capture;
    if (capture == nullptr || capture->origin != stream)
        return cudaErrorInvalidValue;
    const std::set<int> joined = before(capture->graph, stream->tails);
    bool all_joined = true;
    for (cudaStream_t other : streams) {
        if (other->capture != capture)
            continue;
        for (int tail : other->tails)
            all_joined = all_joined && joined.count(tail) != 0;
        other->capture = nullptr;
        other->tails.clear();
    }
    capture->is_over = true;
    *graph = capture->graph;
    return all_joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    *exec = new emulated_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    ALONE;
    counts.graph_launches++;
    stream->queue.push_back({ replay(*exec), nullptr, 0, false, nullptr });
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec; /* what was launched keeps what it needs */
    return cudaSuccess;
}

} // extern "C"
