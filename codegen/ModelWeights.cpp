// Conversion of initializers to FP32. FP32 itself is not copied if it is aligned.
#include "codegen/ModelWeights.h"

#include <bit>
#include <cstring>
#include <onnx/onnx_pb.h>

namespace msamp::codegen {

static float fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

template <typename T, typename Convert>
static llvm::ArrayRef<float> convert(const frontend::WeightSource::View &view, std::vector<float> &storage, Convert f) {
  size_t count = view.bytes / sizeof(T);
  storage.resize(count);
  const char *data = static_cast<const char *>(view.data);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    storage[i] = f(value);
  }
  return storage;
}

llvm::ArrayRef<float> ModelWeights::read(llvm::StringRef onnxName, std::vector<float> &storage) {
  if (!source)
    source = frontend::WeightSource::open(model);
  std::string name = onnxName.str();
  if (!source->has(name))
    return {};
  frontend::WeightSource::View view = source->get(name);
  switch (view.onnxType) {
  case onnx::TensorProto::FLOAT:
    if (reinterpret_cast<uintptr_t>(view.data) % alignof(float))
      return convert<float>(view, storage, [](float v) { return v; });
    keepAlive.push_back(view.keepAlive);
    return {static_cast<const float *>(view.data), view.bytes / sizeof(float)};
  case onnx::TensorProto::DOUBLE:
    return convert<double>(view, storage, [](double v) { return static_cast<float>(v); });
  case onnx::TensorProto::FLOAT16:
    return convert<uint16_t>(view, storage, fromHalf);
  case onnx::TensorProto::BFLOAT16:
    return convert<uint16_t>(view, storage, [](uint16_t v) { return std::bit_cast<float>(uint32_t(v) << 16); });
  default:
    return {};
  }
}

} // namespace msamp::codegen
