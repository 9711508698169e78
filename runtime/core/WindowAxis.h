// Windows along one dimension of an image, for convolutions and pools: how many there are, and where they lie. Compiler and
// runtime judge by the same rules.
#ifndef MSAMP_RUNTIME_CORE_WINDOWAXIS_H
#define MSAMP_RUNTIME_CORE_WINDOWAXIS_H

#include <cstdint>

namespace msamp::runtime {

// In positions; `low` and `high` are padding before and behind the image.
struct WindowAxis {
  int64_t extent, size, stride, low, high, dilation;

  // From the first tap of a window to behind its last.
  int64_t reach() const { return (size - 1) * dilation + 1; }
  // How far the first window can move; negative: it does not fit.
  int64_t room() const { return extent + low + high - reach(); }
  int64_t count() const { return room() < 0 ? 0 : room() / stride + 1; }
  // With one more that leaves the padding by less than it moves and begins before the image ends (ceil_mode of ONNX).
  int64_t countBeyond() const {
    const int64_t n = count();
    const bool rest = n == 0 ? room() > -stride : room() % stride != 0;
    return rest && n * stride < extent + low ? n + 1 : n;
  }
  // The first of so many windows that lies in padding alone; -1: each touches the image.
  int64_t firstInPadding(int64_t windows) const {
    for (int64_t w = 0; w < windows; ++w) {
      const int64_t first = w * stride - low;
      // The first tap that is not before the image.
      const int64_t tap = first < 0 ? (-first + dilation - 1) / dilation : 0;
      if (tap >= size || first + tap * dilation >= extent)
        return w;
    }
    return -1;
  }
};

} // namespace msamp::runtime

#endif
