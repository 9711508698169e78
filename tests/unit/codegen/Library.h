// A library of kernels made of a function's clusters, loaded into the test.
#ifndef MSAMP_TESTS_UNIT_CODEGEN_LIBRARY_H
#define MSAMP_TESTS_UNIT_CODEGEN_LIBRARY_H

#include "codegen/cpu/CpuKernels.h"
#include "passes/fuse/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace msamp::test {

using Chunks = void (*)(void *const *args, int64_t begin, int64_t end);
using Finish = void (*)(void *const *args);

// Compiles `kernels` to a file, loads it and removes the file.
class Library {
public:
  explicit Library(codegen::CpuKernels &kernels) {
    std::string path = "/tmp/msamp-kernels-XXXXXX";
    close(mkstemp(path.data()));
    bool written = mlir::succeeded(kernels.writeLibrary(path));
    if (written)
      handle = dlopen(path.c_str(), RTLD_NOW);
    unlink(path.c_str());
    if (!handle)
      throw std::runtime_error(written ? dlerror() : "the kernels do not compile");
  }
  ~Library() { dlclose(handle); }
  Library(const Library &) = delete;
  Chunks kernel(const std::string &symbol) const { return reinterpret_cast<Chunks>(address(symbol)); }
  Finish finish(const std::string &symbol) const { return reinterpret_cast<Finish>(address(symbol + "_finish")); }

private:
  void *address(const std::string &symbol) const {
    void *found = dlsym(handle, symbol.c_str());
    if (!found)
      throw std::runtime_error("no kernel " + symbol);
    return found;
  }
  void *handle = nullptr;
};

// Converts between FP32 and FP8 with the code that kernels use, 65,536 values at a time.
class Fp8Kernels {
public:
  static constexpr int64_t count = 65536;

  Fp8Kernels() {
    mlir::DialectRegistry registry;
    registry.insert<MsampDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::func::FuncDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
      func.func @encode(%x: tensor<65536xf32>, %s: tensor<f32>) -> (tensor<65536xf8E4M3FN>, tensor<65536xf8E5M2>) {
        %a = msamp.quantize %x, %s : tensor<65536xf32>, tensor<f32> -> tensor<65536xf8E4M3FN>
        %b = msamp.quantize %x, %s : tensor<65536xf32>, tensor<f32> -> tensor<65536xf8E5M2>
        return %a, %b : tensor<65536xf8E4M3FN>, tensor<65536xf8E5M2>
      }
      func.func @decode(%a: tensor<256xf8E4M3FN>, %b: tensor<256xf8E5M2>) -> (tensor<256xf32>, tensor<256xf32>) {
        %x = arith.extf %a : tensor<256xf8E4M3FN> to tensor<256xf32>
        %y = arith.extf %b : tensor<256xf8E5M2> to tensor<256xf32>
        return %x, %y : tensor<256xf32>, tensor<256xf32>
      })",
                                                          &context);
    mlir::PassManager passes(&context);
    passes.addPass(fuse::createFormClusters());
    if (!module || failed(passes.run(*module)))
      throw std::runtime_error("the conversions do not fuse");
    codegen::CpuKernels kernels(&context);
    for (auto func : module->getOps<mlir::func::FuncOp>())
      for (auto cluster : func.getOps<ClusterOp>()) {
        std::string symbol = (func.getName() + std::to_string(names.size())).str();
        if (failed(kernels.addCluster(cluster, symbol)))
          throw std::runtime_error("no kernel for " + symbol);
        // Operands and results by function argument and returned position.
        Call call{symbol, codegen::cpuKernelShape(cluster).chunks, {}, {}};
        for (mlir::Value v : cluster.getInputs())
          call.inputs.push_back(mlir::cast<mlir::BlockArgument>(v).getArgNumber());
        for (mlir::Value v : cluster.getResults())
          call.outputs.push_back(v.getUses().begin()->getOperandNumber());
        names.push_back(call);
      }
    library = std::make_unique<Library>(kernels);
  }

  void encode(const float *x, uint8_t *e4m3, uint8_t *e5m2) const {
    float one = 1;
    run("encode", {const_cast<float *>(x), &one}, {e4m3, e5m2});
  }
  void decode(const uint8_t *e4m3, const uint8_t *e5m2, float *x, float *y) const {
    run("decode", {const_cast<uint8_t *>(e4m3), const_cast<uint8_t *>(e5m2)}, {x, y});
  }

private:
  struct Call {
    std::string symbol;
    int64_t chunks;
    std::vector<unsigned> inputs, outputs;
  };
  void run(const std::string &function, std::vector<void *> inputs, std::vector<void *> outputs) const {
    for (const Call &call : names) {
      if (call.symbol.rfind(function, 0) != 0)
        continue;
      std::vector<void *> args;
      for (unsigned i : call.inputs)
        args.push_back(inputs[i]);
      for (unsigned o : call.outputs)
        args.push_back(outputs[o]);
      for (const char *variant : variants())
        library->kernel(call.symbol + variant)(args.data(), 0, call.chunks);
    }
  }
  // The kernel for any processor, and over it the one for AVX-512 where this processor has it.
  static std::vector<const char *> variants() {
    return __builtin_cpu_supports("avx512bw") ? std::vector<const char *>{".v4"} : std::vector<const char *>{""};
  }

  mlir::MLIRContext context;
  std::vector<Call> names;
  std::unique_ptr<Library> library;
};

} // namespace msamp::test

#endif
