// ONNX element types: sizes, names and their MLIR counterparts.
#ifndef MSAMP_FRONTEND_ELEMENTTYPE_H
#define MSAMP_FRONTEND_ELEMENTTYPE_H

#include <string>

namespace mlir {
class MLIRContext;
class Type;
} // namespace mlir

namespace msamp::frontend {

// Bytes of an element; 0 for types that a training step has no use for (strings, complex, sub-byte).
int elementSize(int onnxType);
std::string elementName(int onnxType);
bool isFloat(int onnxType);
bool isUnsigned(int onnxType); // bool included
bool isBool(int onnxType);
mlir::Type elementType(mlir::MLIRContext &context, int onnxType);

} // namespace msamp::frontend

#endif
