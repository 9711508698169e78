#include "runtime/device/cuda/Convolution.h"

#include <algorithm>

#include "runtime/core/Error.h"

extern "C" const char msampFatbinWindows[];

namespace msamp::runtime::cuda {

WindowGrid gridOf(const Window &window, const Tensor &x, const Tensor &y) {
  WindowGrid grid;
  grid.images = x.shape[0];
  const unsigned missing = 3 - window.rank;
  for (unsigned d = 0; d < 3; ++d) {
    auto value = [&](const int64_t *list, int64_t otherwise) {
      return static_cast<int32_t>(d >= missing ? list[d - missing] : otherwise);
    };
    grid.in[d] = value(x.shape + 1, 1);
    grid.out[d] = value(y.shape + 1, 1);
    grid.size[d] = value(window.size, 1);
    grid.stride[d] = value(window.strides, 1);
    grid.low[d] = value(window.low, 0);
    grid.high[d] = value(window.high, 0);
    grid.dilation[d] = value(window.dilations, 1);
  }
  return grid;
}

CUfunction windowKernel(Module &module, const char *symbol) {
  if (!module)
    module = Module(msampFatbinWindows, "kernels/Windows.cu");
  return module.function(symbol);
}

void Convolution::run(const ConvArgs &args) {
  const Type type = args.x.type;
  // Filters' gradients that are summed over micro-batches are FP32. cuDNN chooses kernels that move 16 bytes at a time.
  auto aligned = [](const Tensor &t) { return reinterpret_cast<uintptr_t>(t.data) % 16 == 0; };
  const bool fits = args.y.type == type && aligned(args.x) && aligned(args.filter) && aligned(args.y) &&
                    (args.filter.type == type ||
                     (args.pass == ConvPass::FilterGradient && args.filter.type == Type::F32));
  if (Cudnn::builtIn() && fits && (type == Type::BF16 || type == Type::F16 || type == Type::F32)) {
    if (cudnn_.run(args))
      return;
    tellSlowerWay("a convolution", cudnn_.refusal());
  }
  ConvKernelArgs k{gridOf(args.window, args.x, args.y), args.x.data, args.filter.data, args.y.data, type,
                   args.filter.type, args.y.type, args.x.shape[args.x.rank - 1], args.y.shape[args.y.rank - 1],
                   args.groups};
  const bool filter = args.pass == ConvPass::FilterGradient;
  const char *symbol = filter                                   ? "msampConvFilterGradient"
                       : args.pass == ConvPass::ImageGradient ? "msampConvImageGradient"
                                                                : "msampConv";
  const Tensor &result = filter ? args.filter : args.pass == ConvPass::ImageGradient ? args.x : args.y;
  const int64_t blocks = filter ? result.elements() : (result.elements() + 255) / 256;
  constexpr int64_t most = 0x7fffffff;
  launch(stream_, windowKernel(module_, symbol), static_cast<unsigned>(std::min(blocks, most)), 1, 256, 0, k);
}

} // namespace msamp::runtime::cuda
