// Every way in which a model or a flag can be wrong ends in a message that names the place, and the right exit code.
#include "ModelFile.h"

namespace msamp::frontend::test {
namespace {

const char *kDynamic = R"(
  agraph (float[batch, seq] x) => (float[batch, seq] y) { y = Tanh(x) })";

TEST(Errors, NoSuchFile) {
  expectError("/tmp/no/such/model.onnx", kIo, {"/tmp/no/such/model.onnx", "No such file"});
}

TEST(Errors, Folder) {
  expectError("/tmp", kIo, {"not a regular file"});
}

TEST(Errors, Empty) {
  ModelFile file;
  file.write("");
  expectError(file.path(), kBadData, {file.path(), "empty"});
}

TEST(Errors, NotOnnx) {
  ModelFile file;
  file.write("This is a text, and no model at all.\n");
  expectError(file.path(), kBadData, {file.path(), "not an ONNX model"});
}

TEST(Errors, Truncated) {
  std::string whole = parseText(withHeader(R"(
    agraph (float[2, 3] x) => (float[2, 3] y) <float[3] b = {1, 2, 3}> { t = Add(x, b) y = Tanh(t) })"))
                          .SerializeAsString();
  // Wherever the file is cut, it is bad data.
  for (size_t n = 1; n < whole.size(); ++n) {
    ModelFile file;
    file.write(whole.substr(0, n));
    expectError(file.path(), kBadData, {file.path()});
  }
}

TEST(Errors, UnboundDimensionsAreListedWithTheirFlags) {
  ModelFile file(withHeader(kDynamic));
  expectError(file.path(), kUsage, {"batch", "seq", "--dim batch=SIZE --dim seq=SIZE"});
  ImportOptions one;
  one.dims["batch"] = 2;
  std::string message = expectError(file.path(), kUsage, {"--dim seq=SIZE"}, one);
  EXPECT_EQ(message.find("--dim batch"), std::string::npos) << message;
}

TEST(Errors, UnknownDimension) {
  ModelFile file(withHeader(kDynamic));
  ImportOptions options;
  options.dims = {{"batch", 2}, {"seq", 3}, {"sequence", 3}};
  expectError(file.path(), kUsage, {"no dimension named sequence", "batch", "seq"}, options);
}

TEST(Errors, DimensionThatIsNotPositive) {
  ModelFile file(withHeader(kDynamic));
  ImportOptions options;
  options.dims = {{"batch", 0}, {"seq", 3}};
  expectError(file.path(), kUsage, {"--dim batch=0"}, options);
}

TEST(Errors, DimensionBeyondReason) {
  ModelFile file(withHeader(kDynamic));
  ImportOptions options;
  options.dims = {{"batch", int64_t(1) << 40}, {"seq", 3}};
  expectError(file.path(), kUsage, {"--dim batch=1099511627776"}, options);
}

TEST(Errors, ConstantsBeyondReason) {
  ModelFile file(withHeader(R"(
    agraph (float[1] x) => (float[a, b, c] y) <int64[3] s = {1000000, 1000000, 1000000}, float one = {1}> { e = Expand(one, s) y = Add(e, x) })"));
  expectError(file.path(), kBadData, {"Expand:e", "[1000000, 1000000, 1000000]"});
  ModelFile range(withHeader(R"(
    agraph (int64[1] x) => (int64[a] y) <int64 s = {-9223372036854775807}, int64 e = {9223372036854775807}, int64 d = {1}> {
      r = Range(s, e, d) y = Add(r, x) })"));
  expectError(range.path(), kBadData, {"Range:r", "2^31"});
}

TEST(Errors, TypesThatContradict) {
  ModelFile file(withHeader("agraph (float[2] x, int64[2] i) => (float[2] y) { y = Add(x, i) }"));
  expectError(file.path(), kBadData, {"Add:y", "FLOAT", "INT64"});
  ModelFile softmax(withHeader("agraph (int64[2] i) => (int64[2] y) { y = Softmax(i) }"));
  expectError(softmax.path(), kBadData, {"Softmax:y"});
}

TEST(Errors, OutputSymbolOfAnotherSize) {
  ModelFile file(withHeader("agraph (float[n] x) => (float[m] y) { y = Tanh(x) }"));
  ImportOptions options;
  options.dims = {{"n", 4}, {"m", 4}};
  EXPECT_EQ(Imported(file, options).shape(), std::vector<int64_t>{4});
  options.dims["m"] = 5;
  expectError(file.path(), kUsage, {"--dim m=5", "output y is 4"}, options);
}

TEST(Errors, UnsupportedNodesAreListedAtOnce) {
  auto model = parseText(withHeader(R"(
    agraph (float[2, 4, 8, 8] x) => (float[2, 4, 8, 8] y) {
      a = Det(x)
      b = LpNormalization(x)
      c = LRN<size = 3>(x)
      d = Add(b, c)
      y = Tanh(d)
    })"));
  // Det is not needed by the output.
  ModelFile file(model);
  std::string message =
      expectError(file.path(), kBadData,
                  {"2 nodes", "LpNormalization:b: LpNormalization: no translation", "LRN:c: LRN: no translation"});
  EXPECT_EQ(message.find("Det"), std::string::npos) << message;
}

TEST(Errors, NormsOfANegativeEpsilon) {
  for (const char *node : {"LayerNormalization<epsilon = -1.0>(x, s)", "InstanceNormalization<epsilon = -1.0>(x, t, t)"}) {
    ModelFile file(withHeader(std::string("agraph (float[2, 4, 8] x, float[8] s, float[4] t) => (float[2, 4, 8] y) { y = ") +
                              node + " }"));
    expectError(file.path(), kBadData, {"Normalization:y", "epsilon = -1.0", "expected a number of at least 0"});
  }
}

TEST(Errors, WindowsThatMsampHasNoFormOf) {
  ModelFile file(withHeader(R"(
    agraph (float[1, 3, 8, 8] x, float[4, 3, 3, 3] w) => (float[1, 4, a, b] y, float[1, 3, c, d] z, float[1, 3, e, f] u) {
      y = Conv<kernel_shape = [3, 3], pads = [-1, 0, 0, 0]>(x, w)
      z = MaxPool<kernel_shape = [17, 17], pads = [8, 8, 8, 8]>(x)
      u = AveragePool<kernel_shape = [2, 2], pads = [2, 0, 0, 0]>(x)
    })"));
  expectError(file.path(), kBadData,
              {"3 nodes", "Conv:y: Conv: negative pads [-1, 0, 0, 0]; slice the image before it",
               "MaxPool:z: MaxPool: windows of 289 values, at most 256", "AveragePool:u", "lies in padding alone"});
}

TEST(Errors, WindowsThatContradictTheirImage) {
  ModelFile filter(withHeader(R"(
    agraph (float[1, 3, 8, 8] x, float[4, 2, 3, 3] w) => (float[1, 4, a, b] y) { y = Conv(x, w) })"));
  expectError(filter.path(), kBadData, {"Conv:y", "filter of shape [4, 2, 3, 3] for an input of shape [1, 3, 8, 8]"});
  ModelFile pads(withHeader(R"(
    agraph (float[1, 3, 8, 8] x, float[4, 3, 3, 3] w) => (float[1, 4, a, b] y) {
      y = Conv<pads = [16777216, 16777216, 16777216, 16777216]>(x, w) })"));
  expectError(pads.path(), kBadData, {"Conv:y", "has more than 2^44 elements"});
  ModelFile room(withHeader(R"(
    agraph (float[1, 3, 2, 8] x, float[4, 3, 3, 3] w) => (float[1, 4, a, b] y) { y = Conv(x, w) })"));
  expectError(room.path(), kBadData, {"Conv:y", "a window of 3 positions for an image of 2 with padding of 0 and 0"});
  ModelFile size(withHeader(R"(
    agraph (float[1, 3, 8, 8] x, float[4, 3, 3, 3] w) => (float[1, 4, a, b] y) { y = Conv<kernel_shape = [3, 2]>(x, w) })"));
  expectError(size.path(), kBadData, {"Conv:y", "kernel_shape [3, 2] for filters of size [3, 3]"});
  ModelFile deep(withHeader(R"(
    agraph (float[1, 3, 4, 4, 4, 4] x, float[4, 3, 3, 3, 3, 3] w) => (float[1, 4, a, b, c, d] y) { y = Conv(x, w) })"));
  expectError(deep.path(), kBadData, {"Conv:y", "windows over 4 dimensions"});
  ModelFile small(withHeader(R"(
    agraph (float[1, 3, 3, 8] x) => (float[1, 3, a, b] y) { y = MaxPool<kernel_shape = [5, 2], ceil_mode = 1>(x) })"));
  expectError(small.path(), kBadData, {"MaxPool:y", "a window of 5 positions for an image of 3 with padding of 0 and 0"});
  ModelFile more(withHeader(R"(
    agraph (float[1, 3, 4, 4] x, float[3, 4, 3, 3] w) => (float[1, 4, a, b] y) {
      y = ConvTranspose<strides = [2, 2], output_padding = [1]>(x, w) })"));
  expectError(more.path(), kBadData, {"ConvTranspose:y", "output_padding [1] for an image of shape [1, 3, 4, 4]"});
}

TEST(Errors, WrongShapesNameTheNode) {
  auto model =
      parseText(withHeader(R"(agraph (float[2, 3] x, float[4, 5] w) => (float[2, 5] y) { y = MatMul(x, w) })"));
  model.mutable_graph()->mutable_node(0)->set_name("projection");
  ModelFile file(model);
  expectError(file.path(), kBadData, {"projection", "MatMul", "inner dimensions 3", "4"});
}

TEST(Errors, IndexOutOfATable) {
  ModelFile file(withHeader(R"(
    agraph (float[2] x) => (float[1, 2] z) <float[3, 2] t = {1, 2, 3, 4, 5, 6}, int64[1] i = {3}> { y = Gather(t, i) z = Add(y, x) })"));
  expectError(file.path(), kBadData, {"index 3", "size 3"});
}

TEST(Errors, RegularExpressions) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul(x, w) })"));
  ImportOptions options;
  options.freeze = {"("};
  expectError(file.path(), kUsage, {"--freeze \"(\"", "regular expression"}, options);
  options.freeze = {"nothing"};
  expectError(file.path(), kUsage, {"--freeze \"nothing\"", "matches no"}, options);
  options.freeze = {};
  options.train = {"nothing"};
  expectError(file.path(), kUsage, {"--train \"nothing\"", "matches no"}, options);
}

TEST(Errors, ShapeThatTheStepComputes) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 3] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) })"));
  ImportOptions options;
  expectError(file.path(), kBadData, {"Reshape:y", "shape is computed by the step"}, options);
}

TEST(Errors, CheckerRefuses) {
  auto model = parseText(withHeader("agraph (float[2] x) => (float[2] y) { y = Tanh(x) }"));
  model.mutable_graph()->mutable_node(0)->set_op_type("NoSuchOp");
  ModelFile file(model);
  expectError(file.path(), kBadData, {"NoSuchOp"});
}

TEST(Errors, NewerOpsetThanKnown) {
  ModelFile file(withHeader("agraph (float[2] x) => (float[2] y) { y = Tanh(x) }", 1000));
  expectError(file.path(), kBadData, {"1000"});
}

TEST(Errors, ParameterNamedLikeAProgram) {
  ModelFile file(withHeader(
      "agraph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] forward = {1, 2, 3, 4}> { y = MatMul(x, forward) }"));
  expectError(file.path(), kBadData, {"forward", "rename the initializer"});
}

TEST(Errors, ElementTypesOtherThanFloat) {
  ModelFile half(withHeader("agraph (float16[2, 2] x) => (float16[2, 2] y) { y = Tanh(x) }"));
  expectError(half.path(), kBadData, {"input x is of type f16", "float32"});
  ModelFile wide(withHeader("agraph (double[2, 2] x) => (double[2, 2] y) { y = Tanh(x) }"));
  expectError(wide.path(), kBadData, {"input x is of type f64", "float32"});
}

TEST(Errors, TensorsWithoutElements) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 3] x) => (float[n, 3] y) <int64[1] at = {2}, int64[1] axis = {0}> { t = Slice(x, at, at, axis) y = Tanh(t) })"));
  expectError(file.path(), kBadData, {"[0, 3]", "no element"});
}

} // namespace
} // namespace msamp::frontend::test
