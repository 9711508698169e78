// Generated kernels, of the CPU and of a GPU (emulated), against the interpreter, element by element.
#include "tests/unit/codegen/KernelRun.h"

#include <algorithm>

namespace msamp::test {
namespace {

TEST_P(Kernels, PointwiseOnOddSizes) {
  Outcome r = run(R"(func.func @f(%x: tensor<3x7x11xf32>, %y: tensor<3x7x11xf32>) -> tensor<3x7x11xf32> {
    %0 = arith.mulf %x, %y : tensor<3x7x11xf32>
    %1 = arith.addf %0, %x : tensor<3x7x11xf32>
    return %1 : tensor<3x7x11xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 1e-6);
}

TEST_P(Kernels, BiasGeluQuantiseAmaxInOnePass) {
  for (const char *form : {"{tanh}", ""}) {
    std::string source =
        R"(func.func @f(%x: tensor<37x50xbf16>, %bias: tensor<50xbf16>, %s: tensor<f32>) -> (tensor<37x50xf8E4M3FN>, tensor<f32>) {
      %xf = arith.extf %x : tensor<37x50xbf16> to tensor<37x50xf32>
      %bf = arith.extf %bias : tensor<50xbf16> to tensor<50xf32>
      %bb = msamp.broadcast %bf dims = [1] : tensor<50xf32> -> tensor<37x50xf32>
      %h = arith.addf %xf, %bb : tensor<37x50xf32>
      %g = msamp.gelu %h )" +
        std::string(form) + R"( : tensor<37x50xf32> -> tensor<37x50xf32>
      %q = msamp.quantize %g, %s : tensor<37x50xf32>, tensor<f32> -> tensor<37x50xf8E4M3FN>
      %a = math.absf %g : tensor<37x50xf32>
      %m = msamp.reduce max %a dims = [0, 1] : tensor<37x50xf32> -> tensor<f32>
      return %q, %m : tensor<37x50xf8E4M3FN>, tensor<f32> })";
    Outcome r = run(source.c_str());
    EXPECT_EQ(r.clusters, 1u);
    expectClose(r, 1e-3); // a code next to a tie may differ
    EXPECT_NEAR(r.actual[1].data[0], r.expected[1].data[0], 1e-5);
  }
}

// More tiles, or rows, than a GPU has blocks for: each goes over several, and some end before the others.
TEST_P(Kernels, AmaxOfManyTiles) {
  for (const char *size : {"60x4096", "71x2064", "163840", "170000"}) {
    std::string x = "tensor<" + std::string(size) + "xbf16>", f = "tensor<" + std::string(size) + "xf32>",
                q = "tensor<" + std::string(size) + "xf8E4M3FN>", dims = x.find("4096") == x.npos && x.find("2064") == x.npos ? "[0]" : "[0, 1]";
    std::string source = "func.func @f(%x: " + x + ", %s: tensor<f32>) -> (" + q + ", tensor<f32>) {\n %xf = arith.extf %x : " + x +
                         " to " + f + "\n %g = msamp.gelu %xf {tanh} : " + f + " -> " + f +
                         "\n %q = msamp.quantize %g, %s : " + f + ", tensor<f32> -> " + q + "\n %a = math.absf %g : " + f +
                         "\n %m = msamp.reduce max %a dims = " + dims + " : " + f + " -> tensor<f32>\n return %q, %m : " + q +
                         ", tensor<f32> }";
    Outcome r = run(source.c_str());
    EXPECT_EQ(r.clusters, 1u);
    expectClose(r, 1e-3);
    EXPECT_NEAR(r.actual[1].data[0], r.expected[1].data[0], 1e-5) << size;
  }
}

TEST_P(Kernels, AmaxOfManyRowsWithABias) {
  Outcome r = run(
      R"(func.func @f(%x: tensor<217x512xbf16>, %bias: tensor<512xbf16>, %s: tensor<f32>) -> (tensor<217x512xf8E4M3FN>, tensor<f32>) {
    %xf = arith.extf %x : tensor<217x512xbf16> to tensor<217x512xf32>
    %bf = arith.extf %bias : tensor<512xbf16> to tensor<512xf32>
    %bb = msamp.broadcast %bf dims = [1] : tensor<512xf32> -> tensor<217x512xf32>
    %h = arith.addf %xf, %bb : tensor<217x512xf32>
    %q = msamp.quantize %h, %s : tensor<217x512xf32>, tensor<f32> -> tensor<217x512xf8E4M3FN>
    %a = math.absf %h : tensor<217x512xf32>
    %m = msamp.reduce max %a dims = [0, 1] : tensor<217x512xf32> -> tensor<f32>
    return %q, %m : tensor<217x512xf8E4M3FN>, tensor<f32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectEqual(r);
}

// Both directions of the two forms of GELU, far out as well.
TEST_P(Kernels, GeluAndItsSlope) {
  for (const char *form : {"{tanh} ", ""}) {
    std::string t = "tensor<40x64xf32>";
    std::string source = "func.func @f(%x: " + t + ", %d: " + t + ") -> (" + t + ", " + t + ") {\n %y = msamp.gelu %x " + form +
                         ": " + t + " -> " + t + "\n %g = msamp.gelu_grad %d, %x " + form + ": " + t + ", " + t + " -> " + t +
                         "\n return %y, %g : " + t + ", " + t + " }";
    for (double spread : {0.01, 1.0, 30.0})
      expectClose(run(source.c_str(), spread), 1e-5);
  }
}

// Rotary embeddings have angles of as many radians as there are positions.
TEST_P(Kernels, SineAndCosineOfLargeAngles) {
  for (double spread : {1.0, 100.0, 10000.0}) {
    Outcome r = run(R"(func.func @f(%x: tensor<40x64xf32>) -> (tensor<40x64xf32>, tensor<40x64xf32>) {
      %s = math.sin %x : tensor<40x64xf32>
      %c = math.cos %x : tensor<40x64xf32>
      return %s, %c : tensor<40x64xf32>, tensor<40x64xf32> })",
                    spread);
    expectClose(r, 5e-7);
  }
}

TEST_P(Kernels, LayerNormWithStatistics) {
  for (const char *width : {"5", "16", "128", "131"}) {
    std::string d = width,
                source =
                    "func.func @f(%x: tensor<2x9x" + d + "xf32>, %g: tensor<" + d + "xf32>, %b: tensor<" + d +
                    "xf32>) -> (tensor<2x9x" + d +
                    "xf32>, tensor<2x9xf32>, tensor<2x9xf32>) {\n %y, %m, %r = msamp.layer_norm %x scale %g : tensor<" +
                    d + "xf32> shift %b : tensor<" + d + "xf32> {eps = 1.0e-5} : tensor<2x9x" + d +
                    "xf32> -> tensor<2x9x" + d +
                    "xf32>, tensor<2x9xf32>, tensor<2x9xf32>\n return %y, %m, %r : tensor<2x9x" + d +
                    "xf32>, tensor<2x9xf32>, tensor<2x9xf32> }";
    Outcome r = run(source.c_str());
    EXPECT_EQ(r.clusters, 1u);
    expectClose(r, 1e-5);
  }
}

// Embedding and norm: blocks go over rows of the same position, of which there are not equally many for all of them.
TEST_P(Kernels, NormOfRowsWhosePositionsRepeat) {
  Outcome r = run(R"(func.func @f(%x: tensor<5x8x1024xbf16>, %p: tensor<8x1024xbf16>, %g: tensor<1024xf32>, %b: tensor<1024xf32>)
      -> (tensor<40x1024xf32>, tensor<40xf32>, tensor<40xf32>, tensor<f32>) {
    %xf = arith.extf %x : tensor<5x8x1024xbf16> to tensor<5x8x1024xf32>
    %pf = arith.extf %p : tensor<8x1024xbf16> to tensor<8x1024xf32>
    %pb = msamp.broadcast %pf dims = [1, 2] : tensor<8x1024xf32> -> tensor<5x8x1024xf32>
    %s = arith.addf %xf, %pb : tensor<5x8x1024xf32>
    %rows = msamp.reshape %s : tensor<5x8x1024xf32> -> tensor<40x1024xf32>
    %y, %mean, %rstd = msamp.layer_norm %rows scale %g : tensor<1024xf32> shift %b : tensor<1024xf32> {eps = 1.0e-5}
      : tensor<40x1024xf32> -> tensor<40x1024xf32>, tensor<40xf32>, tensor<40xf32>
    %a = math.absf %y : tensor<40x1024xf32>
    %amax = msamp.reduce max %a dims = [0, 1] : tensor<40x1024xf32> -> tensor<f32>
    return %y, %mean, %rstd, %amax : tensor<40x1024xf32>, tensor<40xf32>, tensor<40xf32>, tensor<f32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 1e-5);
}

TEST_P(Kernels, SoftmaxKeepsExponentialsInScratch) {
  Outcome r = run(R"(func.func @f(%x: tensor<4x3x45xf32>) -> tensor<4x3x45xf32> {
    %y = msamp.softmax %x : tensor<4x3x45xf32> -> tensor<4x3x45xf32>
    return %y : tensor<4x3x45xf32> })",
                  5);
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 1e-5);
}

TEST_P(Kernels, CrossEntropyIgnoresLabels) {
  // In registers, and beyond them: from the cache, and from shared memory where it is left.
  for (const char *logits : {"33x24xf32", "9x3000xf32", "5x40001xf32", "5x36000xbf16"}) {
    std::string x = logits, rows = x.substr(0, x.find('x')), f = x.substr(0, x.rfind('x')) + "xf32";
    bool narrow = x.ends_with("bf16");
    std::string source = "func.func @f(%x: tensor<" + x + ">, %l: tensor<" + rows + "xi64>) -> (tensor<f32>, tensor<" + rows +
                         "xf32>, tensor<f32>) {\n" +
                         (narrow ? " %f = arith.extf %x : tensor<" + x + "> to tensor<" + f + ">\n" : "") +
                         " %loss, %lse, %valid = msamp.cross_entropy " + (narrow ? "%f" : "%x") +
                         ", %l {ignore_index = -100 : i64} : tensor<" + f + ">, tensor<" + rows + "xi64> -> tensor<f32>, tensor<" +
                         rows + "xf32>, tensor<f32>\n return %loss, %lse, %valid : tensor<f32>, tensor<" + rows +
                         "xf32>, tensor<f32> }";
    expectClose(run(source.c_str(), 3), 1e-5);
  }
}

// The probabilities less one where the label is: the last column, the first of a chunk, none.
TEST_P(Kernels, OneHotOfLabels) {
  Outcome r = run(R"(func.func @f(%x: tensor<70x24xf32>, %l: tensor<70xi64>) -> (tensor<70x24xf32>, tensor<70xf32>) {
    %c = msamp.iota dim = 1 : tensor<70x24xi64>
    %b = msamp.broadcast %l dims = [0] : tensor<70xi64> -> tensor<70x24xi64>
    %h = arith.cmpi eq, %c, %b : tensor<70x24xi64>
    %one = arith.constant dense<1.0> : tensor<70x24xf32>
    %zero = arith.constant dense<0.0> : tensor<70x24xf32>
    %o = arith.select %h, %one, %zero : tensor<70x24xi1>, tensor<70x24xf32>
    %d = arith.subf %x, %o : tensor<70x24xf32>
    %p = arith.select %h, %x, %zero : tensor<70x24xi1>, tensor<70x24xf32>
    %s = msamp.reduce sum %p dims = [1] : tensor<70x24xf32> -> tensor<70xf32>
    return %d, %s : tensor<70x24xf32>, tensor<70xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectEqual(r);
}

// In rows that are read in loops: labels within the steps of the loop, behind them, and none.
TEST_P(Kernels, OneHotOfLabelsInLongRows) {
  std::string far = " %r0 = msamp.iota dim = 0 : tensor<40xi64>\n"; // 1026 for each row before
  for (int i = 0; i < 10; ++i) {
    std::string half = "%r" + std::to_string(i);
    far += " %r" + std::to_string(i + 1) + " = arith.addi " + half + ", " + half + " : tensor<40xi64>\n";
  }
  far += " %far = arith.addi %r10, %r1 : tensor<40xi64>\n";
  for (const char *size : {"40x40001xf32", "40x40000xf32", "40x40000xbf16"}) {
    std::string x = std::string("tensor<") + size + ">", f = x.substr(0, x.rfind('x')) + "xf32>",
                shape = f.substr(0, f.rfind('x'));
    std::string i = shape + "xi64>", b = shape + "xi1>";
    std::string widen = x == f ? " %f = arith.addf %x, %zero : " + f : " %f = arith.extf %x : " + x + " to " + f;
    std::string source =
        "func.func @f(%x: " + x + ", %l: tensor<40xi64>) -> " + x + " {\n %zero = arith.constant dense<0.0> : " + f +
        "\n %one = arith.constant dense<1.0> : " + f + "\n" + far + widen + "\n %y = msamp.softmax %f : " + f + " -> " +
        f + "\n %k = arith.addi %l, %far : tensor<40xi64>\n %c = msamp.iota dim = 1 : " + i +
        "\n %n = msamp.broadcast %k dims = [0] : tensor<40xi64> -> " + i + "\n %h = arith.cmpi eq, %c, %n : " + i +
        "\n %o = arith.select %h, %one, %zero : " + b + ", " + f + "\n %d = arith.subf %y, %o : " + f +
        (x == f ? "\n return %d : " : "\n %t = arith.truncf %d : " + f + " to " + x + "\n return %t : ") + x + " }";
    Outcome r = run(source.c_str(), 3);
    EXPECT_EQ(r.clusters, 1u) << size;
    expectClose(r, x == f ? 1e-5 : 4e-3);
    EXPECT_LT(*std::min_element(r.actual[0].data.begin(), r.actual[0].data.end()), -0.9) << "no label in any row";
  }
}

// Classes that a GEMM was given for its alignment are left out, so that the label's logit is summed with the others.
TEST_P(Kernels, CrossEntropyOfPaddedLogits) {
  const std::string x = "tensor<4x40000xbf16>", f = "tensor<4x40000xf32>", i = "tensor<4x40000xi64>";
  const std::string b = "tensor<4x40000xi1>", r = "tensor<4xf32>";
  std::string source =
      "func.func @f(%x: " + x + ", %l: tensor<4xi64>) -> (" + r + ", " + r + ", " + x +
      ") {\n %f = arith.extf %x : " + x + " to " + f + "\n %zero = arith.constant dense<0.0> : " + f +
      "\n %low = arith.constant dense<-1.0e30> : " + f + "\n %one = arith.constant dense<1.0> : " + f +
      "\n %count = arith.constant dense<39990> : " + i + "\n %c = msamp.iota dim = 1 : " + i +
      "\n %valid = arith.cmpi slt, %c, %count : " + i + "\n %n = msamp.broadcast %l dims = [0] : tensor<4xi64> -> " +
      i + "\n %h = arith.cmpi eq, %c, %n : " + i + "\n %v = arith.select %valid, %f, %low : " + b + ", " + f +
      "\n %m = msamp.reduce max %v dims = [1] : " + f + " -> " + r + "\n %p = arith.select %h, %f, %zero : " + b +
      ", " + f + "\n %q = arith.select %valid, %p, %zero : " + b + ", " + f +
      "\n %s = msamp.reduce sum %q dims = [1] : " + f + " -> " + r + "\n %mb = msamp.broadcast %m dims = [0] : " + r +
      " -> " + f + "\n %d = arith.subf %f, %mb : " + f + "\n %o = arith.select %h, %one, %zero : " + b + ", " + f +
      "\n %g = arith.subf %d, %o : " + f + "\n %t = arith.truncf %g : " + f + " to " + x +
      "\n return %m, %s, %t : " + r + ", " + r + ", " + x + " }";
  Outcome outcome = run(source.c_str(), 3);
  EXPECT_EQ(outcome.clusters, 1u);
  expectClose(outcome, 4e-3);
}

TEST_P(Kernels, ColumnSumsBesideWhatReadsTheSameTensor) {
  Outcome r = run(
      R"(func.func @f(%dy: tensor<70x48xbf16>, %s: tensor<f32>) -> (tensor<48xf32>, tensor<70x48xf8E5M2>, tensor<f32>) {
    %x = arith.extf %dy : tensor<70x48xbf16> to tensor<70x48xf32>
    %sum = msamp.reduce sum %x dims = [0] : tensor<70x48xf32> -> tensor<48xf32>
    %q = msamp.quantize %x, %s : tensor<70x48xf32>, tensor<f32> -> tensor<70x48xf8E5M2>
    %a = math.absf %x : tensor<70x48xf32>
    %m = msamp.reduce max %a dims = [0, 1] : tensor<70x48xf32> -> tensor<f32>
    return %sum, %q, %m : tensor<48xf32>, tensor<70x48xf8E5M2>, tensor<f32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 1e-5);
}

TEST_P(Kernels, BothLayoutsAndRoundedColumnSumsInOnePass) {
  Outcome r = run(
      R"(func.func @f(%dy: tensor<70x48xbf16>, %s: tensor<f32>) -> (tensor<48xbf16>, tensor<70x48xf8E5M2>, tensor<48x70xf8E5M2>) {
    %x = arith.extf %dy : tensor<70x48xbf16> to tensor<70x48xf32>
    %sum = msamp.reduce sum %x dims = [0] : tensor<70x48xf32> -> tensor<48xbf16>
    %q = msamp.quantize %x, %s : tensor<70x48xf32>, tensor<f32> -> tensor<70x48xf8E5M2>
    %t = msamp.transpose %q perm = [1, 0] {msamp.stored} : tensor<70x48xf8E5M2> -> tensor<48x70xf8E5M2>
    return %sum, %q, %t : tensor<48xbf16>, tensor<70x48xf8E5M2>, tensor<48x70xf8E5M2> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 3e-3);
}

TEST_P(Kernels, TransposedCopyAlone) {
  Outcome r = run(R"(func.func @f(%x: tensor<37x50xbf16>) -> tensor<50x37xbf16> {
    %t = msamp.transpose %x perm = [1, 0] {msamp.stored} : tensor<37x50xbf16> -> tensor<50x37xbf16>
    return %t : tensor<50x37xbf16> })");
  EXPECT_EQ(r.clusters, 1u);
  expectEqual(r);
}

// Rows that a GPU shares out to several warps, and rows that it reads again for each stage.
TEST_P(Kernels, SoftmaxOfLongRows) {
  for (const char *width : {"3000", "40000", "40001"}) {
    std::string type = std::string("tensor<3x") + width + "xf32>";
    std::string source = "func.func @f(%x: " + type + ") -> " + type + " {\n %y = msamp.softmax %x : " + type + " -> " +
                         type + "\n return %y : " + type + " }";
    Outcome r = run(source.c_str(), 5);
    EXPECT_EQ(r.clusters, 1u);
    expectClose(r, 1e-5);
  }
}

// Rows that fit into shared memory, where the first stage leaves them for the others.
TEST_P(Kernels, SoftmaxOfLongNarrowRows) {
  for (const char *width : {"33000", "33001"}) {
    std::string x = std::string("tensor<3x") + width + "xbf16>", f = std::string("tensor<3x") + width + "xf32>";
    std::string source = "func.func @f(%x: " + x + ") -> " + x + " {\n %f = arith.extf %x : " + x + " to " + f +
                         "\n %y = msamp.softmax %f : " + f + " -> " + f + "\n %t = arith.truncf %y : " + f + " to " + x +
                         "\n return %t : " + x + " }";
    Outcome r = run(source.c_str(), 3);
    EXPECT_EQ(r.clusters, 1u);
    expectClose(r, 1e-3);
  }
}

TEST_P(Kernels, RowsInBothLayoutsWithColumnSums) {
  for (const char *size : {"48x768", "80x128", "176x64", "32x1040", "16x2048", "16x4096", "32x36"}) {
    std::string shape = size, rows = shape.substr(0, shape.find('x')), columns = shape.substr(shape.find('x') + 1);
    std::string x = "tensor<" + shape + "xf32>", q = "tensor<" + shape + "xf8E4M3FN>",
                t = "tensor<" + columns + "x" + rows + "xf8E4M3FN>", c = "tensor<" + columns + "xf32>";
    std::string source = "func.func @f(%x: " + x + ", %s: tensor<f32>) -> (" + q + ", " + t + ", " + c +
                         ") {\n %y, %r = msamp.rms_norm %x {eps = 1.0e-5} : " + x + " -> " + x + ", tensor<" + rows +
                         "xf32>\n %q = msamp.quantize %y, %s : " + x + ", tensor<f32> -> " + q +
                         "\n %t = msamp.transpose %q perm = [1, 0] {msamp.stored} : " + q + " -> " + t +
                         "\n %c = msamp.reduce sum %y dims = [0] : " + x + " -> " + c + "\n return %q, %t, %c : " + q +
                         ", " + t + ", " + c + " }";
    Outcome r = run(source.c_str());
    // Long rows leave the copy to a kernel of its own.
    EXPECT_EQ(r.clusters, std::stoi(columns) > 2048 ? 2u : 1u) << size;
    expectClose(r, 3e-3);
  }
}

// A block has room for 32 rows of 2048 values of both, for 64 of 1280.
TEST_P(Kernels, TwoTransposedResultsWithColumnSums) {
  for (const char *size : {"256x2048", "96x2048", "128x1280"}) {
    std::string shape = size, rows = shape.substr(0, shape.find('x')), columns = shape.substr(shape.find('x') + 1);
    std::string x = "tensor<" + shape + "xbf16>", f = "tensor<" + shape + "xf32>", c = "tensor<" + columns + "xf32>",
                qt = "tensor<" + columns + "x" + rows + "xf8E4M3FN>",
                gt = "tensor<" + columns + "x" + rows + "xf8E5M2>";
    std::string source =
        "func.func @f(%x: " + x + ", %z: " + x + ", %s: tensor<f32>) -> (" + f + ", " + qt + ", " + gt + ", " + c +
        ") {\n %xf = arith.extf %x : " + x + " to " + f + "\n %zf = arith.extf %z : " + x + " to " + f +
        "\n %y, %r = msamp.rms_norm %xf {eps = 1.0e-5} : " + f + " -> " + f + ", tensor<" + rows +
        "xf32>\n %g = arith.addf %y, %zf : " + f + "\n %q = msamp.quantize %y, %s : " + f + ", tensor<f32> -> tensor<" +
        shape + "xf8E4M3FN>\n %t = msamp.transpose %q perm = [1, 0] {msamp.stored} : tensor<" + shape +
        "xf8E4M3FN> -> " + qt + "\n %p = msamp.quantize %g, %s : " + f + ", tensor<f32> -> tensor<" + shape +
        "xf8E5M2>\n %u = msamp.transpose %p perm = [1, 0] {msamp.stored} : tensor<" + shape + "xf8E5M2> -> " + gt +
        "\n %c = msamp.reduce sum %g dims = [0] : " + f + " -> " + c + "\n return %g, %t, %u, %c : " + f + ", " + qt +
        ", " + gt + ", " + c + " }";
    Outcome r = run(source.c_str());
    EXPECT_EQ(r.clusters, 1u) << size;
    expectClose(r, 3e-3);
  }
}

// Rows that are no multiple of 16 are stored as rows; the copy is a kernel of its own.
TEST_P(Kernels, TransposedCopyOfRows) {
  Outcome r =
      run(R"(func.func @f(%x: tensor<40x64xf32>, %s: tensor<f32>) -> (tensor<40x64xf32>, tensor<64x40xf8E4M3FN>) {
    %y = msamp.softmax %x : tensor<40x64xf32> -> tensor<40x64xf32>
    %q = msamp.quantize %y, %s : tensor<40x64xf32>, tensor<f32> -> tensor<40x64xf8E4M3FN>
    %t = msamp.transpose %q perm = [1, 0] {msamp.stored} : tensor<40x64xf8E4M3FN> -> tensor<64x40xf8E4M3FN>
    return %y, %t : tensor<40x64xf32>, tensor<64x40xf8E4M3FN> })");
  EXPECT_EQ(r.clusters, 2u);
  expectClose(r, 3e-3);
}

TEST_P(Kernels, RowScalesAndQuantiseInOnePass) {
  Outcome r = run(R"(func.func @f(%x: tensor<19x40xf32>) -> (tensor<19x40xf8E4M3FN>, tensor<19xf32>) {
    %a = math.absf %x : tensor<19x40xf32>
    %m = msamp.reduce max %a dims = [1] : tensor<19x40xf32> -> tensor<19xf32>
    %s = msamp.scale_of %m f8E4M3FN : tensor<19xf32> -> tensor<19xf32>
    %q = msamp.quantize %x, %s : tensor<19x40xf32>, tensor<19xf32> -> tensor<19x40xf8E4M3FN>
    return %q, %s : tensor<19x40xf8E4M3FN>, tensor<19xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectEqual(r);
}

// Blocks of 1x128: rows of a reshaped tensor, whatever computes it.
TEST_P(Kernels, ScalesOfBlocksInOnePass) {
  Outcome r = run(R"(func.func @f(%h: tensor<24x384xbf16>) -> (tensor<24x384xf8E4M3FN>, tensor<24x3xf32>) {
    %w = arith.extf %h : tensor<24x384xbf16> to tensor<24x384xf32>
    %g = msamp.gelu %w : tensor<24x384xf32> -> tensor<24x384xf32>
    %n = arith.truncf %g : tensor<24x384xf32> to tensor<24x384xbf16>
    %p = msamp.reshape %n : tensor<24x384xbf16> -> tensor<24x3x128xbf16>
    %x = arith.extf %p : tensor<24x3x128xbf16> to tensor<24x3x128xf32>
    %a = math.absf %x : tensor<24x3x128xf32>
    %m = msamp.reduce max %a dims = [2] : tensor<24x3x128xf32> -> tensor<24x3xf32>
    %s = msamp.scale_of %m f8E4M3FN : tensor<24x3xf32> -> tensor<24x3xf32>
    %q = msamp.quantize %x, %s : tensor<24x3x128xf32>, tensor<24x3xf32> -> tensor<24x3x128xf8E4M3FN>
    %j = msamp.reshape %q : tensor<24x3x128xf8E4M3FN> -> tensor<24x384xf8E4M3FN>
    return %j, %s : tensor<24x384xf8E4M3FN>, tensor<24x3xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 0.07); // a value that GELU rounds otherwise may be another code
}

// Blocks of tokens: rows across memory, of which neighbours are read together.
TEST_P(Kernels, ScalesOfBlocksOfTheTransposed) {
  Outcome r = run(R"(func.func @f(%h: tensor<256x48xbf16>) -> (tensor<48x256xf8E5M2>, tensor<48x2xf32>) {
    %t = msamp.transpose %h perm = [1, 0] : tensor<256x48xbf16> -> tensor<48x256xbf16>
    %p = msamp.reshape %t : tensor<48x256xbf16> -> tensor<48x2x128xbf16>
    %x = arith.extf %p : tensor<48x2x128xbf16> to tensor<48x2x128xf32>
    %a = math.absf %x : tensor<48x2x128xf32>
    %m = msamp.reduce max %a dims = [2] : tensor<48x2x128xf32> -> tensor<48x2xf32>
    %s = msamp.scale_of %m f8E5M2 : tensor<48x2xf32> -> tensor<48x2xf32>
    %q = msamp.quantize %x, %s : tensor<48x2x128xf32>, tensor<48x2xf32> -> tensor<48x2x128xf8E5M2>
    %j = msamp.reshape %q : tensor<48x2x128xf8E5M2> -> tensor<48x256xf8E5M2>
    return %j, %s : tensor<48x256xf8E5M2>, tensor<48x2xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectEqual(r);
}

// What is stored along the rows as well is not stored by the kernel that goes across them.
TEST_P(Kernels, BlocksOfTheTransposedOfWhatIsStored) {
  Outcome r = run(R"(func.func @f(%h: tensor<128x64xbf16>) -> (tensor<128x64xbf16>, tensor<64x128xf8E4M3FN>, tensor<64x1xf32>) {
    %w = arith.extf %h : tensor<128x64xbf16> to tensor<128x64xf32>
    %g = arith.negf %w : tensor<128x64xf32>
    %n = arith.truncf %g : tensor<128x64xf32> to tensor<128x64xbf16>
    %t = msamp.transpose %n perm = [1, 0] : tensor<128x64xbf16> -> tensor<64x128xbf16>
    %p = msamp.reshape %t : tensor<64x128xbf16> -> tensor<64x1x128xbf16>
    %x = arith.extf %p : tensor<64x1x128xbf16> to tensor<64x1x128xf32>
    %a = math.absf %x : tensor<64x1x128xf32>
    %m = msamp.reduce max %a dims = [2] : tensor<64x1x128xf32> -> tensor<64x1xf32>
    %s = msamp.scale_of %m f8E4M3FN : tensor<64x1xf32> -> tensor<64x1xf32>
    %q = msamp.quantize %x, %s : tensor<64x1x128xf32>, tensor<64x1xf32> -> tensor<64x1x128xf8E4M3FN>
    %j = msamp.reshape %q : tensor<64x1x128xf8E4M3FN> -> tensor<64x128xf8E4M3FN>
    return %n, %j, %s : tensor<128x64xbf16>, tensor<64x128xf8E4M3FN>, tensor<64x1xf32> })");
  EXPECT_EQ(r.clusters, 2u);
  expectEqual(r);
}

// Blocks of 128x128: the largest values of rows, of blocks, and a pass that quantises.
TEST_P(Kernels, ScalesOfSquareBlocks) {
  Outcome r = run(R"(func.func @f(%w: tensor<256x384xbf16>) -> (tensor<256x384xf8E4M3FN>, tensor<2x3xf32>) {
    %p = msamp.reshape %w : tensor<256x384xbf16> -> tensor<2x128x3x128xbf16>
    %x = arith.extf %p : tensor<2x128x3x128xbf16> to tensor<2x128x3x128xf32>
    %a = math.absf %x : tensor<2x128x3x128xf32>
    %m = msamp.reduce max %a dims = [1, 3] : tensor<2x128x3x128xf32> -> tensor<2x3xf32>
    %s = msamp.scale_of %m f8E4M3FN : tensor<2x3xf32> -> tensor<2x3xf32>
    %r = msamp.broadcast %s dims = [0, 2] : tensor<2x3xf32> -> tensor<2x128x3xf32>
    %q = msamp.quantize %x, %r : tensor<2x128x3x128xf32>, tensor<2x128x3xf32> -> tensor<2x128x3x128xf8E4M3FN>
    %j = msamp.reshape %q : tensor<2x128x3x128xf8E4M3FN> -> tensor<256x384xf8E4M3FN>
    return %j, %s : tensor<256x384xf8E4M3FN>, tensor<2x3xf32> })");
  EXPECT_EQ(r.clusters, 4u);
  expectEqual(r);
}

// The sum over all rows of what is quantised by blocks is not for the kernel whose rows are blocks.
TEST_P(Kernels, SumsBesideBlocks) {
  Outcome r = run(R"(func.func @f(%x: tensor<64x256xf32>) -> (tensor<64x256xf8E5M2>, tensor<64x2xf32>, tensor<256xf32>) {
    %n = arith.negf %x : tensor<64x256xf32>
    %b = msamp.reduce sum %n dims = [0] : tensor<64x256xf32> -> tensor<256xf32>
    %p = msamp.reshape %n : tensor<64x256xf32> -> tensor<64x2x128xf32>
    %a = math.absf %p : tensor<64x2x128xf32>
    %m = msamp.reduce max %a dims = [2] : tensor<64x2x128xf32> -> tensor<64x2xf32>
    %s = msamp.scale_of %m f8E5M2 : tensor<64x2xf32> -> tensor<64x2xf32>
    %q = msamp.quantize %p, %s : tensor<64x2x128xf32>, tensor<64x2xf32> -> tensor<64x2x128xf8E5M2>
    %j = msamp.reshape %q : tensor<64x2x128xf8E5M2> -> tensor<64x256xf8E5M2>
    return %j, %s, %b : tensor<64x256xf8E5M2>, tensor<64x2xf32>, tensor<256xf32> })");
  EXPECT_EQ(r.clusters, 2u);
  expectClose(r, 1e-5);
}

TEST_P(Kernels, ScaleOfEveryBinade) {
  for (const char *format : {"f8E4M3FN", "f8E5M2", "f16"}) {
    std::string source = "func.func @f(%x: tensor<512xf32>) -> tensor<512xf32> {\n %a = math.absf %x : "
                         "tensor<512xf32>\n %e = math.exp %a : tensor<512xf32>\n %s = msamp.scale_of %e " +
                         std::string(format) + " : tensor<512xf32> -> tensor<512xf32>\n return %s : tensor<512xf32> }";
    expectEqual(run(source.c_str(), 20));
  }
}

TEST_P(Kernels, RotaryOfAViewOfQkv) {
  Outcome r = run(
      R"(func.func @f(%qkv: tensor<10x96xbf16>, %cos: tensor<5x16xf32>, %sin: tensor<5x16xf32>) -> tensor<2x5x2x16xbf16> {
    %r = msamp.reshape %qkv : tensor<10x96xbf16> -> tensor<2x5x3x2x16xbf16>
    %s = msamp.slice %r starts = [0, 0, 1, 0, 0] strides = [1, 1, 1, 1, 1] : tensor<2x5x3x2x16xbf16> -> tensor<2x5x1x2x16xbf16>
    %k = msamp.reshape %s : tensor<2x5x1x2x16xbf16> -> tensor<2x5x2x16xbf16>
    %x = arith.extf %k : tensor<2x5x2x16xbf16> to tensor<2x5x2x16xf32>
    %c = msamp.broadcast %cos dims = [1, 3] : tensor<5x16xf32> -> tensor<2x5x2x16xf32>
    %n = msamp.broadcast %sin dims = [1, 3] : tensor<5x16xf32> -> tensor<2x5x2x16xf32>
    %y = msamp.rotary %x, %c, %n : tensor<2x5x2x16xf32>, tensor<2x5x2x16xf32>, tensor<2x5x2x16xf32> -> tensor<2x5x2x16xf32>
    %t = arith.truncf %y : tensor<2x5x2x16xf32> to tensor<2x5x2x16xbf16>
    return %t : tensor<2x5x2x16xbf16> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 4e-3);
}

TEST_P(Kernels, SumOverBatchAndOverInnerAndOuter) {
  Outcome r = run(R"(func.func @f(%x: tensor<6x5x18xf32>) -> (tensor<5x18xf32>, tensor<5xf32>) {
    %n = arith.negf %x : tensor<6x5x18xf32>
    %a = msamp.reduce sum %n dims = [0] : tensor<6x5x18xf32> -> tensor<5x18xf32>
    %b = msamp.reduce sum %x dims = [0, 2] : tensor<6x5x18xf32> -> tensor<5xf32>
    return %a, %b : tensor<5x18xf32>, tensor<5xf32> })");
  expectClose(r, 1e-5);
}

// More sums over the batch than blocks: each goes over several of them.
TEST_P(Kernels, RowsWithManySumsOverBatch) {
  Outcome r = run(
      R"(func.func @f(%x: tensor<2x2120x16xf32>) -> (tensor<2x2120x16xf32>, tensor<2120x16xf32>, tensor<16xf32>) {
    %y = msamp.softmax %x : tensor<2x2120x16xf32> -> tensor<2x2120x16xf32>
    %a = msamp.reduce sum %y dims = [0] : tensor<2x2120x16xf32> -> tensor<2120x16xf32>
    %b = msamp.reduce sum %y dims = [0, 1] : tensor<2x2120x16xf32> -> tensor<16xf32>
    return %y, %a, %b : tensor<2x2120x16xf32>, tensor<2120x16xf32>, tensor<16xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 1e-5);
}

TEST_P(Kernels, SumOverAMiddleDimension) {
  Outcome r = run(R"(func.func @f(%x: tensor<4x6x3x20xf32>) -> tensor<4x3x20xf32> {
    %e = math.exp %x : tensor<4x6x3x20xf32>
    %a = msamp.reduce sum %e dims = [1] : tensor<4x6x3x20xf32> -> tensor<4x3x20xf32>
    return %a : tensor<4x3x20xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 1e-5);
}

TEST_P(Kernels, TransposedReadsAndBroadcastAlongRows) {
  Outcome r = run(R"(func.func @f(%x: tensor<6x10xf32>, %y: tensor<10x6xf32>, %v: tensor<10xf32>) -> tensor<10x6xf32> {
    %t = msamp.transpose %x perm = [1, 0] : tensor<6x10xf32> -> tensor<10x6xf32>
    %b = msamp.broadcast %v dims = [0] : tensor<10xf32> -> tensor<10x6xf32>
    %0 = arith.mulf %t, %y : tensor<10x6xf32>
    %1 = arith.addf %0, %b : tensor<10x6xf32>
    return %1 : tensor<10x6xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 1e-6);
}

TEST_P(Kernels, NormBackwardInOneKernel) {
  // dx of a layer norm, its scale's gradient and its shift's, from dy, x and the statistics.
  Outcome r = run(
      R"(func.func @f(%dy: tensor<40x64xf32>, %x: tensor<40x64xf32>, %g: tensor<64xf32>, %mean: tensor<40xf32>, %rstd: tensor<40xf32>)
      -> (tensor<40x64xf32>, tensor<64xf32>, tensor<64xf32>) {
    %mb = msamp.broadcast %mean dims = [0] : tensor<40xf32> -> tensor<40x64xf32>
    %rb = msamp.broadcast %rstd dims = [0] : tensor<40xf32> -> tensor<40x64xf32>
    %gb = msamp.broadcast %g dims = [1] : tensor<64xf32> -> tensor<40x64xf32>
    %c = arith.subf %x, %mb : tensor<40x64xf32>
    %xh = arith.mulf %c, %rb : tensor<40x64xf32>
    %p = arith.mulf %dy, %xh : tensor<40x64xf32>
    %dg = msamp.reduce sum %p dims = [0] : tensor<40x64xf32> -> tensor<64xf32>
    %db = msamp.reduce sum %dy dims = [0] : tensor<40x64xf32> -> tensor<64xf32>
    %dxh = arith.mulf %dy, %gb : tensor<40x64xf32>
    %q = arith.mulf %dxh, %xh : tensor<40x64xf32>
    %s1 = msamp.reduce sum %dxh dims = [1] : tensor<40x64xf32> -> tensor<40xf32>
    %s2 = msamp.reduce sum %q dims = [1] : tensor<40x64xf32> -> tensor<40xf32>
    %k = arith.constant dense<1.5625e-2> : tensor<40xf32>
    %m1 = arith.mulf %s1, %k : tensor<40xf32>
    %m2 = arith.mulf %s2, %k : tensor<40xf32>
    %b1 = msamp.broadcast %m1 dims = [0] : tensor<40xf32> -> tensor<40x64xf32>
    %b2 = msamp.broadcast %m2 dims = [0] : tensor<40xf32> -> tensor<40x64xf32>
    %u = arith.mulf %xh, %b2 : tensor<40x64xf32>
    %d1 = arith.subf %dxh, %b1 : tensor<40x64xf32>
    %d2 = arith.subf %d1, %u : tensor<40x64xf32>
    %dx = arith.mulf %d2, %rb : tensor<40x64xf32>
    return %dx, %dg, %db : tensor<40x64xf32>, tensor<64xf32>, tensor<64xf32> })");
  EXPECT_EQ(r.clusters, 1u);
  expectClose(r, 1e-5);
}

// As products of targets without FP8 read them: written beside the FP8 by the kernel that quantises, and from FP8 in memory by the
// backward's. Scales are powers of two, so both are exact.
TEST_P(Kernels, Fp8ValuesInBf16) {
  for (const char *format : {"f8E4M3FN", "f8E5M2"}) {
    std::string f = format, source = R"(func.func @f(%x: tensor<24x80xf32>, %amax: tensor<f32>)
      -> (tensor<24x80xFP8>, tensor<24x80xbf16>, tensor<24x80xbf16>) {
      %one = arith.constant dense<1.0> : tensor<f32>
      %largest = math.absf %amax : tensor<f32>
      %s = msamp.scale_of %largest FP8 : tensor<f32> -> tensor<f32>
      %q = msamp.quantize %x, %s : tensor<24x80xf32>, tensor<f32> -> tensor<24x80xFP8>
      %i = arith.divf %one, %s : tensor<f32>
      %b = msamp.broadcast %i dims = [] : tensor<f32> -> tensor<24x80xf32>
      %e = arith.extf %q : tensor<24x80xFP8> to tensor<24x80xf32>
      %m = arith.mulf %e, %b : tensor<24x80xf32>
      %h = arith.truncf %m : tensor<24x80xf32> to tensor<24x80xbf16>
      %e2 = arith.extf %q {msamp.backward} : tensor<24x80xFP8> to tensor<24x80xf32>
      %m2 = arith.mulf %e2, %b {msamp.backward} : tensor<24x80xf32>
      %h2 = arith.truncf %m2 {msamp.backward} : tensor<24x80xf32> to tensor<24x80xbf16>
      return %q, %h, %h2 : tensor<24x80xFP8>, tensor<24x80xbf16>, tensor<24x80xbf16> })";
    for (size_t at; (at = source.find("FP8")) != std::string::npos;)
      source.replace(at, 3, f);
    Outcome r = run(source.c_str());
    EXPECT_EQ(r.clusters, 2u);
    expectEqual(r);
    ASSERT_EQ(r.actual.size(), 3u);
    EXPECT_EQ(r.actual[1].data, r.actual[2].data);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, ::testing::Values("cpu", "sm_80", "sm_90a"));

} // namespace
} // namespace msamp::test
