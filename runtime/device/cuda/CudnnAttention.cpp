#include "runtime/device/cuda/CudnnAttention.h"

#include "runtime/core/Error.h"

#ifdef MSAMP_HAVE_CUDNN

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <unordered_map>
#include <vector>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "runtime/device/cuda/Libraries.h"

namespace cudnn_frontend {
// Where the frontend looks up cuDNN's functions.
void *cudnn_dlhandle = nullptr;
} // namespace cudnn_frontend

namespace msamp::runtime::cuda {

namespace fe = cudnn_frontend;

namespace {

enum Id : int64_t { Q = 1, K, V, O, Stats, Bias, DO, DQ, DK, DV };

fe::DataType_t dataType(Type type) {
  switch (type) {
  case Type::BF16:
    return fe::DataType_t::BFLOAT16;
  case Type::F16:
    return fe::DataType_t::HALF;
  default:
    return fe::DataType_t::FLOAT;
  }
}

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

fe::graph::Tensor_attributes biasOf(const Tensor &t, int64_t batches) {
  return fe::graph::Tensor_attributes()
      .set_uid(Bias)
      .set_data_type(dataType(t.type))
      .set_dim({t.shape[0] == 1 ? 1 : batches, t.shape[1], t.shape[2], t.shape[3]})
      .set_stride({t.strides[0], t.strides[1], t.strides[2], t.strides[3]});
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

using Key = std::vector<int64_t>;

void addTo(Key &key, const Tensor &t) {
  key.push_back(static_cast<int64_t>(t.type));
  for (unsigned d = 0; d < t.rank; ++d) {
    key.push_back(t.shape[d]);
    key.push_back(t.strides[d]);
  }
  key.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(t.data) % 16));
}

bool aligned(const Tensor &t) {
  bool fits = reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.strides[3] == 1;
  for (unsigned d = 0; d < 3; ++d)
    fits &= t.shape[d] == 1 || t.strides[d] % (16 / static_cast<int64_t>(sizeOf(t.type))) == 0;
  return fits;
}

} // namespace

struct CudnnAttention::Impl {
  struct Built {
    std::shared_ptr<fe::graph::Graph> graph; // null: refused
    size_t workspace = 0;
    int64_t batches = 0; // that one call covers
    std::string refusal;
  };
  using Pointers = std::unordered_map<int64_t, void *>;
  using Tensors = std::vector<std::pair<Id, const Tensor *>>;

  CUstream stream;
  Scratch &scratch;
  AttentionOptions options;
  cudnnHandle_t handle = nullptr;
  std::map<Key, Built> graphs;
  std::string refusal;

  Impl(CUstream stream, Scratch &scratch, const AttentionOptions &options)
      : stream(stream), scratch(scratch), options(options) {}
  ~Impl() {
    graphs.clear();
    if (handle)
      fe::detail::destroy_handle(handle);
  }

  void open() {
    if (handle)
      return;
    constexpr LibraryName name = {"libcudnn.so.9", "cuDNN", "libcudnn9-cuda-13 (or the wheel nvidia-cudnn-cu13)"};
    // By name the library and its frontend look for these; what was found here before is found there.
    openLibrary({"libcudart.so.13", "CUDA's runtime, which cuDNN needs", "cuda-cudart-13-0 or the CUDA 13 toolkit"});
    ::setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", "libcudart.so.13", 0);
    tryLibrary("libnvrtc.so.13");
    tryLibrary("libcublasLt.so.13");
    fe::cudnn_dlhandle = openLibrary(name);
    auto check = [](cudnnStatus_t status, const char *call) {
      if (status != CUDNN_STATUS_SUCCESS)
        failTryAgain("{} failed: {}; cuDNN {} may not fit this GPU or its driver", call,
                     fe::detail::get_error_string(status), fe::detail::get_backend_version());
    };
    try {
      check(fe::detail::create_handle(&handle), "cudnnCreate");
      check(fe::detail::set_stream(handle, reinterpret_cast<cudaStream_t>(stream)), "cudnnSetStream");
    } catch (const Error &) {
      throw;
    } catch (const std::exception &error) {
      failTryAgain("cuDNN cannot be used: {}", error.what());
    }
  }

  fe::graph::Graph empty(Type type) {
    fe::graph::Graph graph;
    graph.set_io_data_type(dataType(type))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    return graph;
  }

  void finish(Built &built, std::shared_ptr<fe::graph::Graph> graph) {
    try {
      int64_t workspace = 0;
      fe::error_t status = graph->build(handle, {fe::HeurMode_t::A});
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
  }

  Built buildForward(const AttentionArgs &args) {
    Built built;
    built.batches = args.q.shape[0];
    auto graph = std::make_shared<fe::graph::Graph>(empty(args.q.type));
    auto q = graph->tensor(heads(args.q, Q, built.batches)), k = graph->tensor(heads(args.k, K, built.batches)),
         v = graph->tensor(heads(args.v, V, built.batches));
    auto attributes = fe::graph::SDPA_attributes()
                          .set_name("attention")
                          .set_generate_stats(true)
                          .set_attn_scale(static_cast<float>(args.scale));
    mask(attributes, args);
    if (args.hasBias)
      attributes.set_bias(graph->tensor(biasOf(args.bias, built.batches)));
    auto [o, stats] = graph->sdpa(q, k, v, attributes);
    const auto wantedO = heads(args.o, O, built.batches), wantedStats = statistics(args.lse, built.batches);
    o->set_output(true).set_uid(O).set_dim(wantedO.get_dim()).set_stride(wantedO.get_stride());
    stats->set_output(true)
        .set_uid(Stats)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(wantedStats.get_dim())
        .set_stride(wantedStats.get_stride());
    finish(built, graph);
    return built;
  }

  Built buildBackward(const AttentionArgs &args) {
    Built built;
    const int64_t all = args.q.shape[0];
    auto up = [](int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; };
    const size_t perEntry =
        static_cast<size_t>(args.q.shape[2] * up(args.q.shape[1], 64) * up(args.k.shape[1], 128)) * 2;
    built.batches = all;
    // The largest part of the batch that fits and divides it.
    if (options.deterministic)
      while (built.batches > 1 &&
             (all % built.batches != 0 || static_cast<size_t>(built.batches) * perEntry > options.deterministicBytes))
        --built.batches;
    auto graph = std::make_shared<fe::graph::Graph>(empty(args.q.type));
    auto tensor = [&](const Tensor &t, Id id) { return graph->tensor(heads(t, id, built.batches)); };
    auto q = tensor(args.q, Q), k = tensor(args.k, K), v = tensor(args.v, V), o = tensor(args.o, O),
         dO = tensor(args.dO, DO);
    auto stats = graph->tensor(statistics(args.lse, built.batches));
    auto attributes = fe::graph::SDPA_backward_attributes()
                          .set_name("attention_grad")
                          .set_attn_scale(static_cast<float>(args.scale))
                          .set_deterministic_algorithm(options.deterministic);
    mask(attributes, args);
    if (args.hasBias)
      attributes.set_bias(graph->tensor(biasOf(args.bias, built.batches)));
    auto [dQ, dK, dV] = graph->sdpa_backward(q, k, v, o, dO, stats, attributes);
    auto output = [&](auto &to, const Tensor &t, Id id) {
      const auto wanted = heads(t, id, built.batches);
      to->set_output(true).set_uid(id).set_dim(wanted.get_dim()).set_stride(wanted.get_stride());
    };
    output(dQ, args.dQ, DQ);
    output(dK, args.dK, DK);
    output(dV, args.dV, DV);
    finish(built, graph);
    return built;
  }

  bool attend(const AttentionArgs &args, bool gradient, Tensors tensors) {
    for (auto [id, tensor] : tensors)
      if (!aligned(*tensor)) {
        refusal = "tensors are not aligned to 16 bytes, or not in sequence along the head";
        return false;
      }
    open();
    tensors.emplace_back(Stats, &args.lse);
    if (args.hasBias)
      tensors.emplace_back(Bias, &args.bias);
    Key key = {gradient, args.causal, args.hasBias, std::bit_cast<int64_t>(args.scale)};
    for (auto [id, tensor] : tensors)
      addTo(key, *tensor);
    auto [known, added] = graphs.try_emplace(std::move(key));
    if (added)
      known->second = gradient ? buildBackward(args) : buildForward(args);
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
      fe::error_t status = built.graph->execute(handle, pointers, workspace);
      if (status.is_bad())
        failInternal("cuDNN's attention failed: {}", status.get_message());
    }
    return true;
  }
};

bool CudnnAttention::builtIn() {
  return true;
}

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

bool CudnnAttention::builtIn() {
  return false;
}
bool CudnnAttention::forward(const AttentionArgs &) {
  return false;
}
bool CudnnAttention::backward(const AttentionArgs &) {
  return false;
}

} // namespace msamp::runtime::cuda

#endif

namespace msamp::runtime::cuda {

CudnnAttention::CudnnAttention([[maybe_unused]] CUstream stream, [[maybe_unused]] Scratch &scratch,
                               [[maybe_unused]] const AttentionOptions &options)
#ifdef MSAMP_HAVE_CUDNN
    : impl_(std::make_unique<Impl>(stream, scratch, options)){}
#else
    : impl_(std::make_unique<Impl>()) {
}
#endif

      CudnnAttention::~CudnnAttention() = default;

const std::string &CudnnAttention::refusal() const {
  return impl_->refusal;
}

} // namespace msamp::runtime::cuda
