// Device memory for the inside of a step, shared by all steps of one stream; grows to what the largest asks for.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_SCRATCH_H
#define MSAMP_RUNTIME_DEVICE_CUDA_SCRATCH_H

#include "runtime/device/cuda/Driver.h"

#include <cstddef>
#include <vector>

namespace msamp::runtime::cuda {

class Scratch {
public:
  explicit Scratch(CUstream stream) : stream_(stream) {}
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  // Aligned to 256; its contents last until the next step. Memory that a captured graph may use stays until the end.
  // Error 70 if it has to grow while the stream is captured: what is captured must have run once before.
  std::byte *get(size_t bytes);
  size_t bytes() const;

private:
  struct Block {
    CUdeviceptr data;
    size_t bytes;
  };
  CUstream stream_;
  std::vector<Block> blocks_; // the last one is in use
  bool captured_ = false;     // a graph holds the address of the last one
};

bool isCapturing(CUstream stream);

// Parts of one piece of memory, one after the other, aligned to 256.
class Parts {
public:
  size_t add(size_t bytes) {
    const size_t offset = total_;
    total_ += (bytes + 255) / 256 * 256;
    return offset;
  }
  size_t total() const { return total_; }

private:
  size_t total_ = 0;
};

} // namespace msamp::runtime::cuda

#endif
