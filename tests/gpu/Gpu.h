// The little of the CUDA driver API that checking kernels takes; libcuda.so.1 is loaded at run time.
#ifndef MSAMP_TESTS_GPU_GPU_H
#define MSAMP_TESTS_GPU_GPU_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msamp::gputest {

using Address = uint64_t;

// A call that failed. After a lost one nothing works any more in this process.
struct GpuError : std::runtime_error {
  GpuError(const std::string &what, bool lost) : std::runtime_error(what), lost(lost) {}
  bool lost;
};

struct Launch {
  void *function = nullptr;
  unsigned gridX = 1, gridY = 1, block = 1, shared = 0;
};

class Gpu {
public:
  // Error if there is no driver or no device.
  Gpu();

  std::string name() const { return deviceName; }
  int capability() const { return computeCapability; } // times ten

  Address allocate(size_t bytes);
  void release(Address address);
  void upload(Address to, const void *from, size_t bytes);
  void download(void *to, Address from, size_t bytes);
  void copy(Address to, Address from, size_t bytes); // on the device, asynchronous
  void fill(Address to, uint8_t value, size_t bytes);

  void *loadModule(const std::string &image); // cubin or PTX
  void *function(void *module, const std::string &symbol);
  int registersOf(void *function);
  int localBytesOf(void *function);   // spills, and arrays that are not in registers
  void prepare(const Launch &launch); // for as much shared memory as it asks
  void launch(const Launch &launch, const std::vector<Address> &args);
  // Waits; a kernel that takes more than `seconds` is an error.
  void synchronize(double seconds = 20);

  // Microseconds of one call of `work`, which launches for the i-th time: the median of batches of at least `least` in
  // all.
  double microseconds(const std::function<void(int)> &work, int least);

private:
  void check(int result, const char *call);
  std::string deviceName;
  int computeCapability = 0;
  void *before = nullptr, *after = nullptr; // events
};

} // namespace msamp::gputest

#endif
