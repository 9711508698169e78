// msamp-gpu-functions TARGET PTX: writes a kernel for each conversion and function that code generation lowers itself;
// msamp-function-check runs them.
#include "codegen/cuda/CudaKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

#include <iostream>
#include <sstream>

namespace {

// Thread i takes values [4i, 4i + 4) of type `from` to type `to`; `body` computes %r of %v, both vectors of four.
std::string kernel(const std::string &name, const std::string &from, const std::string &to, const std::string &body) {
  std::ostringstream out;
  out << "llvm.func @" << name
      << "(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>} {\n"
      << "  %t = nvvm.read.ptx.sreg.tid.x : i32\n  %c = nvvm.read.ptx.sreg.ctaid.x : i32\n"
      << "  %n = arith.constant 256 : i32\n  %w = arith.constant 4 : i64\n  %m = arith.muli %c, %n : i32\n"
      << "  %s = arith.addi %m, %t : i32\n  %i = arith.extui %s : i32 to i64\n  %e = arith.muli %i, %w : i64\n"
      << "  %p = llvm.getelementptr %x[%e] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, " << from << "\n"
      << "  %q = llvm.getelementptr %y[%e] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, " << to << "\n"
      << "  %v = llvm.load %p {alignment = 4 : i64} : !llvm.ptr<1> -> vector<4x" << from << ">\n"
      << body << "  llvm.store %r, %q {alignment = 4 : i64} : vector<4x" << to << ">, !llvm.ptr<1>\n  llvm.return\n}\n";
  return out.str();
}

std::string kernels() {
  std::string text;
  for (auto [name, type, bits] : {std::array{"e4m3", "f8E4M3FN", "i8"}, std::array{"e5m2", "f8E5M2", "i8"},
                                  std::array{"bf16", "bf16", "i16"}, std::array{"f16", "f16", "i16"}}) {
    std::string narrow = std::string("vector<4x") + type + ">", stored = std::string("vector<4x") + bits + ">";
    text += kernel(std::string("encode_") + name, "f32", bits,
                   "  %u = arith.truncf %v : vector<4xf32> to " + narrow + "\n  %r = arith.bitcast %u : " + narrow +
                       " to " + stored + "\n");
    text += kernel(std::string("decode_") + name, bits, "f32",
                   "  %u = arith.bitcast %v : " + stored + " to " + narrow + "\n  %r = arith.extf %u : " + narrow +
                       " to vector<4xf32>\n");
  }
  for (const char *function :
       {"exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf", "sqrt", "rsqrt", "sin", "cos"})
    text += kernel(function, "f32", "f32", std::string("  %r = math.") + function + " %v : vector<4xf32>\n");
  // Quotients of neighbours in all pairs of two: x0 / x1, x1 / x2, ...
  text += kernel("divide", "f32", "f32",
                 "  %u = vector.shuffle %v, %v [1, 2, 3, 0] : vector<4xf32>, vector<4xf32>\n"
                 "  %r = arith.divf %v, %u : vector<4xf32>\n");
  return text;
}

} // namespace

int main(int argc, char **argv) {
  auto target = msamp::codegen::cuda::Target::parse(argc == 3 ? argv[1] : "");
  if (!target) {
    std::cerr << "usage: msamp-gpu-functions sm_80|sm_90a|sm_100a PTX" << std::endl;
    return 64;
  }
  mlir::MLIRContext context;
  msamp::codegen::cuda::CudaKernels module(&context, *target);
  auto parsed = mlir::parseSourceString<mlir::ModuleOp>(kernels(), &context);
  if (!parsed)
    return 70;
  for (auto func : llvm::make_early_inc_range(parsed->getOps<mlir::LLVM::LLVMFuncOp>()))
    func->moveBefore(module.kernels().getBody(), module.kernels().getBody()->end());
  return succeeded(module.writePtx(argv[2])) ? 0 : 70;
}
