#include "frontend/LoadModel.h"

#include "frontend/ElementType.h"
#include "frontend/EinsumEquation.h"
#include "frontend/Error.h"
#include "frontend/MappedFile.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>
#include <onnx/onnx_pb.h>
#include <onnx/version_converter/convert.h>
#include <openssl/evp.h>

#include <climits>
#include <set>

namespace msamp::frontend {
namespace {

constexpr size_t kSmallInitializer = 64;

// protobuf prints parse errors to stderr by itself; ours say more.
void silenceProtobuf() {
  static bool done = (google::protobuf::SetLogHandler(nullptr), true);
  (void)done;
}

bool staysInGraph(const onnx::TensorProto &t) {
  if (t.data_location() == onnx::TensorProto::EXTERNAL)
    return false;
  size_t bytes = elementSize(t.data_type());
  for (int64_t d : t.dims())
    bytes *= d;
  return bytes <= kSmallInitializer;
}

// A copy whose large initializers are inputs: ONNX's checker, inliner and converter copy tensors around, and the
// checker opens external files.
onnx::ModelProto withoutWeights(const onnx::ModelProto &model) {
  onnx::ModelProto out;
  const onnx::GraphProto &from = model.graph();
  onnx::GraphProto &to = *out.mutable_graph();
  out.set_ir_version(std::max<int64_t>(model.ir_version(), 4)); // earlier versions want initializers among the inputs
  *out.mutable_opset_import() = model.opset_import();
  *out.mutable_functions() = model.functions();
  to.set_name(from.name().empty() ? "graph" : from.name());
  *to.mutable_node() = from.node();
  *to.mutable_output() = from.output();
  std::set<std::string> initialized;
  for (const auto &t : from.initializer())
    initialized.insert(t.name());
  for (const auto &input : from.input())
    if (!initialized.count(input.name()))
      *to.add_input() = input;
  for (const auto &t : from.initializer()) {
    if (staysInGraph(t)) {
      *to.add_initializer() = t;
      continue;
    }
    auto *input = to.add_input();
    input->set_name(t.name());
    auto *type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(t.data_type());
    auto *shape = type->mutable_shape();
    for (int64_t d : t.dims())
      shape->add_dim()->set_dim_value(d);
  }
  return out;
}

bool sameInputs(const onnx::GraphProto &a, const onnx::GraphProto &b) {
  if (a.input_size() != b.input_size())
    return false;
  for (int i = 0; i < a.input_size(); ++i)
    if (a.input(i).name() != b.input(i).name())
      return false;
  return true;
}

int64_t opsetOf(const onnx::ModelProto &model) {
  for (const auto &o : model.opset_import())
    if (o.domain().empty() || o.domain() == "ai.onnx")
      return o.version();
  return 0;
}

} // namespace

std::shared_ptr<const onnx::ModelProto> parseModel(const std::string &path) {
  silenceProtobuf();
  auto file = MappedFile::open(path, kIo);
  if (!file->size())
    throw Error(kBadData, path + ": the file is empty, expected an ONNX model");
  if (file->size() > INT_MAX)
    throw Error(kBadData, path + ": " + std::to_string(file->size()) +
                              " bytes are more than an ONNX file can have (2 GiB); " +
                              "save the weights as external data");
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(file->data()),
                                                static_cast<int>(file->size()));
  stream.SetTotalBytesLimit(INT_MAX);
  auto model = std::make_shared<onnx::ModelProto>();
  bool ok = model->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
  if (!ok)
    throw Error(kBadData, path + ": not an ONNX model, or a damaged or truncated one: reading stopped at byte " +
                              std::to_string(stream.CurrentPosition()) + " of " + std::to_string(file->size()));
  if (!model->has_graph() || !model->graph().node_size() || !model->opset_import_size())
    throw Error(kBadData, path + ": not an ONNX model: it has " +
                              (model->has_graph() ? std::to_string(model->graph().node_size()) + " nodes and " +
                                                        std::to_string(model->opset_import_size()) + " opset imports"
                                                  : std::string("no graph")));
  if (!model->graph().output_size())
    throw Error(kBadData, path + ": the graph has no outputs; the file is truncated, or was exported without any");
  return model;
}

onnx::ModelProto prepareGraph(const std::string &path, const onnx::ModelProto &model) {
  onnx::ModelProto graph = withoutWeights(model);
  if (graph.graph().sparse_initializer_size() || model.graph().sparse_initializer_size())
    throw Error(kBadData, path + ": sparse initializers are not supported; store them dense");
  auto range = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("");
  int64_t opset = opsetOf(graph);
  if (opset > range.second)
    throw Error(kBadData, path + ": uses opset " + std::to_string(opset) + ", but the newest that is known is " +
                              std::to_string(range.second) + "; export the model at that one or an earlier one");
  // ONNX's own inference of shapes does not end for some that are none.
  for (const auto &n : graph.graph().node())
    if (n.op_type() == "Einsum")
      for (const auto &a : n.attribute())
        try {
          if (a.name() == "equation")
            parseEinsum(a.s());
        } catch (const Invalid &bad) {
          throw Error(kBadData, path + ": node " + n.name() + " (Einsum): " + bad.what());
        }
  try {
    onnx::checker::check_model(graph, /*full_check=*/false, /*skip_opset_compatibility_check=*/false);
    // Before the conversion, which drops functions.
    if (graph.functions_size())
      onnx::inliner::InlineLocalFunctions(graph, /*convert_version=*/true);
  } catch (const std::exception &e) {
    throw Error(kBadData, path + ": ONNX's checker refuses the model: " + e.what());
  }
  if (opset && opset < range.second) {
    try {
      onnx::ModelProto newer = onnx::version_conversion::ConvertVersion(graph, range.second);
      if (newer.graph().node_size() && sameInputs(graph.graph(), newer.graph()))
        graph = std::move(newer);
    } catch (const std::exception &) {
      // Translators know both spellings of the ops that changed since opset 11, so the model goes on as it is.
    }
  }
  return graph;
}

std::string sha256OfFile(const std::string &path) {
  auto file = MappedFile::open(path, kIo);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!EVP_Digest(file->data(), file->size(), digest, &length, EVP_sha256(), nullptr))
    throw Error(kInternal, "SHA-256 is not available");
  std::string hex;
  for (unsigned i = 0; i < length; ++i) {
    static const char digits[] = "0123456789abcdef";
    hex += digits[digest[i] >> 4];
    hex += digits[digest[i] & 15];
  }
  return hex;
}

} // namespace msamp::frontend
