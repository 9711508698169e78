#include "runtime/device/cuda/CudaDevice.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/core/Convert.h"
#include "runtime/core/Error.h"
#include "runtime/device/Targets.h"

extern "C" const unsigned char msampFatbinStepControl[], msampFatbinTensors[];

namespace msamp::runtime::cuda {

//===--- Context -------------------------------------------------------------------------------------------------------===//

Context::Context(unsigned index) {
  int count = 0;
  MSAMP_CU(cuDeviceGetCount, &count);
  if (index >= static_cast<unsigned>(count))
    failTryAgain("GPU {} was asked for, but this process sees {}; check CUDA_VISIBLE_DEVICES, start fewer ranks with --nproc, or say with "
        "--gpus which GPU each rank has",
        index, count);
  MSAMP_CU(cuDeviceGet, &device, static_cast<int>(index));
  int major = 0, minor = 0, units = 0;
  MSAMP_CU(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  MSAMP_CU(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  MSAMP_CU(cuDeviceGetAttribute, &units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  capability = major * 10 + minor;
  processors = static_cast<unsigned>(units);
  char text[256] = {};
  MSAMP_CU(cuDeviceGetName, text, static_cast<int>(sizeof text), device);
  name = text;
  if (capability < 80)
    failTryAgain("{} has compute capability {}.{}; 8.0 (A100) or newer is needed", name, major, minor);
  CUcontext context = nullptr;
  MSAMP_CU(cuDevicePrimaryCtxRetain, &context, device);
  MSAMP_CU(cuCtxSetCurrent, context);
  // What others wait for goes first where both could run.
  int least = 0, greatest = 0;
  MSAMP_CU(cuCtxGetStreamPriorityRange, &least, &greatest);
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    MSAMP_CU(cuStreamCreateWithPriority, &lanes[lane], CU_STREAM_NON_BLOCKING, lane == 0 ? least : greatest);
  stream = lanes[static_cast<size_t>(Lane::Compute)];
}

Context::~Context() {
  for (CUstream lane : lanes)
    Driver::get().cuStreamDestroy(lane);
  Driver::get().cuDevicePrimaryCtxRelease(device);
}

//===--- Memory --------------------------------------------------------------------------------------------------------===//

CudaDevice::CudaDevice(const DeviceOptions &options)
    : context_(options.index), pool_(options.threads > 0 ? options.threads : 1), scratch_(context_.stream),
      control_(msampFatbinStepControl, "of a step's control"), tensors_(msampFatbinTensors, "for tensors"),
      matmul_(context_.device, context_.stream, scratch_, {.tuningFile = MatMulTuning::fileIn(options.cacheFolder)}),
      cudnn_(context_.stream), attention_(context_.stream, scratch_, cudnn_, {.deterministic = options.deterministic}),
      convolution_(context_.stream, scratch_, cudnn_, windows_) {}

CudaDevice::~CudaDevice() {
  const Driver &driver = Driver::get();
  forgetSequences();
  for (CUevent event : events_)
    driver.cuEventDestroy(event);
  for (CUevent event : moments_)
    if (event)
      driver.cuEventDestroy(event);
  for (auto &[value, place] : constants_)
    driver.cuMemFree(reinterpret_cast<CUdeviceptr>(place));
}

std::string CudaDevice::description() const {
  return fmt::format("cuda, {}, sm_{}, {} multiprocessors", context_.name, context_.capability, context_.processors);
}

void *CudaDevice::allocate(size_t bytes) {
  if (bytes == 0)
    return nullptr;
  const CUdeviceptr data = allocateMemory(bytes, "the plan");
  MSAMP_CU(cuMemsetD8Async, data, 0, bytes, context_.stream);
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
  return reinterpret_cast<void *>(data);
}

// Of memory that is to be released: all lanes join Compute, but inputs may still be on their way.
void CudaDevice::awaitUsers() {
  for (Lane lane : {Lane::Compute, Lane::Input})
    Driver::get().cuStreamSynchronize(context_.lanes[static_cast<size_t>(lane)]);
}

void CudaDevice::release(void *data, size_t bytes) {
  if (!data)
    return;
  awaitUsers();
  Driver::get().cuMemFree(reinterpret_cast<CUdeviceptr>(data));
  allocated_ -= bytes;
}

void *CudaDevice::allocateStaging(size_t bytes) {
  void *data = nullptr;
  if (bytes > 0) {
    if (Driver::get().cuMemAllocHost(&data, bytes) != CUDA_SUCCESS)
      failTryAgain("{} bytes of pinned memory of the host could not be had for inputs on their way to the GPU; free some, or "
                   "compile with a smaller batch (--dim)",
          bytes);
    std::memset(data, 0, bytes);
  }
  return data;
}

void CudaDevice::releaseStaging(void *data, size_t) {
  if (!data)
    return;
  awaitUsers();
  Driver::get().cuMemFreeHost(data);
}

void CudaDevice::upload(void *destination, const void *source, size_t bytes) {
  MSAMP_CU(cuMemcpyHtoDAsync, reinterpret_cast<CUdeviceptr>(destination), source, bytes, lane_);
}

void CudaDevice::download(void *destination, const void *source, size_t bytes) {
  MSAMP_CU(cuMemcpyDtoHAsync, destination, reinterpret_cast<CUdeviceptr>(source), bytes, context_.stream);
  MSAMP_CU(cuStreamSynchronize, context_.stream);
}

void CudaDevice::copyBytes(void *destination, const void *source, size_t bytes) {
  MSAMP_CU(cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(destination), reinterpret_cast<CUdeviceptr>(source), bytes,
      lane_);
}

Moment CudaDevice::moment() {
  const Moment taken = nextMoment_;
  nextMoment_ = (nextMoment_ + 1) % inputsArrived;
  take(taken);
  return taken;
}

void CudaDevice::take(Moment moment) {
  CUevent &event = moments_.at(moment);
  if (!event)
    MSAMP_CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  MSAMP_CU(cuEventRecord, event, lane_);
}

void CudaDevice::waitFor(Moment moment) {
  if (moments_.at(moment))
    MSAMP_CU(cuStreamWaitEvent, lane_, moments_[moment], CU_EVENT_WAIT_DEFAULT);
}

DeviceMemory CudaDevice::memory() const {
  size_t free = 0, total = 0;
  MSAMP_CU(cuMemGetInfo, &free, &total);
  DeviceMemory memory;
  memory.peak = peak_;
  memory.libraries = scratch_.bytes() + matmul_.bytes();
  const uint64_t used = total - free;
  memory.context = used > allocated_ + memory.libraries ? used - allocated_ - memory.libraries : 0;
  memory.total = total;
  return memory;
}

//===--- Kernels of the plan ---------------------------------------------------------------------------------------------===//

size_t CudaDevice::chooseTarget(std::span<const std::string> targets) const {
  if (std::optional<size_t> found = targetForGpu(targets, context_.capability))
    return *found;
  const int capability = context_.capability;
  failData("the plan is for {}, and {} is an sm_{}; compile it with --target {}", fmt::join(targets, ", "), context_.name, capability,
      targetsWith(targets, capability == 90 ? "sm_90a" : capability == 100 ? "sm_100a" : "sm_80"));
}

void CudaDevice::loadKernels(std::span<const std::string> files, std::span<const KernelRef> kernels) {
  // A cubin runs on its generation alone; PTX of an older one the driver compiles.
  const std::string *chosen = nullptr;
  for (const std::string &file : files) {
    const std::filesystem::path name = std::filesystem::path(file).filename();
    const bool cubin = name.extension() == ".cubin" && std::atoi(name.c_str() + 3) / 10 == context_.capability / 10;
    if (cubin || (name.extension() == ".ptx" && !chosen))
      chosen = &file;
  }
  if (!chosen)
    failData("the plan has no file of kernels for {}; compile it again", context_.name);
  std::ifstream in(*chosen, std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(in), {});
  if (!in)
    failIo("cannot read {}", *chosen);
  kernelModule_ = Module(image.c_str(), *chosen);
  kernels_.clear();
  for (const KernelRef &kernel : kernels) {
    if (kernel.entries.empty())
      failData("{}: kernel {} has no launch for a GPU; compile the plan again", *chosen, kernel.symbol);
    std::vector<Entry> &entries = kernels_.emplace_back();
    for (const KernelEntry &entry : kernel.entries)
      entries.push_back(entryOf(entry));
  }
}

CudaDevice::Entry CudaDevice::entryOf(const KernelEntry &entry) {
  return {kernelModule_.function(entry.symbol, entry.sharedBytes), entry};
}

void CudaDevice::launch(unsigned kernel, std::span<void *const> args) {
  std::vector<void *> pointers;
  for (void *const &arg : args)
    pointers.push_back(const_cast<void **>(&arg));
  for (const Entry &entry : kernels_.at(kernel))
    MSAMP_CU(cuLaunchKernel, entry.function, entry.shape.gridX, std::max(1u, entry.shape.gridY), 1, entry.shape.block, 1, 1,
        entry.shape.sharedBytes, context_.stream, pointers.data(), nullptr);
}

unsigned CudaDevice::loadUpdateKernel(const UpdateKernelRef &kernel) {
  updates_.emplace_back(entryOf(kernel.entry), std::max(1u, kernel.blocksPerCta));
  return static_cast<unsigned>(updates_.size() - 1);
}

const int64_t *CudaDevice::constantOf(int64_t value) {
  auto [known, added] = constants_.try_emplace(value, nullptr);
  if (added) {
    if (isCapturing(context_.stream))
      failInternal("an update of {} blocks was recorded before it had run once", value);
    const CUdeviceptr place = allocateMemory(sizeof value, "a kernel's argument");
    MSAMP_CU(cuMemcpyHtoDAsync, place, &value, sizeof value, context_.stream);
    known->second = reinterpret_cast<const int64_t *>(place);
  }
  return known->second;
}

void CudaDevice::update(unsigned kernel, const StepTables &t, const UpdateArgs &a) {
  const auto &[entry, blocksPerCta] = updates_.at(kernel);
  const int64_t *blocks = constantOf(a.blocks);
  const auto grid = static_cast<unsigned>((a.blocks + blocksPerCta - 1) / blocksPerCta);
  // In the order of codegen/cuda/UpdateKernel.h.
  cuda::launch(context_.stream, entry.function, grid, 1, entry.shape.block, entry.shape.sharedBytes, a.weight, a.master, a.grad,
      a.gradBlockScale, a.m, a.mBlockScale, a.v, a.vBlockScale, a.owner, t.gradScale, t.weightScale, t.newWeightScale,
      t.masterScale, t.newMasterScale, t.newAmax, &t.state->kernelHyper[0], blocks);
}

// The first time steps run as they are asked for, since libraries choose and allocate then; the second time they are
// recorded.
void CudaDevice::sequence(const std::string &key, const std::function<void()> &steps) {
  Recording &recording = recordings_[key];
  if (!recording.ran) {
    steps();
    recording.ran = true;
    return;
  }
  if (!recording.graph) {
    CUgraph graph = nullptr;
    MSAMP_CU(cuStreamBeginCapture, context_.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    try {
      steps();
    } catch (...) {
      Driver::get().cuStreamEndCapture(context_.stream, &graph);
      if (graph)
        Driver::get().cuGraphDestroy(graph);
      throw;
    }
    MSAMP_CU(cuStreamEndCapture, context_.stream, &graph);
    const CUresult result = Driver::get().cuGraphInstantiateWithFlags(&recording.graph, graph, 0);
    Driver::get().cuGraphDestroy(graph);
    check(result, "cuGraphInstantiateWithFlags");
  }
  MSAMP_CU(cuGraphLaunch, recording.graph, context_.stream);
}

void CudaDevice::forgetSequences() {
  Driver::get().cuStreamSynchronize(context_.stream);
  for (auto &[key, recording] : recordings_)
    if (recording.graph)
      Driver::get().cuGraphExecDestroy(recording.graph);
  recordings_.clear();
}

//===--- The host's part -----------------------------------------------------------------------------------------------===//

void CudaDevice::decode(Type type, const void *source, float *destination, int64_t count) const {
  decodeFloats(type, source, destination, count);
}

void CudaDevice::encode(Type type, const float *source, void *destination, int64_t count) const {
  encodeFloats(type, source, destination, count);
}

float CudaDevice::largestMagnitude(const float *values, int64_t count) const {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, bitsOf(values[i]) & 0x7fffffffu);
  return floatOf(largest);
}

void CudaDevice::parallel(int64_t count, const std::function<void(int64_t)> &body) {
  pool_.run(count, [&](int64_t i, unsigned) { body(i); });
}

//===--- Moments -------------------------------------------------------------------------------------------------------===//

void CudaDevice::mark(unsigned index) {
  while (events_.size() <= index)
    MSAMP_CU(cuEventCreate, &events_.emplace_back(), CU_EVENT_DEFAULT);
  MSAMP_CU(cuEventRecordWithFlags, events_[index], lane_,
      isCapturing(lane_) ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT);
}

std::vector<double> CudaDevice::marks(unsigned count) {
  std::vector<double> seconds;
  MSAMP_CU(cuStreamSynchronize, context_.stream);
  for (unsigned i = 0; i < count; ++i) {
    float milliseconds = 0;
    MSAMP_CU(cuEventElapsedTime, &milliseconds, events_.at(0), events_.at(i));
    seconds.push_back(static_cast<double>(milliseconds) * 1e-3);
  }
  return seconds;
}

} // namespace msamp::runtime::cuda

extern "C" msamp::runtime::Device *msampCreateDevice(const msamp::runtime::DeviceOptions *options) {
  return new msamp::runtime::cuda::CudaDevice(*options);
}
