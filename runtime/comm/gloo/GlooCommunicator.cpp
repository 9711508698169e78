// Collectives over Gloo's TCP transport: point-to-point messages between each pair of ranks, so that a failure can be put down
// to a peer.
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "runtime/comm/Communicator.h"
#include "runtime/core/Error.h"

namespace msamp::runtime {

namespace {

class GlooCommunicator final : public Communicator {
public:
  explicit GlooCommunicator(const CommOptions &options) : options_(options) {
    try {
      gloo::transport::tcp::attr address;
      address.hostname = "127.0.0.1";
      auto device = gloo::transport::tcp::CreateDevice(address);
      gloo::rendezvous::FileStore files(options.rendezvous);
      gloo::rendezvous::PrefixStore store("msamp", files);
      auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(options.rank), static_cast<int>(options.size));
      context->setTimeout(options.timeout);
      context->connectFullMesh(store, device);
      context_ = std::move(context);
    } catch (const std::exception &error) {
      failTryAgain("rank {} of {}: the ranks did not find each other within {} s: {}", options.rank, options.size,
          options.timeout.count() / 1000, error.what());
    }
    // All have met: nothing of the meeting is left behind, however the job ends.
    barrier();
    std::error_code ignored;
    if (rank() == 0)
      std::filesystem::remove_all(options.rendezvous, ignored);
  }

  unsigned rank() const override { return options_.rank; }
  unsigned size() const override { return options_.size; }

  void allToAll(const void *send, std::span<const size_t> sendOffsets, std::span<const size_t> sendBytes, void *receive,
      std::span<const size_t> receiveOffsets, std::span<const size_t> receiveBytes) override {
    const auto *from = static_cast<const std::byte *>(send);
    auto *to = static_cast<std::byte *>(receive);
    if (sendBytes[rank()] > 0 && from + sendOffsets[rank()] != to + receiveOffsets[rank()])
      std::memcpy(to + receiveOffsets[rank()], from + sendOffsets[rank()], sendBytes[rank()]);
    exchange([&](unsigned peer) { return Part{const_cast<std::byte *>(from) + sendOffsets[peer], sendBytes[peer]}; },
        [&](unsigned peer) { return Part{to + receiveOffsets[peer], receiveBytes[peer]}; });
  }

  void allGather(void *data, std::span<const size_t> offsets, std::span<const size_t> bytes) override {
    auto *base = static_cast<std::byte *>(data);
    exchange([&](unsigned) { return Part{base + offsets[rank()], bytes[rank()]}; },
        [&](unsigned peer) { return Part{base + offsets[peer], bytes[peer]}; });
  }

  void barrier() override {
    std::vector<std::byte> token(size());
    std::vector<size_t> offsets(size()), bytes(size(), 1);
    for (unsigned r = 0; r < size(); ++r)
      offsets[r] = r;
    allGather(token.data(), offsets, bytes);
  }

private:
  struct Part {
    std::byte *data;
    size_t bytes;
  };

  // One message to and one from each peer (none where there are no bytes).
  template <class Send, class Receive> void exchange(Send &&send, Receive &&receive) {
    const uint64_t slot = slot_++;
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> sends(size()), receives(size());
    unsigned peer = rank();
    try {
      // Peers at the same distance talk to each other at the same time.
      for (unsigned d = 1; d < size(); ++d) {
        peer = (rank() + size() - d) % size();
        if (Part part = receive(peer); part.bytes > 0) {
          receives[peer] = context_->createUnboundBuffer(part.data, part.bytes);
          receives[peer]->recv(static_cast<int>(peer), slot);
        }
      }
      for (unsigned d = 1; d < size(); ++d) {
        peer = (rank() + d) % size();
        if (Part part = send(peer); part.bytes > 0) {
          sends[peer] = context_->createUnboundBuffer(part.data, part.bytes);
          sends[peer]->send(static_cast<int>(peer), slot);
        }
      }
      for (peer = 0; peer < size(); ++peer)
        if (receives[peer])
          receives[peer]->waitRecv(options_.timeout);
      for (peer = 0; peer < size(); ++peer)
        if (sends[peer])
          sends[peer]->waitSend(options_.timeout);
    } catch (const std::exception &error) {
      const std::string what = error.what();
      if (what.find("imed out") != std::string::npos)
        failTryAgain("rank {}: rank {} did not answer within {} s; it hangs or its machine does", rank(), peer,
            options_.timeout.count() / 1000);
      failTryAgain("rank {}: the connection to rank {} is lost; look at what that rank says (Gloo: {})", rank(), peer, what);
    }
  }

  CommOptions options_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  uint64_t slot_ = 1;
};

} // namespace

} // namespace msamp::runtime

extern "C" msamp::runtime::Communicator *msampCreateCommunicator(const msamp::runtime::CommOptions *options) {
  return new msamp::runtime::GlooCommunicator(*options);
}
