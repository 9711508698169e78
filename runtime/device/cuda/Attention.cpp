#include "runtime/device/cuda/Attention.h"

#include <algorithm>

#include "runtime/core/Error.h"
#include "runtime/device/cuda/kernels/AttentionArgs.h"

extern "C" const char msampFatbinAttentionFallback[];

namespace msamp::runtime::cuda {

namespace {

HeadsView viewOf(const Tensor &tensor) {
  HeadsView view;
  view.data = tensor.data;
  view.type = tensor.type;
  for (unsigned d = 0; d < 4; ++d)
    view.strides[d] = tensor.shape[d] == 1 ? 0 : tensor.strides[d];
  return view;
}

AttentionKernelArgs kernelArgs(const AttentionArgs &args) {
  AttentionKernelArgs a;
  a.batches = args.q.shape[0];
  a.queries = args.q.shape[1];
  a.heads = args.q.shape[2];
  a.width = args.q.shape[3];
  a.keys = args.k.shape[1];
  a.groups = args.k.shape[2];
  a.valueWidth = args.v.shape[3];
  if (args.q.rank != 4 || args.k.rank != 4 || args.v.rank != 4 || a.groups <= 0 || a.heads % a.groups != 0 ||
      args.v.shape[1] != a.keys || args.v.shape[2] != a.groups || args.k.shape[3] != a.width)
    failInternal("attention of shapes that do not fit");
  a.scale = static_cast<float>(args.scale);
  a.causal = args.causal;
  a.q = viewOf(args.q);
  a.k = viewOf(args.k);
  a.v = viewOf(args.v);
  a.o = viewOf(args.o);
  if (args.hasBias)
    a.bias = viewOf(args.bias);
  a.lse = reinterpret_cast<float *>(args.lse.data);
  std::copy_n(args.lse.strides, 3, a.lseStrides);
  return a;
}

// A warp a row, with its floats of shared memory.
void launchRows(CUstream stream, Module &module, const char *symbol, int64_t rows, int64_t floats,
                const AttentionKernelArgs &args) {
  constexpr int64_t limit = 48 * 1024 / sizeof(float);
  const int64_t warps = std::min<int64_t>(4, limit / floats);
  if (warps == 0)
    failData("attention with heads of {} and {} values is more than the GPU kernels hold", args.width, args.valueWidth);
  if (rows > 0)
    launch(stream, module.function(symbol), static_cast<unsigned>((rows + warps - 1) / warps), 1,
           static_cast<unsigned>(warps * 32), static_cast<unsigned>(warps * floats * 4), args);
}

} // namespace

Attention::Attention(CUstream stream, Scratch &scratch, Cudnn &cudnn, AttentionOptions options)
    : stream_(stream), scratch_(scratch), options_(options), cudnn_(cudnn, scratch, options) {}

bool Attention::forLibrary(const AttentionArgs &args) {
  const Type type = args.q.type;
  return options_.library && Cudnn::builtIn() && (type == Type::BF16 || type == Type::F16) &&
         args.k.type == type && args.v.type == type && args.o.type == type && args.q.elements() > 0 &&
         args.k.elements() > 0 && args.v.elements() > 0;
}

void Attention::forward(const AttentionArgs &args) {
  const AttentionKernelArgs a = kernelArgs(args);
  if (forLibrary(args)) {
    if (cudnn_.forward(args))
      return;
    tellSlowerWay("an attention", cudnn_.refusal());
  }
  if (!module_)
    module_ = Module(msampFatbinAttentionFallback, "kernels/AttentionFallback.cu");
  launchRows(stream_, module_, "msampAttention", a.batches * a.heads * a.queries, a.width + a.valueWidth + 32, a);
}

void Attention::backward(const AttentionArgs &args) {
  AttentionKernelArgs a = kernelArgs(args);
  const Type type = args.q.type;
  if (forLibrary(args) && args.dO.type == type && args.dQ.type == type && args.dK.type == type &&
      args.dV.type == type) {
    if (cudnn_.backward(args))
      return;
    tellSlowerWay("an attention", cudnn_.refusal());
  }
  if (!module_)
    module_ = Module(msampFatbinAttentionFallback, "kernels/AttentionFallback.cu");
  a.dO = viewOf(args.dO);
  a.dQ = viewOf(args.dQ);
  a.dK = viewOf(args.dK);
  a.dV = viewOf(args.dV);
  const int64_t rows = a.batches * a.heads * a.queries;
  a.delta = reinterpret_cast<float *>(scratch_.get(static_cast<size_t>(std::max<int64_t>(rows, 1)) * sizeof(float)));
  launchRows(stream_, module_, "msampAttentionGradQuery", rows, 2 * a.width + a.valueWidth + 32, a);
  launchRows(stream_, module_, "msampAttentionGradKey", a.batches * a.groups * a.keys,
             2 * a.width + 2 * a.valueWidth + 64, a);
}

} // namespace msamp::runtime::cuda
