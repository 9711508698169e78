// Which initializers become parameters, and as what.
#include "ModelFile.h"

namespace msamp::frontend::test {
namespace {

using Names = std::map<std::string, std::string>;

Names rolesOf(const std::string &body, const ImportOptions &options = {}, int opset = 18) {
  ModelFile file(withHeader(body, opset));
  return Imported(file, options).parameters();
}

TEST(Roles, LinearLayer) {
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3] x) => (float[2, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}> {
      t = MatMul(x, w) y = Add(b, t)
    })"),
            (Names{{"w", "matrix"}, {"b", "bias"}}));
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3] x) => (float[2, 2] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}> {
      y = Gemm<transB = 1>(x, w, b)
    })"),
            (Names{{"w", "matrix"}, {"b", "bias"}}));
}

TEST(Roles, MatrixThroughViews) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 3] x) => (float[2, 2] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}> {
      t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t)
    })"));
  Imported imported(file);
  EXPECT_EQ(imported.parameters(), (Names{{"w", "matrix"}}));
  // The parameter itself is read, not a folded copy of it.
  EXPECT_EQ(imported.count<GetOp>(), 1);
  EXPECT_EQ(imported.count<TransposeOp>(), 1);
}

TEST(Roles, TableIsOneEvenWithConstantIndices) {
  EXPECT_EQ(rolesOf(R"(
    agraph (int64[2, 3] ids) => (float[2, 3, 2] y) <float[4, 2] wte = {1, 2, 3, 4, 5, 6, 7, 8}, float[3, 2] wpe = {1, 2, 3, 4, 5, 6}, int64[3] at = {0, 1, 2}> {
      t = Gather(wte, ids) p = Gather(wpe, at) y = Add(t, p)
    })"),
            (Names{{"wte", "table"}, {"wpe", "table"}}));
}

TEST(Roles, RotaryTableIsConstant) {
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3, 2] x, int64[3] at) => (float[2, 3, 2] y) <float[4, 2] cos = {1, 2, 3, 4, 5, 6, 7, 8}> {
      t = Gather(cos, at) u = Cast<to = 1>(t) y = Mul(x, u)
    })"),
            Names{});
}

TEST(Roles, FrequenciesAndMasksAreConstants) {
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3] x, int64[2, 1] position) => (float[2, 3] y)
      <float[3] frequency = {1, 0.5, 0.25}, float[2, 3] mask = {0, 1, 2, 3, 4, 5}, float[1] half = {0.5}, float epsilon = {0.1}> {
      p = Cast<to = 1>(position)
      angle = Mul(p, frequency)
      s = Sin(angle)
      a = Add(x, mask)
      b = Mul(a, half)
      c = Add(b, epsilon)
      y = Mul(c, s)
    })"),
            Names{});
}

TEST(Roles, OuterProductIsDemoted) {
  // By structure `frequency` scales an activation; the shapes say that it does not.
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 1] x) => (float[2, 3] y) <float[3] frequency = {1, 0.5, 0.25}> { y = Mul(x, frequency) })"),
            Names{});
}

TEST(Roles, Norms) {
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3] x) => (float[2, 3] y) <float[3] g = {1, 1, 1}, float[3] b = {0, 0, 0}> { y = LayerNormalization(x, g, b) })"),
            (Names{{"g", "scale"}, {"b", "shift"}}));
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3] x) => (float[2, 3] y) <float[3] g = {1, 1, 1}> { y = RMSNormalization(x, g) })",
                    {}, 23),
            (Names{{"g", "scale"}}));
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3] x) => (float[2, 3] y) <float[3] g = {1, 1, 1}> { y = Mul(g, x) })"),
            (Names{{"g", "scale"}}));
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3, 4] x) => (float[2, 3, 4] y) <float[3] g = {1, 1, 1}, float[3] b = {0, 0, 0}, float[3] m = {0, 0, 0}, float[3] v = {1, 1, 1}> {
      y = BatchNormalization(x, g, b, m, v) })"),
            (Names{{"g", "scale"}, {"b", "shift"}, {"m", "mean frozen"}, {"v", "variance frozen"}}));
}

TEST(Roles, ValuesOfChannelsOfANormThatIsSpeltOut) {
  // As a group norm is exported: ones and zeros of its groups, then a scale and a shift that got dimensions.
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 2, 8] x) => (float[2, 2, 8] y) <float[2] ones = {1, 1}, float[2] zeros = {0, 0}, float[2] "n.weight" = {1, 1}, float[2] "n.bias" = {0, 0}, int64[1] axis = {1}> {
      h = InstanceNormalization(x, ones, zeros) w = Unsqueeze("n.weight", axis) l = CastLike(w, h) g = Mul(h, l) b = Unsqueeze("n.bias", axis) y = Add(g, b) })"),
            (Names{{"n.weight", "scale"}, {"n.bias", "bias"}}));
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 2, 8] x) => (float[2, 2, 8] y) <float[2] "n.weight" = {1, 1}, float[2] "n.bias" = {0, 0}, float[2, 1] "s.gamma" = {1, 1}, float[2, 1] "a.slope" = {1, 1}, float[2, 1] c = {1, 1}> {
      h = InstanceNormalization(x, "n.weight", "n.bias") g = Mul(h, "s.gamma") p = PRelu(g, "a.slope") y = Mul(p, c) })"),
            (Names{{"n.weight", "scale"}, {"n.bias", "shift"}, {"s.gamma", "scale"}, {"a.slope", "bias"}}));
}

TEST(Roles, PositionBiasOfScoresIsConstant) {
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 1, 3, 3] x) => (float[2, 1, 3, 3] y) <float[1, 1, 1, 3] mask = {0, 0, -10}> { s = Add(x, mask) y = Softmax(s) })"),
            Names{});
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3] x) => (float[2, 3] y) <float[3] b = {0, 0, -10}> { s = Add(x, b) y = Softmax(s) })"),
            (Names{{"b", "bias"}}));
}

TEST(Roles, FreezeAndTrain) {
  std::string body = R"(
    agraph (float[2, 3] x) => (float[2, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}, float[2, 2] mask = {0, 1, 2, 3}> {
      t = MatMul(x, w) u = Add(b, t) y = Add(u, mask)
    })";
  ImportOptions options;
  options.initStddev = 0.5;
  options.freeze = {"^w$"};
  options.train = {"mask"};
  ModelFile file(withHeader(body));
  Imported imported(file, options);
  EXPECT_EQ(imported.parameters(), (Names{{"w", "matrix frozen"}, {"b", "bias"}, {"mask", "table"}}));
  imported.module->walk([](ParameterOp p) { EXPECT_EQ(p.getInit().has_value(), p.getTrained()); });
  options.freeze = {"."};
  options.train = {"b"};
  EXPECT_EQ(rolesOf(body, options), (Names{{"w", "matrix frozen"}, {"b", "bias"}}));
}

TEST(Roles, SharedInitializerIsOneParameter) {
  ModelFile file(withHeader(R"(
    agraph (int64[3] ids) => (float[3, 4] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
      h = Gather(w, ids) t = Transpose(w) y = MatMul(h, t)
    })"));
  Imported imported(file);
  EXPECT_EQ(imported.parameters(), (Names{{"w", "table"}}));
  EXPECT_EQ(imported.count<GetOp>(), 1);
}

TEST(Roles, LearnedTokensAndPositions) {
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3, 2] x) => (float[2, 4, 2] y)
      <float[1, 1, 2] "m.cls" = {1, 2}, float[1, 4, 2] "m.positions" = {1, 2, 3, 4, 5, 6, 7, 8}, float[1, 4, 2] expand_1 = {1, 2, 3, 4, 5, 6, 7, 8}, int64[3] s = {2, 1, 2}> {
      c = Expand("m.cls", s)
      t = Concat<axis = 1>(c, x)
      u = Add(t, "m.positions")
      y = Add(u, expand_1)
    })"),
            (Names{{"m.cls", "table"}, {"m.positions", "table"}}));
}

TEST(Roles, BiasOfALayerWithOneOutput) {
  EXPECT_EQ(rolesOf(R"(
    agraph (float[2, 3] x) => (float[2, 1] y) <float[3, 1] w = {1, 2, 3}, float[1] b = {1}, float[1] epsilon = {0.1}> {
      t = MatMul(x, w) u = Add(t, b) v = Tanh(u) y = Add(v, epsilon)
    })"),
            (Names{{"w", "matrix"}, {"b", "bias"}}));
}

TEST(Roles, OperandsOfAnEinsum) {
  auto body = [](const std::string &equation, const std::string &dims, const std::string &values) {
    return "agraph (float[2, 3] x) => (float[n, m] y) <float[" + dims + "] w = {" + values +
           "}> { y = Einsum<equation = \"" + equation + "\">(x, w) }";
  };
  EXPECT_EQ(rolesOf(body("bi,io->bo", "3, 2", "1, 2, 3, 4, 5, 6")), (Names{{"w", "matrix"}}));
  EXPECT_EQ(rolesOf(body("bi, oi -> bo", "2, 3", "1, 2, 3, 4, 5, 6")), (Names{{"w", "matrix"}}));
  EXPECT_EQ(rolesOf(body("bi,io", "3, 2", "1, 2, 3, 4, 5, 6")), (Names{{"w", "matrix"}}));
  EXPECT_EQ(rolesOf("agraph (float[2, 3] x) => (float[n, m, k] y) <float[3, 2, 1] w = {1, 2, 3, 4, 5, 6}> { y = "
                    "Einsum<equation = \"bi,iho->bho\">(x, w) }"),
            (Names{{"w", "table"}}));
  // What is multiplied by it, as a table of frequencies is, is no product with a matrix.
  EXPECT_EQ(rolesOf(body("bi,i->bi", "3", "1, 2, 3")), Names{});
  EXPECT_EQ(rolesOf(body("bi,bi->bi", "2, 3", "1, 2, 3, 4, 5, 6")), Names{});
}

// With the metadata of PyTorch's exporter.
onnx::ModelProto withNotes(const std::string &body, const std::map<std::string, std::string> &notes,
                           const char *key = "pkg.torch.export.graph_signature.InputSpec.kind") {
  onnx::ModelProto model = parseText(withHeader(body));
  for (const auto &[name, value] : notes) {
    onnx::ValueInfoProto *info = model.mutable_graph()->add_value_info();
    info->set_name(name);
    auto *property = info->add_metadata_props();
    property->set_key(key);
    property->set_value(value);
  }
  return model;
}

TEST(Roles, WhatIsNotedAsAParameterIsOneWhateverItIsUsedFor) {
  const char *body = R"(
    agraph (float[2, 3] x) => (float[2, 3] y)
      <float[2, 3] pos = {1, 2, 3, 4, 5, 6}, float alpha = {2}, float[4, 3] long = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2},
       float[1] shift = {1}, float[3] offset = {1, 2, 3}, float[2, 3] table = {1, 2, 3, 4, 5, 6}, int64[1] zero = {0}, int64[1] two = {2}> {
      a = Add(x, pos)
      b = Mul(a, alpha)
      part = Slice(long, zero, two)
      c = Add(b, part)
      d = Add(c, shift)
      e = Add(d, offset)
      y = Add(e, table)
    })";
  std::map<std::string, std::string> notes = {{"pos", "PARAMETER"},  {"alpha", "PARAMETER"},
                                              {"long", "PARAMETER"}, {"shift", "PARAMETER"},
                                              {"offset", "BUFFER"},  {"table", "CONSTANT_TENSOR"}};
  ModelFile file(withNotes(body, notes));
  EXPECT_EQ(Imported(file).parameters(),
            (Names{{"pos", "table"}, {"alpha", "scale"}, {"long", "table"}, {"shift", "bias"}}));
  // Without the notes, by their use.
  EXPECT_EQ(rolesOf(body), (Names{{"offset", "bias"}}));
  ImportOptions options;
  options.train = {"table"};
  EXPECT_EQ(Imported(file, options).parameters().at("table"), "table");
  // Frozen ones are constants where their use tells nothing of them, and --init leaves the others as they are in the
  // file.
  options.freeze = {"long"};
  EXPECT_EQ(Imported(file, options).parameters().count("long"), 0u);
  options = {};
  options.initStddev = 0.5;
  Imported drawn(file, options);
  drawn.module->walk([](ParameterOp p) { EXPECT_FALSE(p.getInit()) << p.getSymName().str(); });
}

TEST(Roles, BuffersAreNoParametersButStatisticsOfABatchNorm) {
  ModelFile file(withNotes(R"(
    agraph (float[2, 2, 1, 1] x) => (float[2, 2, 1, 1] y)
      <float[2] bn_weight = {1, 1}, float[2] bn_bias = {0, 0}, float[2] bn_mean = {0, 0}, float[2] bn_var = {1, 1}, float[1] m_table = {1}> {
      n = BatchNormalization(x, bn_weight, bn_bias, bn_mean, bn_var)
      y = Add(n, m_table)
    })",
                           {{"bn_weight", "PARAMETER"},
                            {"bn_bias", "PARAMETER"},
                            {"bn_mean", "BUFFER"},
                            {"bn_var", "BUFFER"},
                            {"m_table", "BUFFER"}}));
  Names parameters = Imported(file).parameters();
  EXPECT_EQ(parameters.count("m_table"), 0u);
  EXPECT_EQ(parameters.at("bn_weight"), "scale");
  EXPECT_EQ(parameters.at("bn_mean").substr(0, 4), "mean");
}

// TorchScript's exporter gives plain names to parameters of the whole module alone.
TEST(Roles, PlainNamesBesideNodesWithPlaces) {
  onnx::ModelProto model = parseText(withHeader(R"(
    agraph (float[1, 2, 2] x) => (float[1, 3, 2] y) <float[1, 1, 2] cls = {1, 2}, float[1, 3, 2] pos = {1, 2, 3, 4, 5, 6}> {
      t = Concat<axis = 1>(cls, x)
      y = Add(t, pos)
    })"));
  EXPECT_EQ(Imported(ModelFile(model)).parameters(), Names{});
  model.mutable_graph()->mutable_node(0)->set_name("/Concat");
  EXPECT_EQ(Imported(ModelFile(model)).parameters(), (Names{{"cls", "table"}, {"pos", "table"}}));
}

TEST(Roles, WhatTheExporterComputedFromParametersIsTold) {
  const char *body = R"(
    agraph (float[2, 3] x) => (float[2, 3] y) <float[2, 3] part = {1, 2, 3, 4, 5, 6}, float[2, 3] angles = {1, 2, 3, 4, 5, 6}> {
      t = Add(x, part)
      y = Add(t, angles)
    })";
  ModelFile file(withNotes(body, {{"part", "['m.pos_embed', 'val_1']"}, {"angles", "['m.inv_freq', 'arange_1']"}},
                           "pkg.onnxscript.optimizer.folded_from"));
  mlir::MLIRContext context;
  std::vector<std::string> told;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) { told.push_back(d.str()); });
  importModel(file.path(), {}, context);
  EXPECT_EQ(told,
            std::vector<std::string>{
                "the exporter computed part (of m.pos_embed) from parameters, which are not trained so; export with "
                "optimize=False, or train the result with --train"});
}

} // namespace
} // namespace msamp::frontend::test
