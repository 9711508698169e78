// Fuses a function into clusters, compiles and runs them, on the CPU or on a GPU (emulated), and runs the interpreter beside.
#ifndef MSAMP_TESTS_UNIT_CODEGEN_KERNELRUN_H
#define MSAMP_TESTS_UNIT_CODEGEN_KERNELRUN_H

#include "codegen/cpu/CpuKernels.h"
#include "codegen/cuda/CudaKernels.h"
#include "passes/Pipeline.h"
#include "passes/fuse/Passes.h"
#include "tests/unit/codegen/Emulator.h"
#include "tests/unit/codegen/Interpreter.h"
#include "tests/unit/codegen/Library.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

namespace msamp::test {

using namespace mlir;

inline int64_t bytesOf(Type element) {
  return element.isInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
}

// A value of a storage type from and to memory.
inline void put(char *at, Type element, double v) {
  float f = static_cast<float>(v);
  if (element.isF32())
    std::memcpy(at, &f, 4);
  else if (element.isBF16())
    std::memcpy(at, reinterpret_cast<char *>(&f) + 2, 2);
  else if (element.isInteger(64)) {
    int64_t i = static_cast<int64_t>(v);
    std::memcpy(at, &i, 8);
  } else
    FAIL() << "no way to write this type";
}
inline double take(const char *at, Type element) {
  float f = 0;
  if (element.isF32()) {
    std::memcpy(&f, at, 4);
    return f;
  }
  if (element.isBF16()) {
    std::memcpy(reinterpret_cast<char *>(&f) + 2, at, 2);
    return f;
  }
  if (element.isInteger(64)) {
    int64_t i;
    std::memcpy(&i, at, 8);
    return static_cast<double>(i);
  }
  unsigned char c = *at;
  bool e4m3 = isa<Float8E4M3FNType>(element);
  int exponentBits = e4m3 ? 4 : 5, mantissaBits = 7 - exponentBits, bias = e4m3 ? 7 : 15;
  int exponent = (c & 0x7F) >> mantissaBits, mantissa = c & ((1 << mantissaBits) - 1);
  double value = exponent ? std::ldexp(1 + std::ldexp(mantissa, -mantissaBits), exponent - bias)
                          : std::ldexp(mantissa, 1 - bias - mantissaBits);
  if ((c & 0x7F) == 0x7F)
    value = NAN;
  return c & 0x80 ? -value : value;
}

struct Outcome {
  unsigned clusters = 0;
  std::vector<Tensor> expected, actual;
  std::vector<Type> types;
};

class Kernels : public ::testing::TestWithParam<const char *> {
protected:
  Kernels() {
    DialectRegistry registry;
    registry.insert<MsampDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  // Fuses, compiles and runs the only function of `source` on random input.
  Outcome run(const char *source, double spread = 1.0) {
    Outcome result;
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
    EXPECT_TRUE(module);
    if (!module)
      return result;
    PassManager expand(&context), form(&context);
    expand.addPass(fuse::createExpandNamedOps());
    EXPECT_TRUE(succeeded(expand.run(*module)));
    auto func = *module->getOps<func::FuncOp>().begin();
    std::mt19937 random(7);
    std::normal_distribution<double> normal(0, spread);
    std::vector<Tensor> arguments;
    std::map<void *, std::vector<char>> memory;
    auto make = [&](Value v) -> std::vector<char> & {
      auto type = cast<RankedTensorType>(v.getType());
      auto &bytes = memory[v.getAsOpaquePointer()];
      bytes.resize(type.getNumElements() * bytesOf(type.getElementType()));
      return bytes;
    };
    for (Value arg : func.getArguments()) {
      auto type = cast<RankedTensorType>(arg.getType());
      Tensor t{std::vector<int64_t>(type.getShape()), std::vector<double>(type.getNumElements())};
      auto &bytes = make(arg);
      int64_t size = bytesOf(type.getElementType());
      for (int64_t i = 0; i < t.size(); ++i) {
        double v = type.getElementType().isInteger(64)
                       ? static_cast<double>(random() % 24) - (random() % 5 == 0 ? 124 : 0)
                       : normal(random);
        put(bytes.data() + i * size, type.getElementType(), v);
        t.data[i] = take(bytes.data() + i * size, type.getElementType());
      }
      arguments.push_back(std::move(t));
    }
    result.expected = interpret(func, arguments);

    form.addPass(fuse::createFormClusters());
    EXPECT_TRUE(succeeded(form.run(*module)));
    std::vector<ClusterOp> clusters(func.getOps<ClusterOp>().begin(), func.getOps<ClusterOp>().end());
    result.clusters = clusters.size();
    auto find = [&](Value v) { // views of row-major memory
      while (auto reshape = v.getDefiningOp<ReshapeOp>())
        v = reshape.getInput();
      return memory.at(v.getAsOpaquePointer()).data();
    };
    auto operands = [&](ClusterOp cluster, std::vector<char> &workspace) {
      std::vector<void *> args;
      for (Value v : cluster.getInputs())
        args.push_back(find(v));
      for (Value v : cluster.getResults())
        args.push_back(make(v).data());
      if (!workspace.empty())
        args.push_back(workspace.data());
      return args;
    };
    if (auto target = codegen::cuda::Target::parse(GetParam()))
      runOnGpu(clusters, *target, operands);
    else
      runOnCpu(clusters, operands);
    for (Value v : func.front().getTerminator()->getOperands()) {
      auto type = cast<RankedTensorType>(v.getType());
      const char *bytes = find(v);
      Tensor t{std::vector<int64_t>(type.getShape()), std::vector<double>(type.getNumElements())};
      for (int64_t i = 0; i < t.size(); ++i)
        t.data[i] = take(bytes + i * bytesOf(type.getElementType()), type.getElementType());
      result.actual.push_back(std::move(t));
      result.types.push_back(type.getElementType());
    }
    return result;
  }

  using Operands = std::function<std::vector<void *>(ClusterOp, std::vector<char> &)>;

  void runOnCpu(ArrayRef<ClusterOp> clusters, const Operands &operands) {
    codegen::CpuKernels kernels(&context);
    for (auto [i, cluster] : llvm::enumerate(clusters))
      EXPECT_TRUE(succeeded(kernels.addCluster(cluster, "k" + std::to_string(i))));
    Library library(kernels);
    for (auto [i, cluster] : llvm::enumerate(clusters)) {
      std::string symbol = "k" + std::to_string(i);
      codegen::KernelShape shape = codegen::cpuKernelShape(cluster);
      std::vector<char> workspace(shape.workspaceBytes);
      std::vector<void *> args = operands(cluster, workspace);
      Chunks f = library.kernel(symbol);
      f(args.data(), shape.chunks / 2, shape.chunks); // chunks in any order
      f(args.data(), 0, shape.chunks / 2);
      if (shape.finish)
        library.finish(symbol)(args.data());
    }
  }

  void runOnGpu(ArrayRef<ClusterOp> clusters, codegen::cuda::Target target, const Operands &operands) {
    target.multiprocessors = 2; // so that blocks have several rows
    codegen::cuda::CudaKernels kernels(&context, target);
    std::vector<SmallVector<codegen::cuda::KernelEntry>> entries(clusters.size());
    for (auto [i, cluster] : llvm::enumerate(clusters))
      EXPECT_TRUE(succeeded(kernels.addCluster(cluster, "k" + std::to_string(i), entries[i])));
    Emulator emulator(kernels.kernels());
    for (auto [i, cluster] : llvm::enumerate(clusters)) {
      std::vector<char> workspace(codegen::cuda::clusterWorkspaceBytes(cluster, target), 0x7F);
      std::vector<void *> args = operands(cluster, workspace);
      for (const auto &entry : entries[i])
        emulator.launch(entry, args);
    }
  }

  // Norm of the difference over the norm of what is expected, for each result.
  void expectClose(const Outcome &r, double tolerance) {
    ASSERT_EQ(r.expected.size(), r.actual.size());
    for (size_t k = 0; k < r.expected.size(); ++k) {
      double difference = 0, norm = 0;
      for (int64_t i = 0; i < r.expected[k].size(); ++i) {
        double a = r.actual[k].data[i], e = r.expected[k].data[i];
        ASSERT_TRUE(std::isfinite(a)) << "result " << k << " element " << i;
        difference += (a - e) * (a - e), norm += e * e;
      }
      EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm) + 1e-30) << "result " << k;
    }
  }
  void expectEqual(const Outcome &r) {
    for (size_t k = 0; k < r.expected.size(); ++k)
      for (int64_t i = 0; i < r.expected[k].size(); ++i)
        ASSERT_EQ(r.actual[k].data[i], r.expected[k].data[i]) << "result " << k << " element " << i;
  }

  MLIRContext context;
};

} // namespace msamp::test

#endif
