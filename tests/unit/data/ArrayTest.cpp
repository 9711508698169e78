// NumPy files, good and bad.
#include "runtime/data/Array.h"
#include "runtime/core/Error.h"
#include "tests/unit/data/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace msamp;
using namespace msamp::data;

static std::string npy(const std::string &header, const std::string &data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  auto length = static_cast<unsigned>(header.size());
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    text += static_cast<char>(length >> (8 * i) & 255);
  return text + header + data;
}

static int codeOf(const std::string &path) {
  try {
    openNpy(path);
  } catch (const runtime::Error &error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return error.exitCode();
  }
  return 0;
}

TEST(Npy, ReadsShapesTypesAndVersions) {
  TemporaryFolder folder;
  std::string six("\1\0\2\0\3\0\4\0\5\0\xff\xff", 12);
  std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }\n";
  for (char version : {1, 2, 3}) {
    Array array = openNpy(folder.write("a.npy", npy(header, six, version)));
    EXPECT_EQ(array.element, Element::I16);
    EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(array.elements(), 6);
    EXPECT_EQ(array.integer(2), 3);
    EXPECT_EQ(array.integer(5), -1);
    EXPECT_EQ(array.real(5), -1.0f);
  }
  Array scalar =
      openNpy(folder.write("s.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n", "\x07")));
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(scalar.integer(0), 7);
}

TEST(Npy, ReadsHalvesExactly) {
  TemporaryFolder folder;
  const uint16_t bits[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x7c00, 0x7e00, 0x8000};
  const float values[] = {1.0f, -2.0f, 65504.0f, 0x1p-24f, 0x1p-14f, INFINITY, NAN, -0.0f};
  std::string data(reinterpret_cast<const char *>(bits), sizeof(bits));
  Array array =
      openNpy(folder.write("h.npy", npy("{'descr': '<f2', 'fortran_order': False, 'shape': (8,), }\n", data)));
  for (int i = 0; i < 8; ++i) {
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(array.real(i)));
    } else {
      EXPECT_EQ(array.real(i), values[i]) << i;
    }
  }
  EXPECT_TRUE(std::signbit(array.real(7)));
}

TEST(Npy, RefusesWhatItCannotRead) {
  TemporaryFolder folder;
  auto header = [](const std::string &descr, const std::string &order, const std::string &shape) {
    return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  };
  std::string data(8, '\0');
  EXPECT_EQ(codeOf(folder.write("good.npy", npy(header("<i8", "False", "(1,)"), data))), 0);
  EXPECT_EQ(codeOf(folder.write("order.npy", npy(header("<i8", "True", "(1,)"), data))), 65);
  EXPECT_EQ(codeOf(folder.write("endian.npy", npy(header(">i8", "False", "(1,)"), data))), 65);
  EXPECT_EQ(codeOf(folder.write("type.npy", npy(header("<c8", "False", "(1,)"), data))), 65);
  EXPECT_EQ(
      codeOf(folder.write("object.npy", npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", data))),
      65);
  EXPECT_EQ(codeOf(folder.write("short.npy", npy(header("<i8", "False", "(2,)"), data))), 65);
  EXPECT_EQ(codeOf(folder.write("huge.npy", npy(header("<i8", "False", "(99999999999999999999,)"), data))), 65);
  EXPECT_EQ(codeOf(folder.write("product.npy", npy(header("<i8", "False", "(4294967296, 4294967296)"), data))), 65);
  EXPECT_EQ(codeOf(folder.write("shape.npy", npy("{'descr': '<i8', 'fortran_order': False, }", data))), 65);
  EXPECT_EQ(codeOf(folder.write("version.npy", npy(header("<i8", "False", "(1,)"), data, 9))), 65);
  EXPECT_EQ(codeOf(folder.write("empty.npy", "")), 65);
  EXPECT_EQ(codeOf("/no/such/file.npy"), 74);
  std::string whole = npy(header("<i8", "False", "(1,)"), data);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_EQ(codeOf(folder.write("cut.npy", whole.substr(0, length))), 65) << length;
}
