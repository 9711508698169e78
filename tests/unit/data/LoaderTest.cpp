// Files bound to inputs, windows and what is refused.
#include "runtime/data/Loader.h"
#include "runtime/core/Error.h"
#include "tests/unit/data/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <map>

using namespace msamp;
using namespace msamp::data;

// Inputs as a language model has them: ids and labels of [rows, length], vocabulary `bound`.
static plan::Plan languageModel(int64_t rows, int64_t length, int64_t bound) {
  plan::Plan plan;
  for (const char *name : {"ids", "labels"}) {
    plan::Input *input = plan.add_inputs();
    input->set_name(name);
    input->set_type(plan::I64);
    input->add_shape(rows);
    input->add_shape(length);
    input->set_bound(bound);
    input->set_is_labels(std::string(name) == "labels");
    input->set_allow_ignore(input->is_labels());
  }
  return plan;
}

static std::vector<std::vector<int64_t>> fill(const plan::Plan &plan, const Loader &loader, uint64_t step,
                                              uint64_t micro, uint64_t total) {
  std::vector<std::vector<int64_t>> inputs(static_cast<size_t>(plan.inputs_size()));
  for (int i = 0; i < plan.inputs_size(); ++i)
    inputs[static_cast<size_t>(i)].resize(static_cast<size_t>(plan.inputs(i).shape(0) * plan.inputs(i).shape(1)));
  loader.fill(step, micro, total, [&](unsigned input) { return inputs[input].data(); });
  return inputs;
}

static std::string bytesUpTo(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += static_cast<char>(i);
  return text;
}

template <class Body>
static std::pair<int, std::string> errorOf(const Body &body) {
  try {
    body();
  } catch (const runtime::Error &error) {
    return {error.exitCode(), error.what()};
  }
  return {0, ""};
}

TEST(Loader, LabelsAreTheTokensAfter) {
  TemporaryFolder folder;
  plan::Plan plan = languageModel(4, 8, 256);
  LoaderOptions options;
  options.sources = {{"", folder.write("text.txt", bytesUpTo(200))}};
  Loader loader(plan, options);
  auto inputs = fill(plan, loader, 3, 0, 1);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(inputs[1][i], inputs[0][i] + 1);
    if (i % 8 != 0) {
      EXPECT_EQ(inputs[0][i], inputs[0][i - 1] + 1);
    }
  }
}

TEST(Loader, AMicroBatchDoesNotDependOnWhoReadsIt) {
  TemporaryFolder folder;
  plan::Plan plan = languageModel(4, 8, 256);
  LoaderOptions options;
  options.sources = {{"", folder.write("text.txt", bytesUpTo(200))}};
  Loader one(plan, options), other(plan, options);
  fill(plan, one, 0, 0, 2);
  EXPECT_EQ(fill(plan, one, 5, 1, 2), fill(plan, other, 5, 1, 2));
  EXPECT_NE(fill(plan, one, 5, 1, 2), fill(plan, other, 5, 0, 2));
  // A global batch of two micro-batches is one of one micro-batch twice as large.
  plan::Plan wide = languageModel(8, 8, 256);
  Loader large(wide, options);
  auto rows = fill(wide, large, 5, 0, 1)[0];
  auto low = fill(plan, one, 5, 0, 2)[0], high = fill(plan, one, 5, 1, 2)[0];
  low.insert(low.end(), high.begin(), high.end());
  EXPECT_EQ(rows, low);
}

TEST(Loader, WindowsReachTheEndsOfTheFile) {
  TemporaryFolder folder;
  plan::Plan plan = languageModel(1, 8, 256);
  LoaderOptions options;
  options.sources = {{"", folder.write("text.txt", bytesUpTo(11))}}; // three places
  Loader loader(plan, options);
  std::map<int64_t, int> starts;
  for (uint64_t step = 0; step < 100; ++step)
    ++starts[fill(plan, loader, step, 0, 1)[0][0]];
  EXPECT_EQ(starts.size(), 3u);
  EXPECT_EQ(starts.begin()->first, 0);
  EXPECT_EQ(starts.rbegin()->first, 2);
}

TEST(Loader, BinIsU16UnlessSaidOtherwise) {
  TemporaryFolder folder;
  plan::Plan plan = languageModel(1, 2, 70000);
  std::string u16("\x01\x02\x03\x04\x05\x06", 6), u32("\x01\x02\x00\x00\x03\x04\x00\x00\x05\x06\x00\x00", 12);
  LoaderOptions options;
  options.sources = {{"", folder.write("a.bin", u16)}};
  Loader narrow(plan, options);
  options.sources = {{"", folder.write("b.bin", u32)}};
  options.binType = TokenType::U32;
  Loader wide(plan, options);
  EXPECT_EQ(fill(plan, narrow, 0, 0, 1), fill(plan, wide, 0, 0, 1));
  EXPECT_EQ(fill(plan, narrow, 0, 0, 1)[0], (std::vector<int64_t>{0x201, 0x403}));
}

TEST(Loader, BytesInABinAreGuessedWhereTheyFit) {
  TemporaryFolder folder;
  LoaderOptions options;
  auto messageFor = [&](int64_t bound, const std::string &content) {
    plan::Plan plan = languageModel(1, 2, bound);
    options.sources = {{"", folder.write("a.bin", content)}};
    auto [code, message] = errorOf([&] { Loader loader(plan, options); });
    EXPECT_EQ(code, 65);
    return message;
  };
  const std::string hint = "if each byte is a token, give --data-type u8";
  EXPECT_NE(messageFor(256, "some text.").find(hint), std::string::npos);
  EXPECT_NE(messageFor(256, "odd text.").find(hint), std::string::npos);
  EXPECT_EQ(messageFor(100, "some text.").find(hint), std::string::npos) << "'t' is no token below 100";
}

TEST(Loader, ReadsTokensOrSamples) {
  LoaderOptions options;
  options.randomRest = true;
  plan::Plan plan = languageModel(2, 4, 256);
  EXPECT_TRUE(Loader(plan, options).readsTokens());
  plan.mutable_inputs(0)->set_type(plan::F32); // labels alone are no tokens
  EXPECT_FALSE(Loader(plan, options).readsTokens());
}

TEST(Loader, FilesOfPythonAreNoTokens) {
  TemporaryFolder folder;
  for (const char *name : {"a.npz", "a.pt", "a.pkl"}) {
    LoaderOptions options;
    options.sources = {{"", folder.write(name, "some bytes")}};
    plan::Plan plan = languageModel(1, 2, 256);
    auto [code, message] = errorOf([&] { Loader loader(plan, options); });
    EXPECT_EQ(code, 64);
    EXPECT_NE(message.find("write arrays as .npy or .safetensors"), std::string::npos) << message;
  }
}

TEST(Loader, NamesOfTensorsAndInputsAreSaid) {
  TemporaryFolder folder;
  std::string header = R"({"images":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  LoaderOptions options;
  options.sources = {{"", folder.write("a.safetensors", bytes + header + std::string(4, '\0'))}};
  plan::Plan plan = languageModel(1, 2, 256);
  auto [code, message] = errorOf([&] { Loader loader(plan, options); });
  EXPECT_EQ(code, 65);
  EXPECT_NE(message.find("none of its tensors (images) has the name of an input without data"), std::string::npos)
      << message;
}

TEST(Loader, AWindowNeedsOneTokenMore) {
  TemporaryFolder folder;
  plan::Plan plan = languageModel(1, 8, 256);
  LoaderOptions options;
  options.sources = {{"", folder.write("text.txt", bytesUpTo(8))}};
  auto [code, message] = errorOf([&] { Loader loader(plan, options); });
  EXPECT_EQ(code, 65);
  EXPECT_NE(message.find("needs 9 tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("has 8"), std::string::npos) << message;
  options.sources = {{"", folder.write("text.txt", bytesUpTo(9))}};
  EXPECT_EQ(errorOf([&] { Loader loader(plan, options); }).first, 0);
}

TEST(Loader, ATokenBeyondTheVocabularyIsNamed) {
  TemporaryFolder folder;
  plan::Plan plan = languageModel(1, 4, 100);
  LoaderOptions options;
  options.sources = {{"", folder.write("text.txt", bytesUpTo(101))}};
  auto [code, message] = errorOf([&] { Loader loader(plan, options); });
  EXPECT_EQ(code, 65);
  for (const char *part : {"token 100", "offset 100", "text.txt", "below 100", "\"ids\""})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Loader, InputsWithoutDataAndUnknownNamesAreUsageErrors) {
  TemporaryFolder folder;
  plan::Plan plan = languageModel(1, 4, 256);
  plan::Input *mask = plan.add_inputs();
  mask->set_name("mask");
  mask->set_type(plan::F32);
  mask->add_shape(1);
  mask->add_shape(4);
  LoaderOptions options;
  std::string text = folder.write("text.txt", bytesUpTo(50));
  options.sources = {{"", text}};
  auto [code, message] = errorOf([&] { Loader loader(plan, options); });
  EXPECT_EQ(code, 64);
  EXPECT_NE(message.find("--data mask=FILE (.npy or .safetensors)"), std::string::npos) << message;
  options.sources = {{"", text}, {"nothing", text}};
  EXPECT_EQ(errorOf([&] { Loader loader(plan, options); }).first, 64);
  options.sources = {{"ids", text}, {"ids", text}};
  EXPECT_EQ(errorOf([&] { Loader loader(plan, options); }).first, 64);
}

TEST(DataSource, SplitsAtTheFirstEqualsUnlessAFileIsNamedSo) {
  TemporaryFolder folder;
  EXPECT_EQ(parseDataSource("ids=a=b.npy").input, "ids");
  EXPECT_EQ(parseDataSource("ids=a=b.npy").path, "a=b.npy");
  std::string odd = folder.write("x=y.txt", "text");
  EXPECT_EQ(parseDataSource(odd).input, "");
  EXPECT_EQ(errorOf([] { parseDataSource("=x"); }).first, 64);
  EXPECT_EQ(errorOf([] { parseDataSource("x="); }).first, 64);
}

TEST(Loader, RandomTokensAreOfTheStepAndWithinTheirBound) {
  plan::Plan plan = languageModel(4, 64, 11);
  LoaderOptions options;
  options.randomRest = true;
  Loader loader(plan, options);
  auto first = fill(plan, loader, 0, 0, 1), again = fill(plan, loader, 0, 0, 1), next = fill(plan, loader, 1, 0, 1);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, next);
  std::map<int64_t, int> seen;
  for (int64_t token : first[0])
    ++seen[token];
  EXPECT_EQ(seen.size(), 11u) << "256 draws miss one of 11 tokens once in 3e9 runs";
  EXPECT_EQ(seen.begin()->first, 0);
  EXPECT_EQ(seen.rbegin()->first, 10);
  for (size_t row = 0; row < 4; ++row)
    for (size_t i = 0; i + 1 < 64; ++i)
      ASSERT_EQ(first[1][row * 64 + i], first[0][row * 64 + i + 1]) << "labels are the tokens one position on";
  // Two ranks see what one would.
  plan::Plan half = languageModel(2, 64, 11);
  Loader halves(half, options);
  auto upper = fill(half, halves, 0, 1, 2);
  EXPECT_TRUE(std::equal(upper[0].begin(), upper[0].end(), first[0].begin() + 128));
}

TEST(Loader, RandomNumbersAreNormalAndMasksAreOn) {
  plan::Plan plan = languageModel(2, 5000, 0);
  plan.mutable_inputs(1)->set_type(plan::F32);
  LoaderOptions options;
  options.randomRest = true;
  Loader loader(plan, options);
  std::vector<int64_t> mask(10000);
  std::vector<float> values(10000);
  loader.fill(0, 0, 1, [&](unsigned input) { return input == 0 ? static_cast<void *>(mask.data()) : values.data(); });
  EXPECT_EQ(mask, std::vector<int64_t>(10000, 1));
  double sum = 0, squares = 0;
  int beyondTwo = 0;
  for (float x : values) {
    sum += x;
    squares += double{x} * x;
    beyondTwo += std::abs(x) > 2;
  }
  EXPECT_NEAR(sum / 10000, 0, 0.05);
  EXPECT_NEAR(squares / 10000, 1, 0.06);
  EXPECT_NEAR(beyondTwo, 455, 80); // 4.55 %
}
