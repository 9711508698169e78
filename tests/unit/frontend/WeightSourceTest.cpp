// Values of initializers: in the file or mapped from external data, within the rules of ONNX.
#include "ModelFile.h"

namespace msamp::frontend::test {
namespace {

std::string floats(std::initializer_list<float> values) {
  return std::string(reinterpret_cast<const char *>(std::data(values)), values.size() * sizeof(float));
}

// y = x * w with w [2, 2] in `location`.
onnx::ModelProto externalModel(const std::string &location, const std::string &offset = "4",
                               const std::string &length = "16") {
  auto model = parseText(withHeader(R"(
    agraph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul(x, w) })"));
  auto *w = model.mutable_graph()->mutable_initializer(0);
  w->clear_float_data();
  w->clear_raw_data();
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto entry = [&](const char *key, const std::string &value) {
    auto *e = w->add_external_data();
    e->set_key(key);
    e->set_value(value);
  };
  entry("location", location);
  if (!offset.empty())
    entry("offset", offset);
  if (!length.empty())
    entry("length", length);
  return model;
}

TEST(WeightSource, ReadsTheFileItself) {
  ModelFile file(withHeader(R"(
    agraph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}, int64[1] i = {7}> { y = MatMul(x, w) })"));
  auto source = WeightSource::open(file.path());
  EXPECT_TRUE(source->has("w"));
  EXPECT_FALSE(source->has("x"));
  auto view = source->get("w");
  EXPECT_EQ(view.onnxType, onnx::TensorProto::FLOAT);
  EXPECT_EQ(view.dims, (std::vector<int64_t>{2, 2}));
  ASSERT_EQ(view.bytes, 16u);
  source.reset();
  EXPECT_EQ(static_cast<const float *>(view.data)[3], 4);
  EXPECT_THROW(WeightSource::open(file.path())->get("v"), Error);
}

TEST(WeightSource, MapsExternalData) {
  ModelFile file(externalModel("weights.bin"));
  file.write("????" + floats({5, 6, 7, 8}), "weights.bin");
  EXPECT_EQ(Imported(file).parameters(), (std::map<std::string, std::string>{{"w", "matrix"}}));
  auto view = WeightSource::open(file.path())->get("w");
  EXPECT_EQ(static_cast<const float *>(view.data)[0], 5);
  EXPECT_EQ(view.bytes, 16u);
}

TEST(WeightSource, AbsentDataIsAnErrorUnlessDrawn) {
  ModelFile file(externalModel("weights.bin"));
  expectError(file.path(), kBadData, {"initializer w", "weights.bin", "--init"});
  ImportOptions options;
  options.initStddev = 0.02;
  Imported imported(file, options);
  EXPECT_EQ(imported.first<ParameterOp>().getInit()->convertToDouble(), 0.02);
  // A frozen parameter keeps its values, so it needs them.
  options.freeze = {"w"};
  expectError(file.path(), kBadData, {"initializer w", "weights.bin"}, options);
}

TEST(WeightSource, ShortData) {
  ModelFile file(externalModel("weights.bin"));
  file.write("???????????????????", "weights.bin");
  expectError(file.path(), kBadData, {"initializer w", "weights.bin", "4 to 20", "only 19"});
}

TEST(WeightSource, LengthThatDoesNotFit) {
  ModelFile file(externalModel("weights.bin", "0", "12"));
  file.write(floats({5, 6, 7, 8}), "weights.bin");
  expectError(file.path(), kBadData, {"initializer w", "needs 16 bytes", "12"});
}

TEST(WeightSource, OffsetThatIsNoNumber) {
  for (const char *offset : {"-4", "4k", "99999999999999999999"}) {
    ModelFile file(externalModel("weights.bin", offset));
    file.write("????" + floats({5, 6, 7, 8}), "weights.bin");
    expectError(file.path(), kBadData, {"offset", offset});
  }
}

TEST(WeightSource, PathsOutOfTheFolder) {
  for (const char *location : {"/etc/hostname", "../weights.bin", "a/../../weights.bin"}) {
    ModelFile file(externalModel(location));
    expectError(file.path(), kBadData, {"initializer w", location, "outside"});
  }
}

TEST(WeightSource, LinkOutOfTheFolder) {
  ModelFile elsewhere, file(externalModel("weights.bin"));
  elsewhere.write("????" + floats({5, 6, 7, 8}), "real.bin");
  std::filesystem::create_symlink(elsewhere.folder / "real.bin", file.folder / "weights.bin");
  expectError(file.path(), kBadData, {"link", "outside"});
}

TEST(WeightSource, LinkWithinTheFolder) {
  ModelFile file(externalModel("weights.bin"));
  file.write("????" + floats({5, 6, 7, 8}), "real.bin");
  std::filesystem::create_symlink("real.bin", file.folder / "weights.bin");
  EXPECT_EQ(Imported(file).count<MatMulOp>(), 1);
}

TEST(WeightSource, RawDataOfTheWrongSize) {
  auto model = parseText(withHeader(R"(
    agraph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul(x, w) })"));
  auto *w = model.mutable_graph()->mutable_initializer(0);
  w->clear_float_data();
  w->set_raw_data(floats({1, 2, 3}));
  ModelFile file(model);
  expectError(file.path(), kBadData, {"w"});
}

} // namespace
} // namespace msamp::frontend::test
