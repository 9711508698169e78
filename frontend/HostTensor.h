// Tensors whose values are known while importing, and exact evaluation of ONNX arithmetic on them.
#ifndef MSAMP_FRONTEND_HOSTTENSOR_H
#define MSAMP_FRONTEND_HOSTTENSOR_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace msamp::frontend {

using Dims = std::vector<int64_t>;

int64_t countElements(const Dims &dims);
std::string printDims(const Dims &dims);
// Row-major strides in elements.
Dims rowMajorStrides(const Dims &dims);

struct HostTensor {
  int type = 0; // onnx::TensorProto::DataType
  Dims dims;
  const char *data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const void> owner;

  int64_t size() const { return countElements(dims); }
};
using Host = std::shared_ptr<const HostTensor>;

// A tensor with `fill` called on its uninitialised bytes.
Host makeHost(int type, Dims dims, const std::function<void(char *)> &fill);
Host hostFromInts(int type, Dims dims, const std::vector<int64_t> &values);
Host hostFromDoubles(int type, Dims dims, const std::vector<double> &values);
std::vector<int64_t> intsOf(const HostTensor &t);
std::vector<double> doublesOf(const HostTensor &t);
bool allEqual(const HostTensor &t);

// Kinds of pointwise ops, on the host and in MLIR alike.
enum class Unary { Neg, Abs, Sqrt, Exp, Log, Sin, Cos, Tan, Tanh, Erf, Floor, Ceil, Round, Not, IsNaN, Sign };
enum class Binary { Add, Sub, Mul, Div, Mod, FMod, Pow, Max, Min, And, Or, Xor };
enum class Compare { Equal, Less, LessOrEqual, Greater, GreaterOrEqual };
enum class Reduction { Sum, Max, Min };

namespace host {
Host unary(Unary kind, const HostTensor &x);
// Operands of one shape and type.
Host binary(Binary kind, const HostTensor &a, const HostTensor &b);
Host compare(Compare kind, const HostTensor &a, const HostTensor &b);
Host select(const HostTensor &condition, const HostTensor &a, const HostTensor &b);
Host cast(const HostTensor &x, int type);
Host reduce(Reduction kind, const HostTensor &x, const Dims &axes);
Host matmul(const HostTensor &a, const HostTensor &b, bool transposeA, bool transposeB);
// Element [i0, i1, ..] of the result is the element of `x` at offset + sum(i * stride), in elements: transposes, slices
// and broadcasts.
Host strided(const HostTensor &x, const Dims &dims, const Dims &strides, int64_t offset);
Host reshape(const HostTensor &x, const Dims &dims);
Host concat(const std::vector<Host> &xs, int64_t axis);
Host gather(const HostTensor &x, const HostTensor &indices, int64_t axis);
// `x` placed at `low` (with element strides) in a tensor of `value`.
Host pad(const HostTensor &x, const Dims &low, const Dims &dims, double value);
Host cumsum(const HostTensor &x, int64_t axis, bool exclusive, bool reverse);
// The smallest tensor that broadcasts to `x` (dimensions of size 1 where all slices are equal).
Host compress(const HostTensor &x);
} // namespace host

} // namespace msamp::frontend

#endif
