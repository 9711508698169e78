// Convolutions of single images by oneDNN, prepared once for each shape.
#ifndef MSAMP_RUNTIME_DEVICE_CPU_CONVOLUTION_H
#define MSAMP_RUNTIME_DEVICE_CPU_CONVOLUTION_H

#include <map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "runtime/device/Device.h"

namespace msamp::runtime::cpu {

// One pass of a convolution over one image, all FP32. The image and its windows are as in ConvArgs; the filter is laid out as
// oneDNN likes best, `plainFilter` as in ConvArgs.
struct ImageConvolution {
  dnnl::primitive primitive;
  dnnl::reorder reorderFilter; // into the liked layout, or out of it for the filter's gradient
  dnnl::memory::desc image, filter, plainFilter, windows, scratchpad;
};

class Convolutions {
public:
  // On a thread that starts no others: oneDNN cuts its work for the threads that it finds here.
  const ImageConvolution &prepared(const ConvArgs &args);
  dnnl::memory memory(const dnnl::memory::desc &desc, const void *data) const {
    return {desc, engine_, const_cast<void *>(data)};
  }
  void run(const dnnl::primitive &primitive, const std::unordered_map<int, dnnl::memory> &arguments) const;

private:
  ImageConvolution make(const ConvArgs &args) const;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::map<std::vector<int64_t>, ImageConvolution> known_; // by pass and shapes
};

} // namespace msamp::runtime::cpu

#endif
