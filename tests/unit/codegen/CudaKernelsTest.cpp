// GPU kernels as far as they can be checked without a GPU: PTX is written for every architecture and needs no library;
// where there is an assembler it takes it, without spills.
#include "codegen/cuda/CudaKernels.h"
#include "passes/partition/StateClasses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

namespace msamp::test {
namespace {

using codegen::cuda::Target;

// A folder for PTX and what becomes of it.
struct Folder {
  Folder() {
    std::string name = "/tmp/msamp-cuda-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

// The PTX of `kernels`; assembled as well where that can be done.
std::string ptxOf(codegen::cuda::CudaKernels &kernels, const Target &target) {
  Folder folder;
  const std::string ptx = folder.path / "kernels.ptx";
  if (failed(kernels.writePtx(ptx))) {
    ADD_FAILURE() << "no PTX";
    return "";
  }
  std::ifstream in(ptx);
  std::stringstream text;
  text << in.rdbuf();
  if (std::string assembler = codegen::cuda::findAssembler(); !assembler.empty()) {
    std::vector<codegen::cuda::EntryUsage> usage;
    std::string message;
    EXPECT_TRUE(
        succeeded(codegen::cuda::assemble(assembler, target, ptx, folder.path / "kernels.cubin", usage, message)))
        << message;
    for (const auto &entry : usage) {
      EXPECT_EQ(entry.spillBytes, 0) << entry.symbol;
      EXPECT_GT(entry.registers, 0) << entry.symbol;
    }
  }
  return text.str();
}

class CudaTarget : public ::testing::TestWithParam<const char *> {
protected:
  Target target = *Target::parse(GetParam());
};

TEST_P(CudaTarget, UpdatesOfAllClassesAndOptimizers) {
  mlir::MLIRContext context;
  codegen::cuda::CudaKernels kernels(&context, target);
  std::vector<std::string> symbols;
  for (const char *level : {"fp32", "bf16", "O1", "O2", "O3"})
    for (const char *name : {"plain", "scaled"})
      for (const char *optimizer : {"adamw", "adam", "sgd"}) {
        if (std::string(name) == "scaled" && !partition::isFp8Level(level))
          continue;
        symbols.push_back(std::string("update_") + level + "_" + name + "_" + optimizer);
        codegen::cuda::KernelEntry entry;
        int64_t blocksPerCta = 0;
        auto storage = partition::storageOf(level, name, optimizer, 1);
        ASSERT_TRUE(succeeded(kernels.addUpdate(symbols.back(), storage, optimizer, entry, blocksPerCta)));
        EXPECT_EQ(entry.symbol, symbols.back());
        EXPECT_EQ(entry.block, 128);
        EXPECT_EQ(blocksPerCta, 16);
      }
  std::string ptx = ptxOf(kernels, target);
  for (const std::string &symbol : symbols)
    EXPECT_NE(ptx.find(".visible .entry " + symbol + "("), std::string::npos) << symbol;
  EXPECT_EQ(ptx.find(".extern"), std::string::npos);
  EXPECT_EQ(ptx.find("e4m3x2") != std::string::npos, target.fp8Conversion);
}

// Functions of one operation each, on scalars and vectors.
std::string functions() {
  std::ostringstream out;
  const char *widths[] = {"", "1", "2", "3", "4", "8", "16"};
  auto of = [](const std::string &width, const std::string &element) {
    return width.empty() ? element : "vector<" + width + "x" + element + ">";
  };
  int number = 0;
  for (const char *width : widths) {
    std::string f32 = of(width, "f32");
    for (const char *format : {"f8E4M3FN", "f8E5M2", "bf16", "f16"}) {
      const std::string element = format, narrow = of(width, element);
      const std::string bits = of(width, element.starts_with("f8") ? "i8" : "i16");
      out << "func.func @narrow" << ++number << "(%x: " << f32 << ") -> " << bits
          << " {\n  %y = arith.truncf %x : " << f32 << " to " << narrow << "\n  %b = arith.bitcast %y : " << narrow
          << " to " << bits << "\n  return %b : " << bits << "\n}\n";
      out << "func.func @widen" << ++number << "(%b: " << bits << ") -> " << f32
          << " {\n  %x = arith.bitcast %b : " << bits << " to " << narrow << "\n  %y = arith.extf %x : " << narrow
          << " to " << f32 << "\n  return %y : " << f32 << "\n}\n";
    }
    for (const char *function :
         {"exp", "exp2", "expm1", "log",  "log2", "log1p", "tanh", "erf",   "sqrt",      "rsqrt", "sin",
          "cos", "tan",  "atan",  "sinh", "cosh", "floor", "ceil", "round", "roundeven", "trunc", "absf"})
      out << "func.func @" << function << ++number << "(%x: " << f32 << ") -> " << f32 << " {\n  %y = math." << function
          << " %x : " << f32 << "\n  return %y : " << f32 << "\n}\n";
    for (const char *function : {"arith.divf", "arith.maximumf", "arith.minimumf", "math.powf"})
      out << "func.func @binary" << ++number << "(%x: " << f32 << ", %z: " << f32 << ") -> " << f32
          << " {\n  %y = " << function << " %x, %z : " << f32 << "\n  return %y : " << f32 << "\n}\n";
  }
  return out.str();
}

TEST_P(CudaTarget, ConversionsAndMathNeedNoLibrary) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::func::FuncDialect>();
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  codegen::cuda::CudaKernels kernels(&context, target);
  auto parsed = mlir::parseSourceString<mlir::ModuleOp>(functions(), &context);
  ASSERT_TRUE(parsed);
  int count = 0;
  for (auto func : llvm::make_early_inc_range(parsed->getOps<mlir::func::FuncOp>())) {
    func->moveBefore(kernels.kernels().getBody(), kernels.kernels().getBody()->end());
    ++count;
  }
  std::string ptx = ptxOf(kernels, target);
  EXPECT_EQ(ptx.find(".extern"), std::string::npos);
  EXPECT_EQ(ptx.find("cvt.rn.satfinite.e4m3x2.f32") != std::string::npos, target.fp8Conversion);
  EXPECT_EQ(ptx.find("cvt.rn.f16x2.e5m2x2") != std::string::npos, target.fp8Conversion);
  size_t found = 0;
  for (size_t at = 0; (at = ptx.find(".visible .func", at)) != std::string::npos; ++at)
    ++found;
  EXPECT_GE(found, static_cast<size_t>(count));
  if (codegen::cuda::findAssembler().empty())
    GTEST_SKIP() << "no ptxas here: the PTX was not assembled";
}

INSTANTIATE_TEST_SUITE_P(All, CudaTarget, ::testing::Values("sm_80", "sm_90a", "sm_100a"),
                         [](const auto &info) { return std::string(info.param); });

TEST(CudaTargets, OthersAreUnknown) {
  EXPECT_FALSE(Target::parse("cpu"));
  EXPECT_FALSE(Target::parse("sm_75"));
}

} // namespace
} // namespace msamp::test
