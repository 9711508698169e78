// How an exchange of gradients is cut into pieces, and where a piece's parts lie in the buffer for it.
#ifndef MSAMP_RUNTIME_PLAN_EXCHANGELAYOUT_H
#define MSAMP_RUNTIME_PLAN_EXCHANGELAYOUT_H

#include "runtime/core/Types.h"
#include "runtime/plan/plan.pb.h"

namespace msamp::runtime {

// The buffer has two slots, so that one piece is reduced while the next one travels. A slot holds values of the piece from
// each rank, then their scales, a block each; and where the wire is narrower than what is stored, the same of what goes out.
struct ExchangeLayout {
  static constexpr size_t slots = 2;

  ExchangeLayout(const plan::Plan &plan, const plan::Bucket &bucket, unsigned ranks);

  Type stored = Type::None, wire = Type::None;
  bool narrowed = false;  // what is stored is rounded to the wire's type on its way
  int64_t piece = 0;      // blocks of a shard at a time
  size_t blockBytes = 0;  // of the wire's type
  size_t valueBytes = 0;  // of a piece from one rank; the next rank's come behind them
  size_t scaleBytes = 0;
  size_t scalesAt = 0;    // in what is received, and in what is sent
  size_t sentAt = 0;      // in a slot
  size_t slotBytes = 0;
  size_t bytes() const { return slots * slotBytes; }
};

// What the largest exchange needs; 0 for one rank.
uint64_t exchangeBytes(const plan::Plan &plan, unsigned ranks);

} // namespace msamp::runtime

#endif
