// Where a tensor lies: a strided part of a buffer or a place, and what views of it look like.
#ifndef MSAMP_PASSES_SCHEDULE_TENSORMEMORY_H
#define MSAMP_PASSES_SCHEDULE_TENSORMEMORY_H

#include "ir/Plan/Plan.h"

#include <optional>

namespace msamp::schedule {

struct TensorMemory {
  mlir::Value base;   // a plan.buffer or a plan.place
  int64_t offset = 0; // in bytes
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<int64_t> strides; // in elements
  mlir::Type element;

  bool isContiguous() const; // row-major without gaps
  mlir::MemRefType memrefType() const;
  int64_t numElements() const;
  int64_t sizeInBytes() const { return numElements() * planir::elementBytes(element); }

  // The same elements under another shape, where strides can say it.
  std::optional<TensorMemory> reshape(llvm::ArrayRef<int64_t> to) const;
  TensorMemory transpose(llvm::ArrayRef<int64_t> permutation) const;
  TensorMemory slice(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> steps,
                     llvm::ArrayRef<int64_t> sizes) const;
  TensorMemory broadcast(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> to) const;
};

// Row-major memory of a tensor's type at the start of `base`.
TensorMemory rowMajor(mlir::Value base, mlir::RankedTensorType type);

llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

} // namespace msamp::schedule

#endif
