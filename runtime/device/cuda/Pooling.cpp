// Pools by kernels of our own.
#include <algorithm>

#include "runtime/core/Error.h"
#include "runtime/device/cuda/CudaDevice.h"

namespace msamp::runtime::cuda {

void CudaDevice::pool(const PoolArgs &args) {
  const Type type = args.x.type;
  if (args.y.type != type || (type != Type::F32 && type != Type::BF16 && type != Type::F16))
    failInternal("a pool of {} and {} values was asked for", nameOf(type), nameOf(args.y.type));
  PoolKernelArgs k{gridOf(args.window, args.x, args.y), args.x.data, args.y.data,
      args.largest ? reinterpret_cast<uint8_t *>(args.tap.data) : nullptr, args.x.shape[args.x.rank - 1], args.largest,
      args.countPadding};
  // Sixteen bytes of channels a thread, where they begin at multiples of that.
  const auto wide = static_cast<int64_t>(16 / sizeOf(type));
  const auto places = reinterpret_cast<uintptr_t>(k.x) | reinterpret_cast<uintptr_t>(k.y) | reinterpret_cast<uintptr_t>(k.tap);
  const bool isWide = k.channels % wide == 0 && places % 16 == 0;
  const std::string symbol = std::string(args.gradient ? "msampPoolGradient" : "msampPool") +
                             (type == Type::F32 ? "F32" : type == Type::BF16 ? "BF16" : "F16") + (isWide ? "Wide" : "");
  const int64_t threads = (args.gradient ? args.x : args.y).elements() / (isWide ? wide : 1);
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((threads + 255) / 256, 0x7fffffff));
  cuda::launch(context_.stream, windowKernel(windows_, symbol.c_str()), blocks, 1, 256, 0, k);
}

} // namespace msamp::runtime::cuda
