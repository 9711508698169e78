// The largest value or the mean of each window of an image, and their gradients; all channels of a position at a time.
#include <algorithm>
#include <cstring>

#include "runtime/core/Error.h"
#include "runtime/device/cpu/CpuDevice.h"

namespace msamp::runtime::cpu {

namespace {

// Windows with three dimensions, whatever there are: missing ones come first and are of one position.
struct Grid {
  int64_t channels, in[3], out[3], size[3], stride[3], low[3], high[3], dilation[3];

  explicit Grid(const PoolArgs &args) : channels(args.x.shape[args.x.rank - 1]) {
    const unsigned missing = 3 - args.window.rank;
    for (unsigned d = 0; d < 3; ++d) {
      const bool there = d >= missing;
      const unsigned i = there ? d - missing : 0;
      in[d] = there ? args.x.shape[i + 1] : 1;
      out[d] = there ? args.y.shape[i + 1] : 1;
      size[d] = there ? args.window.size[i] : 1;
      stride[d] = there ? args.window.strides[i] : 1;
      low[d] = there ? args.window.low[i] : 0;
      high[d] = there ? args.window.high[i] : 0;
      dilation[d] = there ? args.window.dilations[i] : 1;
    }
  }
  int64_t positions() const { return in[0] * in[1] * in[2]; }
  int64_t windows() const { return out[0] * out[1] * out[2]; }

  // visit(position, tap) for each tap of a window that is on the image, in row-major order.
  template <class Visit> void taps(int64_t window, Visit &&visit) const {
    const int64_t at[3] = {window / (out[1] * out[2]) * stride[0] - low[0], window / out[2] % out[1] * stride[1] - low[1],
        window % out[2] * stride[2] - low[2]};
    auto on = [&](int d, int64_t tap, int64_t &position) {
      position = at[d] + tap * dilation[d];
      return position >= 0 && position < in[d];
    };
    int64_t p[3];
    for (int64_t i = 0; i < size[0]; ++i)
      for (int64_t j = 0; on(0, i, p[0]) && j < size[1]; ++j)
        for (int64_t k = 0; on(1, j, p[1]) && k < size[2]; ++k)
          if (on(2, k, p[2]))
            visit((p[0] * in[1] + p[1]) * in[2] + p[2], (i * size[1] + j) * size[2] + k);
  }

  // What the mean of a window divides by.
  float count(int64_t window, bool padding) const {
    const int64_t at[3] = {window / (out[1] * out[2]), window / out[2] % out[1], window % out[2]};
    int64_t count = 1;
    for (int d = 0; d < 3; ++d) {
      int64_t along = 0;
      for (int64_t tap = 0; tap < size[d]; ++tap) {
        const int64_t position = at[d] * stride[d] - low[d] + tap * dilation[d];
        along += position >= (padding ? -low[d] : 0) && position < in[d] + (padding ? high[d] : 0);
      }
      count *= along;
    }
    return static_cast<float>(count);
  }
};

// Windows that go to one grab of a thread.
constexpr int64_t grain = 16;

} // namespace

void CpuDevice::pool(const PoolArgs &args) {
  const Grid grid(args);
  const int64_t images = args.x.shape[0], channels = grid.channels, windows = grid.windows();
  const size_t sizeX = sizeOf(args.x.type), sizeY = sizeOf(args.y.type);
  auto widen = ops_.decode[static_cast<size_t>(args.gradient ? args.y.type : args.x.type)];
  auto narrow = ops_.encode[static_cast<size_t>(args.gradient ? args.x.type : args.y.type)];
  auto xAt = [&](int64_t image, int64_t position) {
    return args.x.data + static_cast<size_t>((image * grid.positions() + position) * channels) * sizeX;
  };
  auto yAt = [&](int64_t image, int64_t window) {
    return args.y.data + static_cast<size_t>((image * windows + window) * channels) * sizeY;
  };
  auto tapAt = [&](int64_t image, int64_t window) {
    return reinterpret_cast<uint8_t *>(args.tap.data) + (image * windows + window) * channels;
  };

  if (!args.gradient) {
    pool_.run((images * windows + grain - 1) / grain, [&](int64_t part, unsigned thread) {
      float *best = scratch_[thread].get(static_cast<size_t>(2 * channels)), *value = best + channels;
      for (int64_t i = part * grain; i < std::min(images * windows, (part + 1) * grain); ++i) {
        const int64_t image = i / windows, window = i % windows;
        uint8_t *taken = args.largest ? tapAt(image, window) : nullptr;
        bool first = true;
        std::fill_n(best, channels, 0.0f);
        grid.taps(window, [&](int64_t position, int64_t tap) {
          widen(xAt(image, position), value, channels);
          if (!args.largest) {
            ops_.add(best, value, channels);
            return;
          }
          for (int64_t c = 0; c < channels; ++c)
            if (first || value[c] > best[c] || (value[c] != value[c] && best[c] == best[c])) {
              best[c] = value[c];
              taken[c] = static_cast<uint8_t>(tap);
            }
          first = false;
        });
        if (!args.largest)
          ops_.scale(best, 1.0f / grid.count(window, args.countPadding), channels);
        narrow(best, yAt(image, window), channels);
      }
    });
    return;
  }

  // The windows of an image in order, so that sums are always the same.
  pool_.run(images, [&](int64_t image, unsigned thread) {
    const int64_t values = grid.positions() * channels;
    float *scratch = scratch_[thread].get(static_cast<size_t>(channels + (args.x.type == Type::F32 ? 0 : values)));
    float *dY = scratch, *dX = args.x.type == Type::F32 ? reinterpret_cast<float *>(xAt(image, 0)) : scratch + channels;
    std::fill_n(dX, values, 0.0f);
    for (int64_t window = 0; window < windows; ++window) {
      widen(yAt(image, window), dY, channels);
      if (!args.largest) {
        ops_.scale(dY, 1.0f / grid.count(window, args.countPadding), channels);
        grid.taps(window, [&](int64_t position, int64_t) { ops_.add(dX + position * channels, dY, channels); });
        continue;
      }
      const uint8_t *taken = tapAt(image, window);
      grid.taps(window, [&](int64_t position, int64_t tap) {
        for (int64_t c = 0; c < channels; ++c)
          if (taken[c] == tap)
            dX[position * channels + c] += dY[c];
      });
    }
    if (args.x.type != Type::F32)
      narrow(dX, xAt(image, 0), values);
  });
}

} // namespace msamp::runtime::cpu
