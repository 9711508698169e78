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

} // namespace
} // namespace msamp::frontend::test
