// The world of one rank, and the choice of a back end for more.
#include <cstring>

#include "runtime/comm/Communicator.h"
#include "runtime/core/Modules.h"

namespace msamp::runtime {

namespace {

class SingleCommunicator final : public Communicator {
public:
  unsigned rank() const override { return 0; }
  unsigned size() const override { return 1; }
  void allToAll(const void *send, std::span<const size_t> sendOffsets, std::span<const size_t> sendBytes, void *receive,
      std::span<const size_t> receiveOffsets, std::span<const size_t>) override {
    if (sendBytes[0] > 0)
      std::memmove(static_cast<std::byte *>(receive) + receiveOffsets[0], static_cast<const std::byte *>(send) + sendOffsets[0],
          sendBytes[0]);
  }
  void allGather(void *, std::span<const size_t>, std::span<const size_t>) override {}
  void barrier() override {}
};

} // namespace

std::unique_ptr<Communicator> makeSingleCommunicator() { return std::make_unique<SingleCommunicator>(); }

std::unique_ptr<Communicator> makeCommunicator(const CommOptions &options) {
  if (options.size == 1)
    return makeSingleCommunicator();
  using Create = Communicator *(const CommOptions *);
  auto *create = reinterpret_cast<Create *>(moduleSymbol("msamp_comm_" + options.backend, "msampCreateCommunicator"));
  return std::unique_ptr<Communicator>(create(&options));
}

} // namespace msamp::runtime
