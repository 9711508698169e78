// Graphs of cuDNN's frontend, for the files that build them; only where there are cuDNN's headers.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H
#define MSAMP_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>
#include <string>
#include <vector>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "runtime/device/Device.h"
#include "runtime/device/cuda/Cudnn.h"

namespace msamp::runtime::cuda {

namespace fe = cudnn_frontend;

inline fe::DataType_t dataType(Type type) {
  switch (type) {
  case Type::BF16:
    return fe::DataType_t::BFLOAT16;
  case Type::F16:
    return fe::DataType_t::HALF;
  default:
    return fe::DataType_t::FLOAT;
  }
}

// What a graph depends on.
using GraphKey = std::vector<int64_t>;

inline void addTo(GraphKey &key, const Tensor &t) {
  key.push_back(static_cast<int64_t>(t.type));
  for (unsigned d = 0; d < t.rank; ++d) {
    key.push_back(t.shape[d]);
    key.push_back(t.strides[d]);
  }
  key.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(t.data) % 16));
}

struct BuiltGraph {
  std::shared_ptr<fe::graph::Graph> graph; // null: refused
  size_t workspace = 0;
  std::string refusal;
};

// The library is open then: a graph asks it for its version while operations are added.
inline std::shared_ptr<fe::graph::Graph> emptyGraph(Cudnn &cudnn, Type type) {
  cudnn.handle();
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(dataType(type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

// Chooses among the plans of the heuristic's modes those without any of the numerical notes.
inline BuiltGraph buildGraph(Cudnn &cudnn, std::shared_ptr<fe::graph::Graph> graph,
                             const std::vector<fe::HeurMode_t> &modes,
                             const std::vector<fe::NumericalNote_t> &without = {}) {
  BuiltGraph built;
  try {
    int64_t workspace = 0;
    fe::error_t status = graph->validate();
    if (status.is_good())
      status = graph->build_operation_graph(cudnn.handle());
    if (status.is_good())
      status = graph->create_execution_plans(modes);
    if (status.is_good() && !without.empty())
      graph->deselect_numeric_notes(without);
    if (status.is_good())
      status = graph->check_support();
    if (status.is_good())
      status = graph->build_plans();
    if (status.is_good())
      status = graph->get_workspace_size(workspace);
    if (status.is_good()) {
      built.graph = std::move(graph);
      built.workspace = static_cast<size_t>(workspace);
    } else {
      built.refusal = status.get_message();
    }
  } catch (const std::exception &error) {
    built.refusal = error.what();
  }
  return built;
}

} // namespace msamp::runtime::cuda

#endif
