// Values that follow from shapes and constants, by the definitions of the ONNX operators.
#include "ModelFile.h"

#include <cmath>

namespace msamp::frontend::test {
namespace {

using Values = std::vector<double>;

// A graph from `x` [2, 3] (float) and the given initializers to the output `y`.
struct Folded {
  Folded(const std::string &initializers, const std::string &nodes, const std::string &type = "int64[n]",
         int opset = 18)
      : file(withHeader("agraph (float[2, 3] x) => (" + type + " y) <" + initializers + "> {" + nodes + "}", opset)),
        imported(file) {}
  operator Values() { return imported.folded(); }
  ModelFile file;
  Imported imported;
};

#define EXPECT_FOLDED(expected, ...)                                                                                   \
  do {                                                                                                                 \
    Folded f(__VA_ARGS__);                                                                                             \
    EXPECT_EQ(Values(f), (Values expected));                                                                           \
  } while (0)

TEST(Folding, ShapeArithmetic) {
  EXPECT_FOLDED(({2, 3}), "int64 z = {0}", "y = Shape(x)");
  EXPECT_FOLDED(({3}), "int64 z = {0}", "y = Shape<start = -1>(x)");
  EXPECT_FOLDED(({3, 2, 6}), "int64[2] i = {1, 0}, int64[1] minus = {6}",
                "s = Shape(x) t = Gather(s, i) y = Concat<axis = 0>(t, minus)");
  EXPECT_FOLDED(({6}), "int64 z = {0}", "y = Size(x)", "int64 ");
  EXPECT_FOLDED(({6}), "int64[1] a = {0}", "s = Shape(x) y = ReduceProd<keepdims = 0>(s, a)", "int64 ");
}

TEST(Folding, IntegerDivisionAndModulo) {
  // Division truncates; Mod has the sign of the divisor, with fmod that of the dividend.
  EXPECT_FOLDED(({-2, 2, -2, 2}), "int64[4] a = {-7, -7, 7, 7}, int64[4] b = {3, -3, -3, 3}", "y = Div(a, b)");
  EXPECT_FOLDED(({2, -1, -2, 1}), "int64[4] a = {-7, -7, 7, 7}, int64[4] b = {3, -3, -3, 3}", "y = Mod(a, b)");
  EXPECT_FOLDED(({-1, -1, 1, 1}), "int64[4] a = {-7, -7, 7, 7}, int64[4] b = {3, -3, -3, 3}",
                "y = Mod<fmod = 1>(a, b)");
  EXPECT_FOLDED(({9, 1, 0}), "int64[3] a = {3, 1, 2}, int64[3] b = {2, 0, -1}", "y = Pow(a, b)");
}

TEST(Folding, Slices) {
  std::string a = "int64[6] a = {0, 1, 2, 3, 4, 5}, ";
  EXPECT_FOLDED(({1, 2, 3}), a + "int64[1] s = {1}, int64[1] e = {4}", "y = Slice(a, s, e)");
  EXPECT_FOLDED(({4, 5}), a + "int64[1] s = {-2}, int64[1] e = {9223372036854775807}", "y = Slice(a, s, e)");
  EXPECT_FOLDED(({0, 1, 2, 3}), a + "int64[1] s = {-9223372036854775808}, int64[1] e = {-2}", "y = Slice(a, s, e)");
  EXPECT_FOLDED(({0, 2, 4}), a + "int64[1] s = {0}, int64[1] e = {100}, int64[1] d = {0}, int64[1] k = {2}",
                "y = Slice(a, s, e, d, k)");
  EXPECT_FOLDED(({5, 4, 3, 2, 1, 0}),
                a + "int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] d = {0}, int64[1] k = {-1}",
                "y = Slice(a, s, e, d, k)");
  EXPECT_FOLDED(({5, 3}), a + "int64[1] s = {100}, int64[1] e = {1}, int64[1] d = {0}, int64[1] k = {-2}",
                "y = Slice(a, s, e, d, k)");
  EXPECT_FOLDED(({}), a + "int64[1] s = {4}, int64[1] e = {2}", "y = Slice(a, s, e)");
}

TEST(Folding, Indexing) {
  std::string a = "int64[2, 3] a = {0, 1, 2, 3, 4, 5}, ";
  EXPECT_FOLDED(({2, 0, 5, 3}), a + "int64[2] i = {-1, 0}", "y = Gather<axis = 1>(a, i)", "int64[m, n]");
  EXPECT_FOLDED(({1, 5}), a + "int64[2, 2] i = {0, 1, -1, -1}", "y = GatherND(a, i)");
  EXPECT_FOLDED(({3, 4, 5}), a + "int64[1, 1] i = {1}", "y = GatherND(a, i)", "int64[m, n]");
  EXPECT_FOLDED(({2, 3}), a + "int64[2, 1] i = {2, 0}", "y = GatherND<batch_dims = 1>(a, i)");
  EXPECT_FOLDED(({1, 0, 5, 4}), a + "int64[2, 2] i = {1, 0, 2, -2}", "y = GatherElements<axis = 1>(a, i)",
                "int64[m, n]");
  EXPECT_FOLDED(({3, 1}), a + "int64[1, 2] i = {1, 0}", "y = GatherElements<axis = 0>(a, i)", "int64[m, n]");
  EXPECT_FOLDED(({5, 7, 5, 5, 5, 7}), "int64[2] i = {1, -1}, int64 d = {3}, int64[2] v = {5, 7}", "y = OneHot(i, d, v)",
                "int64[m, n]");
  EXPECT_FOLDED(({0, 1, 1, 0}), "int64[2, 2] a = {0, 4, 5, 0}", "y = NonZero(a)", "int64[m, n]");
}

TEST(Folding, Ranges) {
  EXPECT_FOLDED(({2, 4, 6}), "int64 a = {2}, int64 b = {7}, int64 d = {2}", "y = Range(a, b, d)");
  EXPECT_FOLDED(({3, 2, 1}), "int64 a = {3}, int64 b = {0}, int64 d = {-1}", "y = Range(a, b, d)");
  EXPECT_FOLDED(({}), "int64 a = {3}, int64 b = {0}, int64 d = {1}", "y = Range(a, b, d)");
  EXPECT_FOLDED(({0, 0.5, 1}), "float a = {0}, float b = {1.25}, float d = {0.5}", "y = Range(a, b, d)", "float[n]");
  EXPECT_FOLDED(({7, 7, 7, 7, 7, 7}), "int64 z = {0}", "s = Shape(x) y = ConstantOfShape<value = int64[1] {7}>(s)",
                "int64[m, n]");
}

TEST(Folding, CumulativeSums) {
  std::string a = "int64[2, 3] a = {0, 1, 2, 3, 4, 5}, int64 d = {1}, int64 e = {-2}";
  EXPECT_FOLDED(({0, 1, 3, 3, 7, 12}), a, "y = CumSum(a, d)", "int64[m, n]");
  EXPECT_FOLDED(({0, 0, 1, 0, 3, 7}), a, "y = CumSum<exclusive = 1>(a, d)", "int64[m, n]");
  EXPECT_FOLDED(({3, 3, 2, 12, 9, 5}), a, "y = CumSum<reverse = 1>(a, d)", "int64[m, n]");
  EXPECT_FOLDED(({0, 1, 2, 3, 5, 7}), a, "y = CumSum(a, e)", "int64[m, n]");
}

TEST(Folding, Masks) {
  std::string ones = "float one = {1}, float zero = {0}, float never = {-10}, int64[2] s = {3, 3}, int64 k = {-1}";
  EXPECT_FOLDED(({1, 0, 0, 1, 1, 0, 1, 1, 1}), ones, "e = Expand(one, s) y = Trilu<upper = 0>(e)", "float[m, n]");
  EXPECT_FOLDED(({1, 1, 1, 1, 1, 1, 0, 1, 1}), ones, "e = Expand(one, s) y = Trilu(e, k)", "float[m, n]");
  EXPECT_FOLDED(({0, -10, -10, 0, 0, -10, 0, 0, 0}), ones,
                "e = Expand(one, s) t = Trilu<upper = 0>(e) c = Equal(t, zero) y = Where(c, never, zero)",
                "float[m, n]");
  EXPECT_FOLDED(({1, 0, 1, 1}), "int64[2, 1] a = {0, 1}, int64[2] b = {0, 1}",
                "c = LessOrEqual(b, a) y = Cast<to = 7>(c)", "int64[m, n]");
  EXPECT_FOLDED(({0, 1, 1}), "bool[3] a = {0, 1, 0}, bool[3] b = {0, 0, 1}", "y = Or(a, b)", "bool[n]");
}

TEST(Folding, Casts) {
  EXPECT_FOLDED(({-1, 1, 0}), "float[3] a = {-1.7, 1.7, 0.2}", "y = Cast<to = 7>(a)");
  EXPECT_FOLDED(({1, 0, 1}), "float[3] a = {-1.7, 0, 0.2}", "y = Cast<to = 9>(a)", "bool[n]");
  EXPECT_FOLDED(({1, 2049, 2048}), "float[3] a = {1, 2049, 2048}", "y = Cast<to = 1>(a)", "float[n]");
  // 2049 needs 12 bits of mantissa.
  EXPECT_FOLDED(({1, 2048, 65504}), "float[3] a = {1, 2049, 65504}", "h = Cast<to = 10>(a) y = Cast<to = 1>(h)",
                "float[n]");
  EXPECT_FOLDED(({1, 256}), "float[2] a = {1, 257}", "h = Cast<to = 16>(a) y = Cast<to = 1>(h)", "float[n]");
}

TEST(Folding, Moves) {
  std::string a = "int64[2, 3] a = {0, 1, 2, 3, 4, 5}, ";
  EXPECT_FOLDED(({0, 3, 1, 4, 2, 5}), a + "int64 z = {0}", "y = Transpose(a)", "int64[m, n]");
  EXPECT_FOLDED(({0, 1, 0, 1, 2, 3, 2, 3}), "int64[2, 2] a = {0, 1, 2, 3}, int64[2] r = {1, 2}", "y = Tile(a, r)",
                "int64[m, n]");
  EXPECT_FOLDED(({1, 2}), "int64[5] a = {0, 1, 2, 3, 4}, int64[3] p = {1, 2, 2}", "b, y, c = Split(a, p)");
  EXPECT_FOLDED(({3, 4}), "int64[5] a = {0, 1, 2, 3, 4}", "b, y = Split<num_outputs = 2>(a)");
  EXPECT_FOLDED(({9, 0, 1, 9}), "int64[2] a = {0, 1}, int64[2] p = {1, 1}, int64 v = {9}", "y = Pad(a, p, v)");
  EXPECT_FOLDED(({2, 1, 0, 1, 2, 1}), "int64[3] a = {0, 1, 2}, int64[2] p = {2, 1}",
                "y = Pad<mode = \"reflect\">(a, p)");
  EXPECT_FOLDED(({1, 2, 2}), "int64[3] a = {0, 1, 2}, int64[2] p = {-1, 1}, int64 v = {2}", "y = Pad(a, p, v)");
  EXPECT_FOLDED(({0, 1, 2, 3, 4, 5}), a + "int64[2] s = {0, -1}", "y = Reshape(a, s)", "int64[m, n]");
}

TEST(Folding, Reductions) {
  std::string a = "float[2, 3] a = {0, 1, 2, 3, 4, 8}, int64[1] d = {1}, int64[1] f = {0}";
  EXPECT_FOLDED(({1, 5}), a, "y = ReduceMean<keepdims = 0>(a, d)", "float[n]");
  EXPECT_FOLDED(({3, 5, 10}), a, "y = ReduceSum(a, f)", "float[m, n]");
  EXPECT_FOLDED(({8}), a, "y = ReduceMax<keepdims = 0>(a)", "float ");
  EXPECT_FOLDED(({1, 5}), a, "y = ReduceMean<axes = [1], keepdims = 0>(a)", "float[n]", 13);
}

TEST(Folding, RotaryAngles) {
  Folded f("float[1, 2, 1] frequency = {1, 0.5}, int64 a = {0}, int64 b = {3}, int64 d = {1}, int64[2] axes = {0, 1}",
           "r = Range(a, b, d) u = Unsqueeze(r, axes) p = Cast<to = 1>(u) m = MatMul(frequency, p) t = Transpose<perm "
           "= [0, 2, 1]>(m) y = Cos(t)",
           "float[k, m, n]");
  Values v = f;
  ASSERT_EQ(v.size(), 6u);
  for (int t = 0; t < 3; ++t) {
    EXPECT_FLOAT_EQ(v[2 * t], std::cos(float(t)));
    EXPECT_FLOAT_EQ(v[2 * t + 1], std::cos(0.5f * t));
  }
}

TEST(Folding, EqualMasksAreOneConstant) {
  std::string nodes;
  for (int i = 0; i < 3; ++i) {
    std::string n = std::to_string(i);
    nodes += "s" + n + " = Shape(x) e" + n + " = Expand(one, s" + n + ") t" + n + " = Trilu<upper = 0>(e" + n + ") x" +
             n + " = Add(" + (i ? "x" + std::to_string(i - 1) : "x") + ", t" + n + ")\n";
  }
  ModelFile file(withHeader("agraph (float[40, 40] x) => (float[40, 40] x2) <float one = {1}> {" + nodes + "}"));
  Imported imported(file);
  EXPECT_EQ(imported.count<mlir::arith::ConstantOp>(), 1);
  EXPECT_EQ(imported.count<mlir::arith::AddFOp>(), 3);
}

TEST(Folding, Einsum) {
  std::string m = "float[2, 3] a = {1, 2, 3, 4, 5, 6}, float[3, 2] b = {1, 0, 2, 1, 0, 3}, float[3] v = {1, 10, 100}, "
                  "float[1, 3] r = {1, 10, 100}, float[2] w = {1, 2}, float[2, 1, 2] t = {1, 2, 3, 4}";
  auto values = [&](const std::string &equation, const std::string &operands, const std::string &dims) {
    return Values(Folded(m, "y = Einsum<equation = \"" + equation + "\">(" + operands + ")", "float" + dims));
  };
  EXPECT_EQ(values("ij,jk->ik", "a, b", "[n, k]"), (Values{5, 11, 14, 23}));
  EXPECT_EQ(values("ij,jk->ki", "a, b", "[n, k]"), (Values{5, 14, 11, 23}));
  EXPECT_EQ(values("ij,jk", "a, b", "[n, k]"), (Values{5, 11, 14, 23}));
  EXPECT_EQ(values(" b a , a c ", "a, b", "[n, k]"), (Values{5, 11, 14, 23}));
  EXPECT_EQ(values("ji,kj->ik", "b, a", "[n, k]"), (Values{5, 14, 11, 23}));
  EXPECT_EQ(values("ij->ji", "a", "[n, k]"), (Values{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(values("ij->i", "a", "[n]"), (Values{6, 15}));
  EXPECT_EQ(values("ij,ij->", "a, a", " "), (Values{91}));
  EXPECT_EQ(values("ij,j->ij", "a, v", "[n, k]"), (Values{1, 20, 300, 4, 50, 600}));
  EXPECT_EQ(values("i,j->ij", "w, v", "[n, k]"), (Values{1, 10, 100, 2, 20, 200}));
  EXPECT_EQ(values("ij,ij->i", "a, r", "[n]"), (Values{321, 654})); // a size of 1 is broadcast
  EXPECT_EQ(values("ij,jk,k->i", "a, b, w", "[n]"), (Values{27, 60}));
  EXPECT_EQ(values("...j,j->...", "a, v", "[n]"), (Values{321, 654}));
  EXPECT_EQ(values("...k,kj->...j", "t, a", "[n, k, l]"), (Values{9, 12, 15, 19, 26, 33}));
  EXPECT_EQ(values("...,...->...", "t, w", "[n, k, l]"), (Values{1, 4, 3, 8}));
}

TEST(Folding, Sequences) {
  std::string a =
      "float[5] a = {1, 2, 3, 4, 5}, int64 two = {2}, int64[2] sizes = {1, 4}, int64 last = {-1}, int64 first = {0}";
  EXPECT_FOLDED(({5}), a, "q = SplitToSequence(a, two) y = SequenceAt(q, last)", "float[n]");
  EXPECT_FOLDED(({1, 2}), a, "q = SplitToSequence(a, two) y = SequenceAt(q, first)", "float[n]");
  EXPECT_FOLDED(({2, 3, 4, 5}), a, "q = SplitToSequence(a, sizes) y = SequenceAt(q, last)", "float[n]");
  EXPECT_FOLDED(({5}), a, "q = SplitToSequence<keepdims = 0>(a) y = SequenceAt(q, last)", "float ");
  EXPECT_FOLDED(({1, 2, 3, 4, 5}), a, "q = SplitToSequence(a, two) y = ConcatFromSequence<axis = 0>(q)", "float[n]");
  EXPECT_FOLDED(({1, 1, 2, 2, 3, 3, 4, 4, 5, 5}), a,
                "q = SequenceConstruct(a, a) y = ConcatFromSequence<axis = 1, new_axis = 1>(q)", "float[n, m]");
}

// [1, 2, 4, 8] to another size; the values are those of ONNX's reference implementation, which of align_corners has
// fewer digits, and other ones than PyTorch where a scale leaves a part of a pixel.
TEST(Folding, Resize) {
  auto expectNear = [](const std::string &attributes, const std::string &size, const Values &expected) {
    bool sized = size.find('.') == std::string::npos;
    Values values = Folded("float[1, 4] a = {1, 2, 4, 8}, " +
                               (sized ? "int64[2] s = {1, " + size + "}" : "float[2] s = {1, " + size + "}"),
                           "y = Resize<" + attributes + (sized ? ">(a, , , s)" : ">(a, , s)"), "float[n, k]", 19);
    ASSERT_EQ(values.size(), expected.size()) << attributes;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], 1e-6 * std::abs(expected[i])) << attributes << ", value " << i;
  };
  for (const char *place : {"asymmetric", "half_pixel", "align_corners"})
    expectNear(std::string("mode = \"nearest\", nearest_mode = \"floor\", coordinate_transformation_mode = \"") +
                   place + "\"",
               std::string(place) == "half_pixel" ? "1.6" : "2.0",
               std::string(place) == "asymmetric"   ? Values{1, 1, 2, 2, 4, 4, 8, 8}
               : std::string(place) == "half_pixel" ? Values{1, 1, 2, 2, 4, 4}
                                                    : Values{1, 1, 1, 2, 2, 4, 4, 8});
  expectNear("nearest_mode = \"ceil\"", "1.6", {1, 2, 4, 4, 8, 8});
  expectNear("nearest_mode = \"round_prefer_floor\"", "0.5", {1, 4});
  expectNear("nearest_mode = \"round_prefer_ceil\"", "0.5", {2, 8});
  expectNear("mode = \"nearest\"", "8", {1, 1, 2, 2, 4, 4, 8, 8});
  expectNear("mode = \"linear\"", "1.4", {1, 1.5714285, 2.5714285, 4, 6.857143});
  expectNear("mode = \"linear\", coordinate_transformation_mode = \"asymmetric\"", "1.4",
             {1, 1.7142857, 2.857143, 4.571429, 7.428572});
  expectNear("mode = \"linear\", coordinate_transformation_mode = \"half_pixel_symmetric\"", "1.4",
             {1.0714285, 1.7857143, 3, 4.857143, 7.714286});
  expectNear("mode = \"linear\", coordinate_transformation_mode = \"pytorch_half_pixel\"", "1", {1});
  expectNear("mode = \"linear\", antialias = 1", "0.5", {1.75, 5.75});
  expectNear("mode = \"linear\", antialias = 1, exclude_outside = 1", "0.5", {1.857142806, 5.428571224});
  expectNear("mode = \"cubic\"", "2.0",
             {0.89453125, 1.15625, 1.5625, 2.41796875, 3.16015625, 5.1171875, 7.1640625, 8.421875});
  expectNear("mode = \"cubic\", cubic_coeff_a = -0.5", "2.0",
             {0.9296875, 1.15625, 1.65625, 2.3828125, 3.3359375, 4.953125, 7.234375, 8.28125});
  expectNear("mode = \"cubic\", exclude_outside = 1", "2.0",
             {0.863636374, 1.141342759, 1.543396235, 2.41796875, 3.16015625, 5.215094566, 7.243816376, 8.545454979});
  expectNear("mode = \"cubic\", coordinate_transformation_mode = \"align_corners\"", "2.0",
             {1, 1.2623906706, 1.7215743440, 2.4620991254, 3.0787172012, 4.6413994169, 6.4781341108, 8});
  expectNear("mode = \"cubic\", antialias = 1", "0.5", {1.33984375, 5.94921875});
  expectNear("mode = \"linear\", coordinate_transformation_mode = \"align_corners\"", "1.4", // 5 of 5.6
             {1, 1.75, 3, 5, 8});
  expectNear("nearest_mode = \"floor\", coordinate_transformation_mode = \"tf_half_pixel_for_nn\"", "8",
             {1, 1, 2, 2, 4, 4, 8, 8});
}

// By sizes places are exact: value 18 of 36 is 7 of 14. By scales lengths are computed in FP32: 10 times 1.4 is 14.
TEST(Folding, ResizedLengthsAndPlaces) {
  std::string values;
  for (int i = 0; i < 14; ++i)
    values += (i ? ", " : "") + std::to_string(i);
  Values nearest = Folded("float[14] a = {" + values + "}, int64[1] s = {36}",
                          "y = Resize<mode = \"nearest\", nearest_mode = \"floor\", coordinate_transformation_mode = "
                          "\"asymmetric\">(a, , , s)",
                          "float[n]", 19);
  ASSERT_EQ(nearest.size(), 36u);
  for (int i = 0; i < 36; ++i)
    EXPECT_EQ(nearest[i], i * 14 / 36) << i;
  Values scaled =
      Folded("float[10] a = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, float[1] s = {1.4}", "y = Resize(a, , s)", "float[n]", 19);
  EXPECT_EQ(scaled.size(), 14u);
}

} // namespace
} // namespace msamp::frontend::test
