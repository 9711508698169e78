// Kernels of a single row, whose reductions are values without dimensions that the same kernel uses.
#include "tests/unit/codegen/KernelRun.h"

namespace msamp::test {
namespace {

class OneRow : public Kernels {};

// A small weight gradient: its scale is that of its largest value, wherever that is.
TEST_P(OneRow, ScaleOfAllAndQuantise) {
  for (const char *size : {"64x32", "64x64", "128x64", "17x13", "5"}) {
    std::string of = std::string(size) + "x", x = "tensor<" + of + "f32>", q = "tensor<" + of + "f8E4M3FN>",
                dims = std::string(size) == "5" ? "[0]" : "[0, 1]";
    std::string source = "func.func @f(%x: " + x + ") -> (tensor<f32>, " + q + ") {\n %a = math.absf %x : " + x +
                         "\n %m = msamp.reduce max %a dims = " + dims + " : " + x +
                         " -> tensor<f32>\n %s = msamp.scale_of %m f8E4M3FN : tensor<f32> -> tensor<f32>\n %q = msamp.quantize %x, %s : " +
                         x + ", tensor<f32> -> " + q + "\n return %s, %q : tensor<f32>, " + q + " }";
    Outcome r = run(source.c_str());
    EXPECT_EQ(r.clusters, 1u) << size;
    expectEqual(r);
  }
}

// One token alone: its mean and deviation.
TEST_P(OneRow, LayerNorm) {
  for (const char *width : {"5", "128", "3000"}) {
    std::string d = width, x = "tensor<1x" + d + "xf32>", w = "tensor<" + d + "xf32>";
    std::string source = "func.func @f(%x: " + x + ", %g: " + w + ", %b: " + w + ") -> (" + x +
                         ", tensor<1xf32>, tensor<1xf32>) {\n %y, %m, %r = msamp.layer_norm %x scale %g : " + w +
                         " shift %b : " + w + " {eps = 1.0e-5} : " + x + " -> " + x +
                         ", tensor<1xf32>, tensor<1xf32>\n return %y, %m, %r : " + x + ", tensor<1xf32>, tensor<1xf32> }";
    Outcome r = run(source.c_str());
    EXPECT_EQ(r.clusters, 1u) << width;
    expectClose(r, 1e-5);
  }
}

// The label's logit is picked, not summed.
TEST_P(OneRow, CrossEntropy) {
  for (const char *width : {"24", "3000"}) {
    std::string x = std::string("tensor<1x") + width + "xf32>";
    std::string source = "func.func @f(%x: " + x + ", %l: tensor<1xi64>) -> (tensor<f32>, tensor<1xf32>, tensor<f32>) {\n" +
                         " %loss, %lse, %valid = msamp.cross_entropy %x, %l {ignore_index = -100 : i64} : " + x +
                         ", tensor<1xi64> -> tensor<f32>, tensor<1xf32>, tensor<f32>\n" +
                         " return %loss, %lse, %valid : tensor<f32>, tensor<1xf32>, tensor<f32> }";
    expectClose(run(source.c_str(), 3), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, OneRow, ::testing::Values("cpu", "sm_80", "sm_90a"));

} // namespace
} // namespace msamp::test
