#include "runtime/device/cuda/CudnnAttention.h"

#include "runtime/core/Error.h"

#ifdef MSAMP_HAVE_CUDNN

#include <bit>
#include <map>
#include <unordered_map>
#include <vector>

#include "runtime/device/cuda/CudnnGraph.h"

namespace msamp::runtime::cuda {

namespace {

enum Id : int64_t { Q = 1, K, V, O, Stats, Bias, DO, DQ, DK, DV };

// [B, X, H, D] as the library's [B, H, X, D].
fe::graph::Tensor_attributes heads(const Tensor &t, Id id, int64_t batches) {
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_data_type(dataType(t.type))
      .set_dim({batches, t.shape[2], t.shape[1], t.shape[3]})
      .set_stride({t.strides[0], t.strides[2], t.strides[1], t.strides[3]});
}

fe::graph::Tensor_attributes statistics(const Tensor &t, int64_t batches) {
  return fe::graph::Tensor_attributes()
      .set_uid(Stats)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({batches, t.shape[1], t.shape[2], 1})
      .set_stride({t.strides[0], t.strides[1], t.strides[2], 1});
}

// A mask of keys alone [B, 1, 1, S] is said to have all queries, a stride of 0 apart: the library's gradients of one with a
// single query are zeros.
fe::graph::Tensor_attributes biasOf(const Tensor &t, int64_t batches, int64_t queries) {
  return fe::graph::Tensor_attributes()
      .set_uid(Bias)
      .set_data_type(dataType(t.type))
      .set_dim({t.shape[0] == 1 ? 1 : batches, t.shape[1], queries, t.shape[3]})
      .set_stride({t.strides[0], t.strides[1], t.shape[2] == 1 ? 0 : t.strides[2], t.strides[3]});
}

// The last query sees the last key; where there are as many of both, that is also the first the first, which more
// kernels do.
template <class Options>
void mask(Options &options, const AttentionArgs &args) {
  if (!args.causal)
    return;
  options.set_diagonal_alignment(args.q.shape[1] == args.k.shape[1] ? fe::DiagonalAlignment_t::TOP_LEFT
                                                                    : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
  options.set_diagonal_band_right_bound(0);
}

bool aligned(const Tensor &t) {
  bool fits = reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.strides[3] == 1;
  for (unsigned d = 0; d < 3; ++d)
    fits &= t.shape[d] == 1 || t.strides[d] % (16 / static_cast<int64_t>(sizeOf(t.type))) == 0;
  return fits;
}

} // namespace

struct CudnnAttention::Impl {
  struct Built : BuiltGraph {
    int64_t batches = 0; // that one call covers
  };
  using Pointers = std::unordered_map<int64_t, void *>;
  using Tensors = std::vector<std::pair<Id, const Tensor *>>;

  Cudnn &cudnn;
  Scratch &scratch;
  AttentionOptions options;
  std::map<GraphKey, Built> graphs;
  std::string refusal;

  Impl(Cudnn &cudnn, Scratch &scratch, const AttentionOptions &options)
      : cudnn(cudnn), scratch(scratch), options(options) {}

  Built finish(std::shared_ptr<fe::graph::Graph> graph, int64_t batches) {
    return {buildGraph(cudnn, std::move(graph), {fe::HeurMode_t::A}), batches};
  }

  Built buildForward(const AttentionArgs &args) {
    const int64_t batches = args.q.shape[0];
    auto graph = emptyGraph(cudnn, args.q.type);
    auto q = graph->tensor(heads(args.q, Q, batches)), k = graph->tensor(heads(args.k, K, batches)),
         v = graph->tensor(heads(args.v, V, batches));
    auto attributes = fe::graph::SDPA_attributes()
                          .set_name("attention")
                          .set_generate_stats(true)
                          .set_attn_scale(static_cast<float>(args.scale));
    mask(attributes, args);
    if (args.hasBias)
      attributes.set_bias(graph->tensor(biasOf(args.bias, batches, args.q.shape[1])));
    auto [o, stats] = graph->sdpa(q, k, v, attributes);
    const auto wantedO = heads(args.o, O, batches), wantedStats = statistics(args.lse, batches);
    o->set_output(true).set_uid(O).set_dim(wantedO.get_dim()).set_stride(wantedO.get_stride());
    stats->set_output(true)
        .set_uid(Stats)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(wantedStats.get_dim())
        .set_stride(wantedStats.get_stride());
    return finish(graph, batches);
  }

  Built buildBackward(const AttentionArgs &args) {
    const int64_t all = args.q.shape[0];
    auto up = [](int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; };
    const size_t perEntry =
        static_cast<size_t>(args.q.shape[2] * up(args.q.shape[1], 64) * up(args.k.shape[1], 128)) * 2;
    int64_t batches = all;
    // The largest part of the batch that fits and divides it.
    if (options.deterministic)
      while (batches > 1 &&
             (all % batches != 0 || static_cast<size_t>(batches) * perEntry > options.deterministicBytes))
        --batches;
    auto graph = emptyGraph(cudnn, args.q.type);
    auto tensor = [&](const Tensor &t, Id id) { return graph->tensor(heads(t, id, batches)); };
    auto q = tensor(args.q, Q), k = tensor(args.k, K), v = tensor(args.v, V), o = tensor(args.o, O),
         dO = tensor(args.dO, DO);
    auto stats = graph->tensor(statistics(args.lse, batches));
    auto attributes = fe::graph::SDPA_backward_attributes()
                          .set_name("attention_grad")
                          .set_attn_scale(static_cast<float>(args.scale))
                          .set_deterministic_algorithm(options.deterministic);
    mask(attributes, args);
    if (args.hasBias)
      attributes.set_bias(graph->tensor(biasOf(args.bias, batches, args.q.shape[1])));
    auto [dQ, dK, dV] = graph->sdpa_backward(q, k, v, o, dO, stats, attributes);
    auto output = [&](auto &to, const Tensor &t, Id id) {
      const auto wanted = heads(t, id, batches);
      to->set_output(true).set_uid(id).set_dim(wanted.get_dim()).set_stride(wanted.get_stride());
    };
    output(dQ, args.dQ, DQ);
    output(dK, args.dK, DK);
    output(dV, args.dV, DV);
    return finish(graph, batches);
  }

  bool attend(const AttentionArgs &args, bool gradient, Tensors tensors) {
    for (auto [id, tensor] : tensors)
      if (!aligned(*tensor)) {
        refusal = "tensors are not aligned to 16 bytes, or not in sequence along the head";
        return false;
      }
    if (args.hasBias && reinterpret_cast<uintptr_t>(args.bias.data) % 16 != 0) {
      refusal = "its bias is not aligned to 16 bytes";
      return false;
    }
    tensors.emplace_back(Stats, &args.lse);
    if (args.hasBias)
      tensors.emplace_back(Bias, &args.bias);
    GraphKey key = {gradient, args.causal, args.hasBias, std::bit_cast<int64_t>(args.scale)};
    for (auto [id, tensor] : tensors)
      addTo(key, *tensor);
    auto known = graphs.find(key);
    if (known == graphs.end())
      known = graphs.emplace(std::move(key), gradient ? buildBackward(args) : buildForward(args)).first;
    return run(known->second, args, tensors);
  }

  // One call a part of the batch.
  bool run(const Built &built, const AttentionArgs &args, const Tensors &tensors) {
    if (!built.graph) {
      refusal = built.refusal;
      return false;
    }
    std::byte *workspace = scratch.get(std::max<size_t>(built.workspace, 1));
    for (int64_t first = 0; first < args.q.shape[0]; first += built.batches) {
      Pointers pointers;
      for (auto [id, tensor] : tensors) {
        const int64_t step = tensor->shape[0] == 1 ? 0 : first * tensor->strides[0];
        pointers[id] = tensor->data + step * static_cast<int64_t>(sizeOf(tensor->type));
      }
      fe::error_t status = built.graph->execute(cudnn.handle(), pointers, workspace);
      if (status.is_bad())
        failInternal("cuDNN's attention failed: {}", status.get_message());
    }
    return true;
  }
};

bool CudnnAttention::forward(const AttentionArgs &args) {
  return impl_->attend(args, false, {{Q, &args.q}, {K, &args.k}, {V, &args.v}, {O, &args.o}});
}

bool CudnnAttention::backward(const AttentionArgs &args) {
  return impl_->attend(args, true,
                       {{Q, &args.q},
                        {K, &args.k},
                        {V, &args.v},
                        {O, &args.o},
                        {DO, &args.dO},
                        {DQ, &args.dQ},
                        {DK, &args.dK},
                        {DV, &args.dV}});
}

} // namespace msamp::runtime::cuda

#else

namespace msamp::runtime::cuda {

struct CudnnAttention::Impl {
  std::string refusal = "msamp was built without cuDNN's headers (tools/setup.sh brings its frontend)";
};

bool CudnnAttention::forward(const AttentionArgs &) {
  return false;
}
bool CudnnAttention::backward(const AttentionArgs &) {
  return false;
}

} // namespace msamp::runtime::cuda

#endif

namespace msamp::runtime::cuda {

CudnnAttention::CudnnAttention([[maybe_unused]] Cudnn &cudnn, [[maybe_unused]] Scratch &scratch,
                               [[maybe_unused]] const AttentionOptions &options)
#ifdef MSAMP_HAVE_CUDNN
    : impl_(std::make_unique<Impl>(cudnn, scratch, options)){}
#else
    : impl_(std::make_unique<Impl>()) {
}
#endif

      CudnnAttention::~CudnnAttention() = default;

const std::string &CudnnAttention::refusal() const {
  return impl_->refusal;
}

} // namespace msamp::runtime::cuda
