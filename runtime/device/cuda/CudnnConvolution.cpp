#include "runtime/device/cuda/CudnnConvolution.h"

#include "runtime/core/Error.h"

#ifdef MSAMP_HAVE_CUDNN

#include <algorithm>
#include <map>
#include <unordered_map>

#include "runtime/device/cuda/CudnnGraph.h"

namespace msamp::runtime::cuda {

namespace {

enum Id : int64_t { X = 1, Filter, Y };
using Dims = std::vector<int64_t>;

// A row-major tensor [N, positions.., C] in the library's order [N, C, positions..], with two dimensions of positions at
// least.
fe::graph::Tensor_attributes channelsLast(const Tensor &t, Id id) {
  Dims dims{t.shape[0], t.shape[t.rank - 1]}, strides{t.strides[0], 1};
  if (t.rank == 3) {
    dims.push_back(1);
    strides.push_back(t.strides[0]);
  }
  for (unsigned d = 1; d + 1 < t.rank; ++d) {
    dims.push_back(t.shape[d]);
    strides.push_back(t.strides[d]);
  }
  return fe::graph::Tensor_attributes().set_uid(id).set_data_type(dataType(t.type)).set_dim(dims).set_stride(strides);
}

// The window's numbers with one dimension more in front where there is only one.
Dims listOf(const int64_t *values, unsigned rank, int64_t missing) {
  Dims list(values, values + rank);
  if (rank == 1)
    list.insert(list.begin(), missing);
  return list;
}

template <class Attributes>
Attributes attributesOf(const ConvArgs &args) {
  const Window &w = args.window;
  int64_t high[maxWindowRank];
  for (unsigned d = 0; d < w.rank; ++d) {
    // As much padding as the last window reaches into.
    const int64_t end = (args.y.shape[d + 1] - 1) * w.strides[d] + (w.size[d] - 1) * w.dilations[d] + 1;
    high[d] = std::max<int64_t>(0, end - w.low[d] - args.x.shape[d + 1]);
  }
  return Attributes()
      .set_pre_padding(listOf(w.low, w.rank, 0))
      .set_post_padding(listOf(high, w.rank, 0))
      .set_stride(listOf(w.strides, w.rank, 1))
      .set_dilation(listOf(w.dilations, w.rank, 1));
}

} // namespace

struct CudnnConvolution::Impl {
  Cudnn &cudnn;
  Scratch &scratch;
  std::map<GraphKey, BuiltGraph> graphs;
  std::string refusal;

  Impl(Cudnn &cudnn, Scratch &scratch) : cudnn(cudnn), scratch(scratch) {}

  BuiltGraph build(const ConvArgs &args) {
    using Note = fe::NumericalNote_t;
    auto graph = emptyGraph(cudnn, args.y.type);
    const auto x = channelsLast(args.x, X), filter = channelsLast(args.filter, Filter), y = channelsLast(args.y, Y);
    auto computed = [](auto result, const fe::graph::Tensor_attributes &wanted) {
      result->set_output(true)
          .set_uid(wanted.get_uid())
          .set_data_type(wanted.get_data_type())
          .set_dim(wanted.get_dim())
          .set_stride(wanted.get_stride());
    };
    if (args.pass == ConvPass::Forward)
      computed(graph->conv_fprop(graph->tensor(x), graph->tensor(filter),
                                 attributesOf<fe::graph::Conv_fprop_attributes>(args)),
               y);
    else if (args.pass == ConvPass::ImageGradient)
      computed(graph->conv_dgrad(graph->tensor(y), graph->tensor(filter),
                                 attributesOf<fe::graph::Conv_dgrad_attributes>(args)),
               x);
    else
      computed(
          graph->conv_wgrad(graph->tensor(y), graph->tensor(x), attributesOf<fe::graph::Conv_wgrad_attributes>(args)),
          filter);
    std::vector<Note> without{Note::NONDETERMINISTIC};
    if (args.x.type == Type::F32)
      without.insert(without.end(), {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS, Note::REDUCED_PRECISION_REDUCTION,
                                     Note::WINOGRAD, Note::FFT});
    return buildGraph(cudnn, std::move(graph), {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}, without);
  }
};

bool CudnnConvolution::run(const ConvArgs &args) {
  GraphKey key{static_cast<int64_t>(args.pass)};
  for (const Tensor *tensor : {&args.x, &args.filter, &args.y})
    addTo(key, *tensor);
  for (const int64_t *list : {args.window.strides, args.window.low, args.window.dilations})
    key.insert(key.end(), list, list + args.window.rank);
  auto known = impl_->graphs.find(key);
  if (known == impl_->graphs.end())
    known = impl_->graphs.emplace(std::move(key), impl_->build(args)).first;
  const BuiltGraph &built = known->second;
  if (!built.graph) {
    impl_->refusal = built.refusal;
    return false;
  }
  std::unordered_map<int64_t, void *> pointers{{X, args.x.data}, {Filter, args.filter.data}, {Y, args.y.data}};
  std::byte *workspace = impl_->scratch.get(std::max<size_t>(built.workspace, 1));
  fe::error_t status = built.graph->execute(impl_->cudnn.handle(), pointers, workspace);
  if (status.is_bad())
    failInternal("cuDNN's convolution failed: {}", status.get_message());
  return true;
}

CudnnConvolution::CudnnConvolution(Cudnn &cudnn, Scratch &scratch) : impl_(std::make_unique<Impl>(cudnn, scratch)) {}

} // namespace msamp::runtime::cuda

#else

namespace msamp::runtime::cuda {

struct CudnnConvolution::Impl {
  std::string refusal = "msamp was built without cuDNN's headers (tools/setup.sh brings its frontend)";
};

CudnnConvolution::CudnnConvolution(Cudnn &, Scratch &) : impl_(std::make_unique<Impl>()) {}
bool CudnnConvolution::run(const ConvArgs &) {
  return false;
}

} // namespace msamp::runtime::cuda

#endif

namespace msamp::runtime::cuda {

CudnnConvolution::~CudnnConvolution() = default;

const std::string &CudnnConvolution::refusal() const {
  return impl_->refusal;
}

} // namespace msamp::runtime::cuda
