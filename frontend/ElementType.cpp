#include "frontend/ElementType.h"

#include "mlir/IR/BuiltinTypes.h"
#include <onnx/onnx_pb.h>

using onnx::TensorProto;

namespace msamp::frontend {

int elementSize(int t) {
  switch (t) {
  case TensorProto::FLOAT:
  case TensorProto::INT32:
  case TensorProto::UINT32:
    return 4;
  case TensorProto::DOUBLE:
  case TensorProto::INT64:
  case TensorProto::UINT64:
    return 8;
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
  case TensorProto::INT16:
  case TensorProto::UINT16:
    return 2;
  case TensorProto::BOOL:
  case TensorProto::INT8:
  case TensorProto::UINT8:
    return 1;
  default:
    return 0;
  }
}

std::string elementName(int t) {
  return TensorProto::DataType_IsValid(t) ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(t))
                                          : "number " + std::to_string(t);
}

bool isFloat(int t) {
  return t == TensorProto::FLOAT || t == TensorProto::DOUBLE || t == TensorProto::FLOAT16 || t == TensorProto::BFLOAT16;
}

bool isBool(int t) {
  return t == TensorProto::BOOL;
}

bool isUnsigned(int t) {
  return t == TensorProto::BOOL || t == TensorProto::UINT8 || t == TensorProto::UINT16 || t == TensorProto::UINT32 ||
         t == TensorProto::UINT64;
}

mlir::Type elementType(mlir::MLIRContext &context, int t) {
  switch (t) {
  case TensorProto::FLOAT:
    return mlir::Float32Type::get(&context);
  case TensorProto::DOUBLE:
    return mlir::Float64Type::get(&context);
  case TensorProto::FLOAT16:
    return mlir::Float16Type::get(&context);
  case TensorProto::BFLOAT16:
    return mlir::BFloat16Type::get(&context);
  case TensorProto::BOOL:
    return mlir::IntegerType::get(&context, 1);
  default:
    return mlir::IntegerType::get(&context, elementSize(t) * 8);
  }
}

} // namespace msamp::frontend
