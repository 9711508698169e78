// The training state of one rank in one allocation: arrays of each state class, scales, amax histories.
#ifndef MSAMP_RUNTIME_EXEC_STATE_H
#define MSAMP_RUNTIME_EXEC_STATE_H

#include <cstdint>
#include <vector>

#include "runtime/core/Types.h"
#include "runtime/device/Device.h"
#include "runtime/plan/plan.pb.h"

namespace msamp::runtime {

// Blocks [first, first + count) of a class's flat space.
struct BlockRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
};

// Blocks of one parameter; every block belongs to one.
struct OwnedRange {
  BlockRange blocks;
  unsigned parameter = 0;
};

// Where one bucket's shards lie. All shards but the last ones have the same whole number of blocks.
struct BucketLayout {
  unsigned stateClass = 0;
  BlockRange blocks;
  std::vector<BlockRange> shards; // by rank
  int64_t localFirst = 0;         // of this rank's shard in arrays that hold shards only
  std::vector<OwnedRange> owners;
};

// Arrays of one state class. Null where the class has none.
struct ClassState {
  Type weightType, masterType, gradType, mType, vType, wireType;
  bool weightScaled, masterScaled, trained;
  int64_t blocks = 0;      // of the flat space
  int64_t localBlocks = 0; // of the arrays that are sharded: fewer under ZeRO 1
  std::byte *weight = nullptr, *master = nullptr, *grad = nullptr, *m = nullptr, *v = nullptr;
  float *mScale = nullptr, *vScale = nullptr;
  float *gradScale = nullptr; // a scale a block, after an exchange of FP8 gradients between several ranks
  int32_t *owner = nullptr;   // parameter of each block of the flat space, where the class is trained
};

class State {
public:
  State(const plan::Plan &plan, Device &device, unsigned rank, unsigned ranks);
  ~State();
  State(const State &) = delete;
  State &operator=(const State &) = delete;

  bool sharded() const { return sharded_; }
  const RoleBytes &bytes() const { return bytes_; }

  std::vector<ClassState> classes;
  std::vector<BucketLayout> buckets; // as in the plan
  StepTables tables;

  // Blocks of a parameter in its class, padding of its last block included.
  BlockRange blocksOf(const plan::Parameter &parameter) const;
  // Position of a block of the class in arrays that hold this rank's shards only; -1 if it is another rank's.
  int64_t localBlock(unsigned bucket, int64_t block) const;

private:
  // What never changes in the tables.
  void fillRules(const plan::Plan &plan, const std::vector<std::vector<OwnedRange>> &owners, int32_t *parameterClass,
      SiteRule *siteRules);

  bool sharded_;
  unsigned rank_;
  Device &device_;
  void *arena_ = nullptr;
  size_t arenaBytes_ = 0;
  RoleBytes bytes_{};
};

// Runs of a range that belong to one parameter each.
std::vector<OwnedRange> intersect(const std::vector<OwnedRange> &owners, BlockRange range);

} // namespace msamp::runtime

#endif
