// Strips the data of large initializers from a model.
#include "codegen/ModelCopy.h"

#include "frontend/Error.h"

#include <fstream>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <onnx/onnx_pb.h>

namespace msamp::codegen {

// Above this an initializer is a weight rather than a shape or an axis that the graph needs to be read.
constexpr size_t keptBytes = 1024;

static void strip(onnx::GraphProto &graph) {
  for (onnx::TensorProto &tensor : *graph.mutable_initializer()) {
    if (tensor.ByteSizeLong() <= keptBytes && tensor.data_location() != onnx::TensorProto::EXTERNAL)
      continue;
    onnx::TensorProto bare;
    bare.set_name(tensor.name());
    bare.set_data_type(tensor.data_type());
    *bare.mutable_dims() = tensor.dims();
    tensor.Swap(&bare);
  }
}

void copyGraph(const std::string &model, const std::string &path) {
  onnx::ModelProto proto;
  std::ifstream in(model, std::ios::binary);
  google::protobuf::io::IstreamInputStream stream(&in);
  if (!in || !proto.ParseFromZeroCopyStream(&stream))
    throw frontend::Error(frontend::kIo, "cannot read " + model + " again for the plan's copy of its graph");
  strip(*proto.mutable_graph());
  std::ofstream out(path, std::ios::binary);
  if (!proto.SerializeToOstream(&out) || !out.flush())
    throw frontend::Error(frontend::kIo, "cannot write " + path);
}

} // namespace msamp::codegen
