// Collectives between the ranks of a job. One back end a shared module; one rank needs none.
#ifndef MSAMP_RUNTIME_COMM_COMMUNICATOR_H
#define MSAMP_RUNTIME_COMM_COMMUNICATOR_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace msamp::runtime {

// Data is in the memory of the device that the back end serves. All calls are collective: every rank makes the same ones in the same order. A lost or silent peer is Error 75 that says
// which rank; after it the communicator is of no more use. Reductions add in the order of ranks, so all ranks get the
// same bits.
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual unsigned rank() const = 0;
  virtual unsigned size() const = 0;

  // Rank r gets send[sendOffsets[r] .. + sendBytes[r]); what rank r sent here lands at recv[recvOffsets[r] ..].
  virtual void allToAll(const void *send, std::span<const size_t> sendOffsets, std::span<const size_t> sendBytes,
      void *receive, std::span<const size_t> receiveOffsets, std::span<const size_t> receiveBytes) = 0;
  // In place: rank r's bytes lie at data[offsets[r] .. + bytes[r]) on rank r before, on all ranks afterwards.
  virtual void allGather(void *data, std::span<const size_t> offsets, std::span<const size_t> bytes) = 0;
  // Calls of the two above, none of which needs another's result: they may travel as one.
  virtual void together(const std::function<void()> &calls) { calls(); }
  virtual void barrier() = 0;

  // Built on allGather, for memory that the host can read.
  virtual void allReduceMax(std::span<float> values);
  virtual void allReduceSum(std::span<double> values); // in the order of ranks
  // `value` of rank r at out[r]; host memory.
  virtual void allGatherValue(double value, std::span<double> out);
};

// A world of one.
std::unique_ptr<Communicator> makeSingleCommunicator();

struct CommOptions {
  std::string backend = "gloo";   // module lib/msamp_comm_BACKEND.so beside the program's folder
  unsigned rank = 0, size = 1;
  std::string rendezvous;         // folder shared by the ranks
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};
  bool sharesGpu = false;         // nccl: some ranks have the same GPU
  void *stream = nullptr;         // nccl: the CUstream of the device whose memory is exchanged; its context is current
};

// Size 1 gives the single communicator. Error 75 if the peers do not come, 70 if the module cannot be loaded.
std::unique_ptr<Communicator> makeCommunicator(const CommOptions &options);

} // namespace msamp::runtime

#endif
