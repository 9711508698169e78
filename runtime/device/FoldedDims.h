// Dimensions that several strided tensors share, as few as can be.
#ifndef MSAMP_RUNTIME_DEVICE_FOLDEDDIMS_H
#define MSAMP_RUNTIME_DEVICE_FOLDEDDIMS_H

#include <array>

#include "runtime/core/Error.h"
#include "runtime/device/Device.h"

namespace msamp::runtime {

// Of `tensors` tensors: dimensions of size 1 are gone, neighbours that lie in sequence in each of them are one.
template <size_t tensors> struct FoldedDims {
  unsigned rank = 0;
  int64_t shape[maxRank] = {};
  std::array<int64_t, tensors> strides[maxRank] = {}; // in elements

  // The next dimension inwards.
  void append(int64_t size, const std::array<int64_t, tensors> &stride) {
    if (size == 1)
      return;
    bool follows = rank > 0;
    for (size_t t = 0; t < tensors && follows; ++t)
      follows = strides[rank - 1][t] == stride[t] * size;
    if (!follows)
      shape[rank++] = 1;
    shape[rank - 1] *= size;
    strides[rank - 1] = stride;
  }
};

// Of two tensors of one shape; error 70 where they are not.
inline FoldedDims<2> foldedDims(const Tensor &a, const Tensor &b) {
  if (a.rank != b.rank)
    failInternal("tensors of {} and {} dimensions do not fit", a.rank, b.rank);
  FoldedDims<2> dims;
  for (unsigned d = 0; d < a.rank; ++d) {
    if (a.shape[d] != b.shape[d])
      failInternal("dimensions {} and {} do not fit", a.shape[d], b.shape[d]);
    dims.append(a.shape[d], {a.strides[d], b.strides[d]});
  }
  return dims;
}

} // namespace msamp::runtime

#endif
