#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/core/Safetensors.h"
#include "tests/unit/runtime/ExpectError.h"
#include "tests/unit/runtime/TempFolder.h"

using namespace msamp::runtime;
using msamp::test::expectError;
using msamp::test::TempFolder;
using msamp::test::writeFile;

namespace {

std::string withHeader(const std::string &header, const std::string &data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
  return bytes + header + data;
}

TEST(Safetensors, ComesBackAsWritten) {
  TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::vector<float> values = {1.5f, -2.0f, 3.25f, 0.0f, 1e-30f, 7.0f};
  {
    SafetensorsWriter writer(path);
    writer.setMetadata({{"made", "here"}});
    writer.declare("z \"quoted\" \xc3\xa4", Type::F32, {2, 3});
    writer.declare("empty", Type::I64, {0, 4});
    writer.declare("scalar", Type::F32, {});
    writer.writeFloats(std::span(values).first(2));
    writer.writeFloats(std::span(values).subspan(2));
    EXPECT_FALSE(std::filesystem::exists(path));
    const float one = 1;
    writer.writeFloats({&one, 1});
    writer.commit();
  }
  SafetensorsReader reader(path);
  EXPECT_EQ(reader.tensors().size(), 3u);
  EXPECT_EQ(reader.metadata().at("made"), "here");
  EXPECT_EQ(reader.readFloats("z \"quoted\" \xc3\xa4"), values);
  EXPECT_EQ(reader.at("empty").shape, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(reader.readFloats("scalar"), std::vector<float>{1.0f});
  expectError(65, "no tensor \"missing\"", [&] { reader.at("missing"); });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Safetensors, AnAbandonedFileLeavesNothing) {
  TempFolder folder;
  {
    SafetensorsWriter writer(folder.path() / "a.safetensors");
    writer.declare("x", Type::F32, {2});
    const float one = 1;
    writer.writeFloats({&one, 1});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  expectError(74, "cannot write", [&] {
    SafetensorsWriter writer(folder.path() / "no" / "such" / "folder.safetensors");
    writer.commit();
  });
}

TEST(Safetensors, NarrowTypesAreWidenedExactly) {
  TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  writeFile(path, withHeader(R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                             R"("e":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]},)"
                             R"("i":{"dtype":"I64","shape":[1],"data_offsets":[6,14]}})",
                      std::string("\x80\x3f\x00\xc0\x7e\xb8\x05\x00\x00\x00\x00\x00\x00\x00", 14)));
  SafetensorsReader reader(path);
  EXPECT_EQ(reader.readFloats("b"), (std::vector<float>{1.0f, -2.0f}));
  EXPECT_EQ(reader.readFloats("e"), (std::vector<float>{448.0f, -1.0f}));
  EXPECT_EQ(reader.readFloats("i"), std::vector<float>{5.0f});
}

TEST(Safetensors, MalformedFilesAreRefused) {
  TempFolder folder;
  const auto path = folder.path() / "bad.safetensors";
  auto expect = [&](const std::string &bytes, const std::string &part) {
    writeFile(path, bytes);
    expectError(65, part, [&] { SafetensorsReader reader(path); });
  };
  const std::string one = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  expect("", "too few");
  expect("abc", "too few");
  expect(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + "{}", "cut off");
  expect(withHeader("not json"), "not JSON");
  expect(withHeader("[1]"), "not a JSON object");
  expect(withHeader(one, "1234"), "cut off");
  expect(withHeader(one, "123456789"), "1 bytes follow");
  expect(withHeader(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678"), "need 12");
  expect(withHeader(R"({"x":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", "12345678"), "unknown dtype F31");
  expect(withHeader(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "12345678"), "not a number >= 0");
  expect(withHeader(R"({"x":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,8]}})", "12345678"), "too large");
  expect(withHeader(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "12345678"), "not within");
  expect(withHeader(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
             "123456"), "overlap");
  expect(withHeader(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
             "123456"), "hole");
  expect(withHeader(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
             "1"), "twice");
  expect(withHeader(R"({"x":{"shape":[1]}})", "1"), "no dtype");
  expect(withHeader(R"({"__metadata__":{"a":1}})"), "not a string");
  expectError(74, "cannot open", [&] { SafetensorsReader reader(folder.path() / "none"); });
}

TEST(Safetensors, NoFlippedByteCrashesTheReader) {
  TempFolder folder;
  const auto path = folder.path() / "flip.safetensors";
  const std::string good = withHeader(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  std::mt19937 random(1);
  for (size_t i = 0; i < good.size(); ++i)
    for (int n = 0; n < 4; ++n) {
      std::string bad = good;
      bad[i] = static_cast<char>(random());
      writeFile(path, bad);
      try {
        SafetensorsReader reader(path);
        for (const auto &[name, view] : reader.tensors())
          if (isFloat(view.type))
            reader.readFloats(name);
      } catch (const Error &error) {
        EXPECT_EQ(error.exitCode(), 65);
      }
    }
}

} // namespace
