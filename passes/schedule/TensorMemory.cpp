// View algebra on strided memory.
#include "passes/schedule/TensorMemory.h"

using namespace mlir;

namespace msamp::schedule {

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t next = 1;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    strides[d] = next;
    next *= shape[d];
  }
  return strides;
}

TensorMemory rowMajor(Value base, RankedTensorType type) {
  return {base, 0, SmallVector<int64_t>(type.getShape()), rowMajorStrides(type.getShape()), type.getElementType()};
}

// Strides of dimensions of size 1 say nothing.
bool TensorMemory::isContiguous() const {
  int64_t expected = 1;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != expected)
      return false;
    expected *= shape[d];
  }
  return true;
}

int64_t TensorMemory::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

MemRefType TensorMemory::memrefType() const {
  if (isContiguous())
    return MemRefType::get(shape, element);
  return MemRefType::get(shape, element, StridedLayoutAttr::get(element.getContext(), 0, strides));
}

std::optional<TensorMemory> TensorMemory::reshape(ArrayRef<int64_t> to) const {
  TensorMemory result{base, offset, SmallVector<int64_t>(to), SmallVector<int64_t>(to.size(), 1), element};
  if (isContiguous()) {
    result.strides = rowMajorStrides(to);
    return result;
  }
  // Dimensions of size 1 drop out; the others are matched in groups of equal products. Within a group the old
  // dimensions must be evenly spaced, so that one stride reaches all of them.
  SmallVector<std::pair<int64_t, int64_t>> old;
  for (auto [size, stride] : llvm::zip(shape, strides))
    if (size != 1)
      old.push_back({size, stride});
  size_t i = 0, j = 0;
  while (i < old.size()) {
    while (j < to.size() && to[j] == 1)
      ++j;
    if (j == to.size())
      return std::nullopt;
    size_t i0 = i, j0 = j;
    int64_t oldProduct = old[i++].first, newProduct = to[j++];
    while (oldProduct != newProduct) {
      if (oldProduct < newProduct && i < old.size())
        oldProduct *= old[i++].first;
      else if (oldProduct > newProduct && j < to.size())
        newProduct *= to[j++];
      else
        return std::nullopt;
    }
    for (size_t k = i0; k + 1 < i; ++k)
      if (old[k].second != old[k + 1].first * old[k + 1].second)
        return std::nullopt;
    int64_t stride = old[i - 1].second;
    for (size_t k = j; k-- > j0;) {
      result.strides[k] = stride;
      stride *= to[k];
    }
  }
  return result;
}

TensorMemory TensorMemory::transpose(ArrayRef<int64_t> permutation) const {
  TensorMemory result{base, offset, {}, {}, element};
  for (int64_t p : permutation) {
    result.shape.push_back(shape[p]);
    result.strides.push_back(strides[p]);
  }
  return result;
}

TensorMemory TensorMemory::slice(ArrayRef<int64_t> starts, ArrayRef<int64_t> steps, ArrayRef<int64_t> sizes) const {
  TensorMemory result{base, offset, SmallVector<int64_t>(sizes), {}, element};
  for (size_t d = 0; d < shape.size(); ++d) {
    result.offset += starts[d] * strides[d] * planir::elementBytes(element);
    result.strides.push_back(strides[d] * steps[d]);
  }
  return result;
}

TensorMemory TensorMemory::broadcast(ArrayRef<int64_t> dims, ArrayRef<int64_t> to) const {
  TensorMemory result{base, offset, SmallVector<int64_t>(to), SmallVector<int64_t>(to.size(), 0), element};
  for (auto [i, d] : llvm::enumerate(dims))
    result.strides[d] = strides[i];
  return result;
}

} // namespace msamp::schedule
