#include "runtime/device/cuda/Scratch.h"

#include "runtime/core/Error.h"

namespace msamp::runtime::cuda {

bool isCapturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  MSAMP_CU(cuStreamIsCapturing, stream, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Scratch::~Scratch() {
  for (const Block &block : blocks_)
    Driver::get().cuMemFree(block.data);
}

size_t Scratch::bytes() const {
  size_t sum = 0;
  for (const Block &block : blocks_)
    sum += block.bytes;
  return sum;
}

std::byte *Scratch::get(size_t bytes) {
  const bool capturing = isCapturing(stream_);
  if (blocks_.empty() || blocks_.back().bytes < bytes) {
    if (capturing)
      failInternal("a captured step needs {} bytes of scratch memory; it must run once before it is captured", bytes);
    if (!blocks_.empty() && !captured_) {
      MSAMP_CU(cuStreamSynchronize, stream_);
      MSAMP_CU(cuMemFree, blocks_.back().data);
      blocks_.pop_back();
    }
    constexpr size_t unit = 2 << 20; // what the driver hands out
    const size_t rounded = (bytes + unit - 1) / unit * unit;
    blocks_.push_back({allocateMemory(rounded, "the scratch memory of library calls"), rounded});
    captured_ = false;
  }
  captured_ |= capturing;
  return reinterpret_cast<std::byte *>(blocks_.back().data);
}

} // namespace msamp::runtime::cuda
