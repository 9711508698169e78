// Tensor expressions with operators, so that derivative rules and rewrites read like the formulas they come from.
#ifndef MSAMP_IR_EXPR_H
#define MSAMP_IR_EXPR_H

#include "ir/Msamp/Msamp.h"

namespace msamp {

inline mlir::RankedTensorType tensorTypeOf(mlir::Value v) { return mlir::cast<mlir::RankedTensorType>(v.getType()); }

/// What a chain of reshapes shows.
inline mlir::Value throughReshapes(mlir::Value v) {
  while (auto reshape = v.getDefiningOp<ReshapeOp>()) v = reshape.getInput();
  return v;
}

/// A tensor value together with the place where ops on it are built. Operands of an operator have one type, or the
/// other one is a number.
struct Expr {
  mlir::OpBuilder *builder = nullptr;
  mlir::Location loc;
  mlir::Value value;

  Expr(mlir::OpBuilder &b, mlir::Location l, mlir::Value v) : builder(&b), loc(l), value(v) {}
  operator mlir::Value() const { return value; }
  mlir::RankedTensorType type() const { return tensorTypeOf(value); }
  int64_t rank() const { return type().getRank(); }

  Expr wrap(mlir::Value v) const { return {*builder, loc, v}; }

  /// Splat of this expression's type.
  Expr like(double number) const {
    auto t = type();
    mlir::TypedAttr element = mlir::isa<mlir::FloatType>(t.getElementType())
                                  ? mlir::TypedAttr(builder->getFloatAttr(t.getElementType(), number))
                                  : mlir::TypedAttr(builder->getIntegerAttr(t.getElementType(), int64_t(number)));
    return wrap(mlir::arith::ConstantOp::create(*builder, loc, mlir::DenseElementsAttr::get(t, element)));
  }
  template <typename OpT, typename... Args> Expr make(Args &&...args) const {
    return wrap(OpT::create(*builder, loc, std::forward<Args>(args)...)->getResult(0));
  }

  /// Repeats along the dimensions of `shape` that are not in `dims`.
  Expr broadcast(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims) const {
    if (llvm::ArrayRef<int64_t>(type().getShape()) == shape) return *this;
    return make<BroadcastOp>(mlir::RankedTensorType::get(shape, type().getElementType()), value, dims);
  }
  /// A value a row (all dimensions but the last) repeated along the last dimension of `shape`.
  Expr perRow(llvm::ArrayRef<int64_t> shape) const {
    llvm::SmallVector<int64_t> dims;
    for (int64_t d = 0; d + 1 < int64_t(shape.size()); ++d) dims.push_back(d);
    return broadcast(shape, dims);
  }
  /// A value a column repeated along all dimensions of `shape` but the last.
  Expr perColumn(llvm::ArrayRef<int64_t> shape) const { return broadcast(shape, {int64_t(shape.size()) - 1}); }
  Expr scalarTo(llvm::ArrayRef<int64_t> shape) const { return broadcast(shape, {}); }

  Expr reduce(ReduceKind kind, llvm::ArrayRef<int64_t> dims) const {
    if (dims.empty()) return *this;
    llvm::SmallVector<int64_t> shape;
    for (int64_t d = 0; d < rank(); ++d)
      if (!llvm::is_contained(dims, d)) shape.push_back(type().getDimSize(d));
    return make<ReduceOp>(mlir::RankedTensorType::get(shape, type().getElementType()), kind, value, dims);
  }
  Expr sum(llvm::ArrayRef<int64_t> dims) const { return reduce(ReduceKind::Sum, dims); }
  Expr sumLastDim() const { return sum({rank() - 1}); }
  Expr sumLeadingDims() const {
    llvm::SmallVector<int64_t> dims;
    for (int64_t d = 0; d + 1 < rank(); ++d) dims.push_back(d);
    return sum(dims);
  }

  Expr reshape(llvm::ArrayRef<int64_t> shape) const {
    if (llvm::ArrayRef<int64_t>(type().getShape()) == shape) return *this;
    return make<ReshapeOp>(mlir::RankedTensorType::get(shape, type().getElementType()), value);
  }
  Expr transpose(llvm::ArrayRef<int64_t> perm) const {
    llvm::SmallVector<int64_t> shape;
    bool identity = true;
    for (auto [i, p] : llvm::enumerate(perm)) {
      shape.push_back(type().getDimSize(p));
      identity &= p == int64_t(i);
    }
    if (identity) return *this;
    return make<TransposeOp>(mlir::RankedTensorType::get(shape, type().getElementType()), value, perm);
  }
  /// Elements [start, start + size) along one dimension.
  Expr slice(int64_t dim, int64_t start, int64_t size) const {
    llvm::SmallVector<int64_t> shape(type().getShape()), starts(rank(), 0), strides(rank(), 1);
    shape[dim] = size;
    starts[dim] = start;
    return make<SliceOp>(mlir::RankedTensorType::get(shape, type().getElementType()), value, starts, strides);
  }

  /// This, to be computed by each kernel that reads it (repeatedAttr).
  Expr repeated() const {
    value.getDefiningOp()->setAttr(repeatedAttr, builder->getUnitAttr());
    return *this;
  }
  Expr exp() const { return make<mlir::math::ExpOp>(value); }
  Expr log() const { return make<mlir::math::LogOp>(value); }
  /// 1 / (1 + exp(-x)): the form that later phases recognise and kernels compute.
  Expr sigmoid() const;
  Expr compare(mlir::arith::CmpFPredicate predicate, const Expr &other) const {
    return make<mlir::arith::CmpFOp>(predicate, value, other.value);
  }
  Expr compare(mlir::arith::CmpIPredicate predicate, const Expr &other) const {
    return make<mlir::arith::CmpIOp>(predicate, value, other.value);
  }
  /// This condition's choice between two values.
  Expr choose(const Expr &yes, const Expr &no) const {
    return make<mlir::arith::SelectOp>(value, yes.value, no.value);
  }
};

inline Expr operator+(const Expr &a, const Expr &b) { return a.make<mlir::arith::AddFOp>(a.value, b.value); }
inline Expr operator-(const Expr &a, const Expr &b) { return a.make<mlir::arith::SubFOp>(a.value, b.value); }
inline Expr operator*(const Expr &a, const Expr &b) { return a.make<mlir::arith::MulFOp>(a.value, b.value); }
inline Expr operator/(const Expr &a, const Expr &b) { return a.make<mlir::arith::DivFOp>(a.value, b.value); }
inline Expr operator-(const Expr &a) { return a.make<mlir::arith::NegFOp>(a.value); }
inline Expr operator+(const Expr &a, double b) { return a + a.like(b); }
inline Expr operator-(const Expr &a, double b) { return a - a.like(b); }
inline Expr operator*(const Expr &a, double b) { return b == 1.0 ? a : a * a.like(b); }
inline Expr operator+(double a, const Expr &b) { return b.like(a) + b; }
inline Expr operator-(double a, const Expr &b) { return b.like(a) - b; }
inline Expr operator/(double a, const Expr &b) { return b.like(a) / b; }

inline Expr Expr::sigmoid() const {
  Expr negated = -*this;
  Expr power = negated.exp();
  return 1.0 / (power + 1.0);
}

} // namespace msamp
#endif
