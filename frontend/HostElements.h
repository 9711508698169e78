// Elements of host tensors as C++ numbers: floats are computed in float (double for DOUBLE), all else in int64.
#ifndef MSAMP_FRONTEND_HOSTELEMENTS_H
#define MSAMP_FRONTEND_HOSTELEMENTS_H

#include "frontend/HostTensor.h"

#include "llvm/ADT/APFloat.h"
#include <onnx/onnx_pb.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace msamp::frontend {

inline float halfBitsToFloat(uint16_t bits, bool brain) {
  llvm::APFloat v(brain ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(), llvm::APInt(16, bits));
  bool lost;
  v.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return v.convertToFloat();
}

inline uint16_t floatToHalfBits(float value, bool brain) {
  llvm::APFloat v(value);
  bool lost;
  v.convert(brain ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return static_cast<uint16_t>(v.bitcastToAPInt().getZExtValue());
}

// Float to integer as hardware does it, but defined everywhere: truncates, saturates, NaN is the least value.
template <class To, class From>
To convertElement(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(v))
      return std::numeric_limits<To>::min();
    if (v >= static_cast<From>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    if (v <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
  }
  return static_cast<To>(v);
}

template <class T>
std::vector<T> loadElements(const HostTensor &t) {
  std::vector<T> out(t.size());
  auto from = [&](auto sample) {
    using S = decltype(sample);
    for (size_t i = 0; i < out.size(); ++i) {
      S v;
      std::memcpy(&v, t.data + i * sizeof(S), sizeof(S));
      out[i] = convertElement<T>(v);
    }
  };
  using P = onnx::TensorProto;
  switch (t.type) {
  case P::FLOAT:
    from(float());
    break;
  case P::DOUBLE:
    from(double());
    break;
  case P::INT64:
    from(int64_t());
    break;
  case P::INT32:
    from(int32_t());
    break;
  case P::INT16:
    from(int16_t());
    break;
  case P::INT8:
    from(int8_t());
    break;
  case P::UINT64:
    from(uint64_t());
    break;
  case P::UINT32:
    from(uint32_t());
    break;
  case P::UINT16:
    from(uint16_t());
    break;
  case P::UINT8:
    from(uint8_t());
    break;
  case P::BOOL:
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = t.data[i] != 0;
    break;
  default:
    for (size_t i = 0; i < out.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, t.data + 2 * i, 2);
      out[i] = convertElement<T>(halfBitsToFloat(bits, t.type == P::BFLOAT16));
    }
  }
  return out;
}

template <class T>
void storeElements(int type, const std::vector<T> &values, char *p) {
  auto to = [&](auto sample) {
    using S = decltype(sample);
    for (size_t i = 0; i < values.size(); ++i) {
      S v = convertElement<S>(values[i]);
      std::memcpy(p + i * sizeof(S), &v, sizeof(S));
    }
  };
  using P = onnx::TensorProto;
  switch (type) {
  case P::FLOAT:
    to(float());
    break;
  case P::DOUBLE:
    to(double());
    break;
  case P::INT64:
    to(int64_t());
    break;
  case P::INT32:
    to(int32_t());
    break;
  case P::INT16:
    to(int16_t());
    break;
  case P::INT8:
    to(int8_t());
    break;
  case P::UINT64:
    to(uint64_t());
    break;
  case P::UINT32:
    to(uint32_t());
    break;
  case P::UINT16:
    to(uint16_t());
    break;
  case P::UINT8:
    to(uint8_t());
    break;
  case P::BOOL:
    for (size_t i = 0; i < values.size(); ++i)
      p[i] = values[i] != T(0);
    break;
  default:
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits = floatToHalfBits(static_cast<float>(values[i]), type == P::BFLOAT16);
      std::memcpy(p + 2 * i, &bits, 2);
    }
  }
}

// Calls f with a value of the type in which elements of the ONNX type are computed.
template <class F>
auto withComputeType(int onnxType, F f) {
  using P = onnx::TensorProto;
  if (onnxType == P::DOUBLE)
    return f(double());
  if (onnxType == P::FLOAT || onnxType == P::FLOAT16 || onnxType == P::BFLOAT16)
    return f(float());
  return f(int64_t());
}

} // namespace msamp::frontend

#endif
