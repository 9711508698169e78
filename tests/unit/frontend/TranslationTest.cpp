// What ONNX ops become in the Msamp dialect.
#include "ModelFile.h"

namespace msamp::frontend::test {
namespace {

using Shape = std::vector<int64_t>;

template <class OpTy>
Shape resultShape(OpTy op) {
  auto shape = mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType()).getShape();
  return {shape.begin(), shape.end()};
}

TEST(Translation, ModuleNamesItsSourceInputsAndOutputs) {
  ModelFile file(withHeader("agraph (float[batch, 3] x, int64[2] i) => (float[batch, 3] y) { y = Tanh(x) }"));
  ImportOptions options;
  options.dims["batch"] = 5;
  Imported imported(file, options);
  auto text = [](mlir::Attribute a) { return mlir::cast<mlir::StringAttr>(a).getValue().str(); };
  EXPECT_EQ(text((*imported.module)->getAttr("msamp.source")), file.path());
  EXPECT_EQ(text((*imported.module)->getAttr("msamp.source_sha256")).size(), 64u);
  EXPECT_EQ(text(imported.forward().getArgAttr(0, "msamp.name")), "x");
  EXPECT_EQ(text(imported.forward().getArgAttr(1, "msamp.name")), "i");
  EXPECT_EQ(text(imported.forward().getResultAttr(0, "msamp.name")), "y");
  EXPECT_EQ(imported.shape(), (Shape{5, 3}));
}

TEST(Translation, DimensionsWithoutANameAreBoundByPlace) {
  auto model = parseText(withHeader("agraph (float[n, 3] x) => (float[n, 3] y) { y = Tanh(x) }"));
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->Clear();
  ModelFile file(model);
  expectError(file.path(), kUsage, {"--dim x[0]=SIZE"});
  ImportOptions options;
  options.dims["x[0]"] = 4;
  EXPECT_EQ(Imported(file, options).shape(), (Shape{4, 3}));
}

TEST(Translation, LocationsAreNodeNames) {
  auto model = parseText(withHeader("agraph (float[2] x) => (float[2] y) { t = Tanh(x) y = Exp(t) }"));
  model.mutable_graph()->mutable_node(0)->set_name("squash");
  ModelFile file(model);
  Imported imported(file);
  auto name = [](mlir::Operation *op) { return mlir::cast<mlir::NameLoc>(op->getLoc()).getName().str(); };
  EXPECT_EQ(name(imported.first<mlir::math::TanhOp>()), "squash");
  EXPECT_EQ(name(imported.first<mlir::math::ExpOp>()), "Exp:y");
}

TEST(Translation, LinearLayersHaveRankTwo) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 5, 3] x) => (float[2, 5, 4] y) <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { y = MatMul(x, w) })"));
  Imported imported(file);
  EXPECT_EQ(resultShape(imported.first<MatMulOp>()), (Shape{10, 4}));
  EXPECT_EQ(imported.shape(), (Shape{2, 5, 4}));
}

TEST(Translation, ProductsOfAllRanks) {
  auto shapeOf = [](const std::string &a, const std::string &b, const std::string &y) {
    ModelFile file(withHeader("agraph (float[" + a + "] a, float[" + b + "] b) => (float" +
                              (y.empty() ? " " : "[" + y + "]") + " y) { y = MatMul(a, b) }"));
    return Imported(file).shape();
  };
  EXPECT_EQ(shapeOf("2, 3, 4, 5", "2, 3, 5, 6", "a, b, c, d"), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(shapeOf("2, 1, 4, 5", "3, 5, 6", "a, b, c, d"), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(shapeOf("4, 5", "2, 3, 5, 6", "a, b, c, d"), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(shapeOf("2, 4, 5", "1, 1, 5, 6", "a, b, c, d"), (Shape{1, 2, 4, 6}));
  EXPECT_EQ(shapeOf("5", "2, 5, 6", "a, b"), (Shape{2, 6}));
  EXPECT_EQ(shapeOf("2, 4, 5", "5", "a, b"), (Shape{2, 4}));
  EXPECT_EQ(shapeOf("5", "5", ""), Shape{});
}

TEST(Translation, BroadcastIsExplicit) {
  ModelFile file(withHeader("agraph (float[2, 1, 4] a, float[3, 1] b) => (float[2, 3, 4] y) { y = Add(a, b) }"));
  Imported imported(file);
  std::vector<Shape> dims;
  imported.module->walk([&](BroadcastOp op) { dims.push_back({op.getDims().begin(), op.getDims().end()}); });
  EXPECT_EQ(dims, (std::vector<Shape>{{0, 2}, {1}}));
}

TEST(Translation, NumbersAreSplats) {
  ModelFile file(withHeader("agraph (float[2, 3] x) => (float[2, 3] y) <float[1] half = {0.5}> { y = Mul(x, half) }"));
  Imported imported(file);
  EXPECT_EQ(imported.count<BroadcastOp>(), 0);
  EXPECT_TRUE(mlir::isa<mlir::SplatElementsAttr>(imported.first<mlir::arith::ConstantOp>().getValue()));
}

TEST(Translation, ConstantPowers) {
  auto muls = [](const std::string &p) {
    ModelFile file(withHeader("agraph (float[4] x) => (float[4] y) <float p = {" + p + "}> { y = Pow(x, p) }"));
    Imported imported(file);
    return std::pair(imported.count<mlir::arith::MulFOp>(), imported.count<mlir::math::PowFOp>());
  };
  EXPECT_EQ(muls("2"), std::pair(1, 0));
  EXPECT_EQ(muls("3"), std::pair(2, 0));
  EXPECT_EQ(muls("2.5"), std::pair(0, 1));
}

TEST(Translation, FunctionsAreInlined) {
  ModelFile file(R"(<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
    agraph (float[2, 3] x) => (float[2, 3] y) { t = local.twice(x) y = local.twice(t) }
    <domain: "local", opset_import: ["" : 18]> twice (a) => (b) { b = Add(a, a) })");
  EXPECT_EQ(Imported(file).count<mlir::arith::AddFOp>(), 2);
}

TEST(Translation, OldOpsets) {
  // Softmax over all dimensions from the axis on, axes and splits as attributes.
  ModelFile file(withHeader(R"(
    agraph (float[2, 3, 4] x) => (float[2, 3, 4] y) {
      s = Softmax<axis = 1>(x) u = Unsqueeze<axes = [0]>(s) q = Squeeze<axes = [0]>(u) y = Identity(q)
    })",
                            11));
  Imported imported(file);
  EXPECT_EQ(resultShape(imported.first<SoftmaxOp>()).back(), 12);
  EXPECT_EQ(imported.shape(), (Shape{2, 3, 4}));
}

TEST(Translation, SoftmaxOfAnotherAxis) {
  ModelFile file(withHeader("agraph (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis = 0>(x) }"));
  Imported imported(file);
  EXPECT_EQ(resultShape(imported.first<SoftmaxOp>()), (Shape{4, 3, 2}));
  EXPECT_EQ(imported.count<TransposeOp>(), 2);
}

TEST(Translation, NormsOfSeveralDimensions) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 3, 2] x) => (float[2, 3, 2] y, float[2, 1, 1] m) <float[3, 2] g = {1, 1, 1, 1, 1, 1}> {
      y, m = LayerNormalization<axis = 1>(x, g)
    })"));
  Imported imported(file);
  EXPECT_EQ(resultShape(imported.first<LayerNormOp>()), (Shape{2, 6}));
  EXPECT_EQ(imported.shape(1), (Shape{2, 1, 1}));
}

TEST(Translation, Attention) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 4, 3, 8] q, float[2, 2, 3, 8] k, float[2, 2, 3, 6] v, bool[3, 3] given) => (float[2, 4, 3, 6] y, float[2, 4, 3, 6] z) 
      <bool[3, 3] mask = {1, 0, 0, 1, 1, 0, 1, 1, 1}> {
      y = Attention(q, k, v, mask)
      z = Attention<scale = 0.5>(q, k, v, given)
    })",
                            23));
  Imported imported(file);
  std::vector<AttentionOp> ops;
  imported.module->walk([&](AttentionOp op) { ops.push_back(op); });
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(resultShape(ops[0]), (Shape{2, 3, 4, 6}));
  EXPECT_TRUE(ops[0].getCausal());
  EXPECT_FALSE(ops[0].getBias());
  EXPECT_FALSE(ops[1].getCausal());
  EXPECT_TRUE(ops[1].getBias());
  EXPECT_EQ(ops[1].getScale().convertToDouble(), 0.5);
}

TEST(Translation, ConvolutionOfTilesIsAProduct) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 3, 9, 8] x, float[5, 3, 4, 2] w0) => (float[2, 5, 2, 4] y) <float[5] b = {1, 2, 3, 4, 5}> {
      y = Conv<kernel_shape = [4, 2], strides = [4, 2]>(x, w0, b)
    })"));
  Imported imported(file);
  EXPECT_EQ(resultShape(imported.first<MatMulOp>()), (Shape{16, 5}));
  EXPECT_EQ(imported.shape(), (Shape{2, 5, 2, 4}));
}

TEST(Translation, ConvolutionOfSinglePixelsIsAProductOfRows) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 3, 9, 8] x, float[5, 3, 1, 1] w0) => (float[2, 5, 9, 8] y) { y = Conv(x, w0) })"));
  Imported imported(file);
  EXPECT_EQ(resultShape(imported.first<MatMulOp>()), (Shape{144, 5}));
  EXPECT_EQ(imported.shape(), (Shape{2, 5, 9, 8}));
}

Shape list(llvm::ArrayRef<int64_t> values) {
  return {values.begin(), values.end()};
}

TEST(Translation, ConvolutionsHaveTheirChannelsLast) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 4, 9, 8] x, float[6, 2, 3, 2] w0) => (float[2, 6, a, b] y) <float[6] b = {1, 2, 3, 4, 5, 6}> {
      y = Conv<strides = [2, 1], pads = [1, 0, 2, 1], dilations = [2, 3], group = 2>(x, w0, b)
    })"));
  Imported imported(file);
  auto op = imported.first<ConvOp>();
  EXPECT_EQ(resultShape(op), (Shape{2, 4, 6, 6}));
  EXPECT_EQ(imported.shape(), (Shape{2, 6, 4, 6}));
  EXPECT_EQ(op.getGroups(), 2u);
  WindowAttr window = op.getWindow();
  EXPECT_EQ(list(window.getSize()), (Shape{3, 2}));
  EXPECT_EQ(list(window.getStrides()), (Shape{2, 1}));
  EXPECT_EQ(list(window.getLow()), (Shape{1, 0}));
  EXPECT_EQ(list(window.getHigh()), (Shape{2, 1}));
  EXPECT_EQ(list(window.getDilations()), (Shape{2, 3}));
}

TEST(Translation, WindowsPlacedByName) {
  auto pads = [](const std::string &name) {
    ModelFile file(withHeader("agraph (float[1, 2, 6] x, float[3, 2, 4] w) => (float[1, 3, n] y) { y = Conv<auto_pad = \"" +
                              name + "\", strides = [2]>(x, w) }"));
    Imported imported(file);
    WindowAttr window = imported.first<ConvOp>().getWindow();
    return Shape{window.getLow()[0], window.getHigh()[0], imported.shape()[2]};
  };
  EXPECT_EQ(pads("NOTSET"), (Shape{0, 0, 2}));
  EXPECT_EQ(pads("VALID"), (Shape{0, 0, 2}));
  EXPECT_EQ(pads("SAME_UPPER"), (Shape{1, 1, 3}));
  ModelFile odd(withHeader(R"(
    agraph (float[1, 2, 7] x, float[3, 2, 4] w) => (float[1, 3, n] y) { y = Conv<auto_pad = "SAME_LOWER">(x, w) })"));
  Imported imported(odd);
  EXPECT_EQ(imported.first<ConvOp>().getWindow().getLow()[0], 2);
  EXPECT_EQ(imported.first<ConvOp>().getWindow().getHigh()[0], 1);
}

TEST(Translation, TransposedConvolutionIsAGradient) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 4, 5, 3] x, float[4, 3, 3, 2] w0) => (float[2, 6, a, b] y) {
      y = ConvTranspose<strides = [2, 1], pads = [1, 0, 1, 0], output_padding = [1, 0], group = 2>(x, w0)
    })"));
  Imported imported(file);
  EXPECT_EQ(resultShape(imported.first<ConvDgradOp>()), (Shape{2, 10, 4, 6}));
  EXPECT_EQ(imported.shape(), (Shape{2, 6, 10, 4}));
}

TEST(Translation, PoolsWithAWindowBeyondTheImage) {
  auto shapes = [](const std::string &ceil) {
    ModelFile file(withHeader("agraph (float[1, 2, 6, 7] x) => (float[1, 2, a, b] y, float[1, 2, c, d] z, float[1, 2, 1, 1] u) {"
                              "y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = " + ceil + ">(x)"
                              "z = AveragePool<kernel_shape = [2, 1], strides = [4, 1], count_include_pad = 1, ceil_mode = " +
                              ceil + ">(x) u = GlobalMaxPool(x) }", 19));
    Imported imported(file);
    EXPECT_EQ(imported.count<MaxPoolOp>(), 1);
    EXPECT_TRUE(imported.first<AvgPoolOp>().getCountPadding());
    EXPECT_EQ(imported.count<ReduceOp>(), 1);
    return std::pair(imported.shape(0), imported.shape(1));
  };
  EXPECT_EQ(shapes("0"), std::pair(Shape({1, 2, 2, 3}), Shape({1, 2, 2, 7})));
  EXPECT_EQ(shapes("1"), std::pair(Shape({1, 2, 3, 3}), Shape({1, 2, 2, 7})));
}

TEST(Translation, BatchNormOfTheBatchItself) {
  ModelFile file(withHeader(R"(
    agraph (float[4, 3, 2] x) => (float[4, 3, 2] y, float[3] m) <float[3] s = {1, 2, 3}, float[3] b = {1, 2, 3}, float[3] rm = {1, 2, 3}, float[3] rv = {1, 2, 3}> {
      y, m, v = BatchNormalization<training_mode = 1, momentum = 0.75>(x, s, b, rm, rv)
    })"));
  Imported imported(file);
  EXPECT_EQ(imported.parameters(), (std::map<std::string, std::string>{
                                       {"s", "scale"}, {"b", "shift"}, {"rm", "mean frozen"}, {"rv", "variance frozen"}}));
  EXPECT_EQ(imported.count<TrackOp>(), 2);
  EXPECT_EQ(imported.shape(1), (Shape{3}));
}

TEST(Translation, BatchNormsNormaliseByTheirBatchWhereThatIsAskedFor) {
  ModelFile file(withHeader(R"(
    agraph (float[4, 3, 2] x) => (float[4, 3, 2] y) <float[3] s = {1, 2, 3}, float[3] b = {1, 2, 3}, float[3] rm = {1, 2, 3}, float[3] rv = {1, 2, 3}> {
      y = BatchNormalization(x, s, b, rm, rv)
    })"));
  Imported exported(file);
  EXPECT_EQ(exported.count<TrackOp>(), 0);
  EXPECT_EQ(exported.count<ReduceOp>(), 0);
  ImportOptions options;
  options.batchStatistics = true;
  Imported batch(file, options);
  EXPECT_EQ(batch.count<TrackOp>(), 2);
  EXPECT_EQ(batch.count<ReduceOp>(), 2);
  options.freeze = {"r"};
  Imported frozen(file, options);
  EXPECT_EQ(frozen.count<TrackOp>(), 0);
  EXPECT_EQ(frozen.count<ReduceOp>(), 0);
  EXPECT_EQ(frozen.parameters(), exported.parameters());
  EXPECT_EQ(frozen.parameters(), (std::map<std::string, std::string>{
                                     {"s", "scale"}, {"b", "shift"}, {"rm", "mean frozen"}, {"rv", "variance frozen"}}));
  options.freeze.clear();
  ModelFile none(withHeader("agraph (float[4, 3] x) => (float[4, 3] y) { y = Tanh(x) }"));
  expectError(none.path(), kUsage, {"--batch-norm batch", "has no BatchNormalization"}, options);
}

TEST(Translation, RunningStatisticsThatStayAreWarnedOfOnce) {
  std::string nodes, last = "x";
  for (int i = 0; i < 6; ++i) {
    const std::string next = "y" + std::to_string(i);
    nodes += next + " = BatchNormalization<training_mode = " + (i == 2 ? "0" : "1") + ">(" + last + ", s, b, rm, rv) ";
    last = next;
  }
  ModelFile file(withHeader("agraph (float[4, 3, 2] x) => (float[4, 3, 2] y5) <float[3] s = {1, 2, 3}, float[3] b = "
                            "{1, 2, 3}, float[3] rm = {1, 2, 3}, "
                            "float[3] rv = {1, 2, 3}> { " +
                            nodes + "}"));
  mlir::MLIRContext context;
  std::vector<std::string> warnings;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) { warnings.push_back(d.str()); });
  auto module = importModel(file.path(), {}, context);
  module->walk([](TrackOp op) { ADD_FAILURE() << op.getParam().str() << " is of several nodes"; });
  ASSERT_EQ(warnings.size(), 2u); // mean and variance
  EXPECT_NE(warnings[0].find("mean stays as the file has it"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("(5 nodes)"), std::string::npos) << warnings[0];
}

TEST(Translation, WhatIsTakenForAConstantIsSaid) {
  ModelFile file(withHeader(R"(
    agraph (float[4, 3] x) => (float[4, 3] y) <float[3, 3] "l.weight" = {1, 2, 3, 1, 2, 3, 1, 2, 3}, float "a.temperature" = {2}, float made = {3}> {
      h = MatMul(x, "l.weight") t = Div(h, "a.temperature") y = Mul(t, made)
    })"));
  auto said = [&](const ImportOptions &options) {
    mlir::MLIRContext context;
    std::vector<std::string> list;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) { list.push_back(d.str()); });
    importModel(file.path(), options, context);
    return list;
  };
  EXPECT_EQ(said({}), std::vector<std::string>{"1 initializer is neither trained nor saved, being constants by their "
                                               "use: a.temperature; --train REGEX trains what it matches"});
  ImportOptions options;
  options.train = {"temperature"};
  EXPECT_TRUE(said(options).empty());
  options.train.clear();
  options.freeze = {"temperature"};
  EXPECT_TRUE(said(options).empty());
}

TEST(Translation, NeighbouringRowsOfAnActivationAreASlice) {
  ModelFile file(withHeader(R"(
    agraph (float[4, 3] x) => (float[3] y, float[2, 3] z) <int64 i = {-1}, int64[2] j = {3, 0}> { y = Gather(x, i) z = Gather(x, j) })"));
  Imported imported(file);
  EXPECT_EQ(imported.count<SliceOp>(), 1);
  EXPECT_EQ(imported.count<GatherOp>(), 1);
}

TEST(Translation, CountsOfFlags) {
  ModelFile file(withHeader(R"(
    agraph (int64[2, 5] ids) => (int64[2, 5] y) <int64 pad = {1}, int64 axis = {1}> {
      e = Equal(ids, pad) n = Not(e) i = Cast<to = 6>(n) s = CumSum(i, axis) y = Cast<to = 7>(s)
    })"));
  EXPECT_EQ(Imported(file).count<MatMulOp>(), 1);
  ModelFile integers(
      withHeader("agraph (int64[2, 5] x) => (int64[2, 5] y) <int64 axis = {1}> { y = CumSum(x, axis) }"));
  expectError(integers.path(), kBadData, {"CumSum:y", "cumulative sum of integers"});
}

// Each activation imports and keeps its shape.
TEST(Translation, Activations) {
  for (const char *op : {"Relu", "Sigmoid", "Softplus", "Softsign", "LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid",
                         "HardSwish", "Mish", "ThresholdedRelu", "Gelu", "Erf", "Tanh", "Sign", "Abs", "LogSoftmax"}) {
    ModelFile file(withHeader(std::string("agraph (float[4, 3] x) => (float[4, 3] y) { y = ") + op + "(x) }", 20));
    EXPECT_EQ(Imported(file).shape(), (Shape{4, 3})) << op;
  }
}

} // namespace
} // namespace msamp::frontend::test
