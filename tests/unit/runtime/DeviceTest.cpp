#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/core/Scale.h"
#include "tests/unit/runtime/ExpectError.h"
#include "tests/unit/runtime/TestTensor.h"

using namespace msamp::runtime;
using namespace msamp::test;

namespace {

std::vector<int64_t> swapLast(std::vector<int64_t> shape, bool swap) {
  if (swap)
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

struct Product {
  Type a, b, c;
  int64_t batch, m, n, k;
  bool transposeA, transposeB;
};

class MatMul : public testing::TestWithParam<Product> {};

TEST_P(MatMul, IsTheSumOfProducts) {
  const Product &p = GetParam();
  auto device = makeDevice({"cpu", 2});
  TestTensor a(p.a, swapLast({p.batch, p.m, p.k}, p.transposeA)), b(p.b, swapLast({p.batch, p.k, p.n}, p.transposeB)),
      c(p.c, {p.batch, p.m, p.n});
  a.random(1);
  b.random(2);
  MatMulArgs args;
  args.a = a;
  args.b = b;
  args.c = c;
  args.transposeA = p.transposeA;
  args.transposeB = p.transposeB;
  device->matmul(args);
  const double tolerance = p.c == Type::F32 ? 1e-5 : 1.0 / 250;
  for (int64_t i = 0; i < p.batch * p.m * p.n; ++i) {
    const int64_t batch = i / (p.m * p.n), row = i / p.n % p.m, column = i % p.n;
    double sum = 0, size = 0;
    for (int64_t x = 0; x < p.k; ++x) {
      const double term = a.get(batch * p.m * p.k + (p.transposeA ? x * p.m + row : row * p.k + x)) *
                          b.get(batch * p.n * p.k + (p.transposeB ? column * p.k + x : x * p.n + column));
      sum += term;
      size += std::fabs(term);
    }
    ASSERT_NEAR(c.get(i), sum, tolerance * (p.c == Type::F32 ? size : std::fabs(sum) + 1e-4 * size)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatMul,
    testing::Values(Product{Type::F32, Type::F32, Type::F32, 1, 33, 70, 129, false, false},
        Product{Type::F32, Type::F32, Type::F32, 1, 300, 17, 64, true, false},
        Product{Type::F32, Type::F32, Type::F32, 1, 64, 600, 40, false, true},
        Product{Type::F32, Type::F32, Type::F32, 3, 20, 30, 10, true, true},
        Product{Type::F32, Type::F32, Type::F32, 1, 1, 1, 1, false, false},
        Product{Type::BF16, Type::BF16, Type::BF16, 1, 65, 48, 1500, false, false},
        Product{Type::BF16, Type::F32, Type::F32, 1, 65, 48, 96, true, false},
        Product{Type::F32, Type::F16, Type::BF16, 2, 16, 48, 33, false, true},
        Product{Type::BF16, Type::BF16, Type::F32, 1, 7, 600, 50, true, true}));

// Of gradients of one parameter with scale 1, where blocks have none.
double sumOfSquares(Device &device, const BlockSpan &values, int64_t blocks) {
  const std::vector<int32_t> owner(static_cast<size_t>(blocks), 0);
  float one = 1;
  StepState state;
  StepTables tables;
  tables.state = &state;
  tables.gradScale = &one;
  const GradRange range{values.data, values.type, values.scale, owner.data(), blocks};
  device.gradSquares(tables, {&range, 1});
  return state.sums[0];
}

TEST(ScaledMatMul, DividesByBothScales) {
  auto device = makeDevice({"cpu", 2});
  constexpr int64_t m = 48, n = 80, k = 64;
  for (bool rows : {false, true}) {
    TestTensor a(Type::E5M2, {m, k}), b(Type::E4M3, {n, k}), c(Type::BF16, {m, n});
    TestTensor sa(Type::F32, rows ? std::vector<int64_t>{m} : std::vector<int64_t>{}),
        sb(Type::F32, rows ? std::vector<int64_t>{n} : std::vector<int64_t>{});
    a.random(3, 100);
    b.random(4, 20);
    for (int64_t i = 0; i < sa.count(); ++i)
      sa.set(i, std::ldexp(1.0, 100 + static_cast<int>(i % 20))); // the product of both scales would overflow
    for (int64_t i = 0; i < sb.count(); ++i)
      sb.set(i, std::ldexp(1.0, 60 - static_cast<int>(i % 150)));
    MatMulArgs args;
    args.a = a;
    args.b = b;
    args.c = c;
    args.transposeB = true;
    args.scaled = true;
    args.scaleA = sa;
    args.scaleB = sb;
    device->matmul(args);
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x)
        sum += a.get(i / n * k + x) * b.get(i % n * k + x); // exact: few bits
      const double scale = sa.get(rows ? i / n : 0) * sb.get(rows ? i % n : 0), expected = sum / scale;
      ASSERT_NEAR(c.get(i), expected, std::fabs(expected) / 200 + 1e-37) << i;
    }
  }
}

// Blocks of 1 or 128 rows or columns by 128 values of the sum, the last ones partial; each is divided before it is added.
TEST(ScaledMatMul, DividesBlocksByTheirScales) {
  auto device = makeDevice({"cpu", 2});
  constexpr int64_t m = 150, n = 272, k = 1200, blocks = 10;
  struct Layout {
    bool transposeA, transposeB;
    int64_t scalesA, scalesB; // along M and N; 0: one value
  };
  for (Layout x : {Layout{false, true, m, 3}, Layout{true, false, m, n}, Layout{false, false, 2, n}, Layout{true, true, m, 0}}) {
    TestTensor a(Type::E5M2, x.transposeA ? std::vector{k, m} : std::vector{m, k}),
        b(Type::E4M3, x.transposeB ? std::vector{n, k} : std::vector{k, n}), c(Type::F32, {m, n}), addend(Type::F32, {m, n});
    auto scaleOf = [](int64_t count) { return count ? std::vector{count, blocks} : std::vector<int64_t>{}; };
    // The scales of b lie the other way round.
    TestTensor sa(Type::F32, scaleOf(x.scalesA)),
        sb(Type::F32, scaleOf(x.scalesB), x.scalesB ? std::vector<int64_t>{1, x.scalesB} : std::vector<int64_t>{});
    a.random(3, 100);
    b.random(4, 20);
    addend.random(5, 100);
    for (int64_t i = 0; i < sa.count(); ++i)
      sa.set(i, std::ldexp(1.0, static_cast<int>(i * 7 % 5)));
    for (int64_t i = 0; i < sb.count(); ++i)
      sb.set(i, std::ldexp(1.0, static_cast<int>(i * 3 % 7) - 3));
    MatMulArgs args;
    args.a = a;
    args.b = b;
    args.c = c;
    args.transposeA = x.transposeA;
    args.transposeB = x.transposeB;
    args.scaled = args.hasAddend = true;
    args.scaleA = sa;
    args.scaleB = sb;
    args.addend = addend;
    device->matmul(args);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = addend.get(i * n + j), largest = std::fabs(sum);
        for (int64_t p = 0; p < k; ++p) {
          auto entry = [&](const TestTensor &scale, int64_t count, int64_t extent, int64_t at) {
            return scale.get(count == 0 ? 0 : (count == extent ? at : at / 128) * blocks + p / 128);
          };
          const double term = a.get(x.transposeA ? p * m + i : i * k + p) / entry(sa, x.scalesA, m, i) *
                              b.get(x.transposeB ? j * k + p : p * n + j) / entry(sb, x.scalesB, n, j);
          sum += term;
          largest = std::max(largest, std::fabs(term));
        }
        ASSERT_NEAR(c.get(i * n + j), sum, largest * k * 0x1p-24) << i << ", " << j;
      }
  }
}

TEST(MatMulEpilogue, AddsScalesAndFindsTheLargest) {
  auto device = makeDevice({"cpu", 2});
  constexpr int64_t m = 70, n = 600, k = 40;
  TestTensor a(Type::BF16, {m, k}), b(Type::BF16, {k, n}), addend(Type::BF16, {m, n}), plain(Type::F32, {m, n}),
      narrow(Type::E4M3, {m, n});
  a.random(5);
  b.random(6);
  addend.random(7, 10);
  MatMulArgs args;
  args.a = a;
  args.b = b;
  args.c = plain;
  device->matmul(args);
  const float scale = 8;
  float amax = 0, expected = 0;
  args.hasAddend = true;
  args.addend = addend;
  args.c = narrow;
  args.scaleOut = &scale;
  args.amaxOut = &amax;
  device->matmul(args);
  for (int64_t i = 0; i < m * n; ++i) {
    const float sum = static_cast<float>(plain.get(i)) + static_cast<float>(addend.get(i));
    expected = std::max(expected, std::fabs(sum));
    ASSERT_EQ(narrow.get(i), e4m3().decode(static_cast<unsigned>(e4m3().encode(sum * scale)))) << i;
  }
  EXPECT_EQ(amax, expected);
  // In place, in FP32.
  TestTensor sum(Type::F32, {m, n});
  sum.random(8);
  std::vector<float> before(m * n);
  for (int64_t i = 0; i < m * n; ++i)
    before[static_cast<size_t>(i)] = static_cast<float>(sum.get(i));
  args.c = args.addend = sum;
  args.scaleOut = args.amaxOut = nullptr;
  device->matmul(args);
  for (int64_t i = 0; i < m * n; ++i)
    ASSERT_EQ(static_cast<float>(sum.get(i)), static_cast<float>(plain.get(i)) + before[static_cast<size_t>(i)]) << i;
  // A bias alone, to BF16.
  TestTensor bias(Type::BF16, {n}), rounded(Type::BF16, {m, n});
  bias.random(9, 10);
  args.hasAddend = false;
  args.hasBias = true;
  args.bias = bias;
  args.c = rounded;
  device->matmul(args);
  for (int64_t i = 0; i < m * n; ++i) {
    const float value = static_cast<float>(plain.get(i)) + static_cast<float>(bias.get(i % n));
    ASSERT_NEAR(rounded.get(i), value, std::fabs(value) / 256) << i;
  }
}

TEST(MatMulStrides, PartsOfLargerTensorsWork) {
  auto device = makeDevice({"cpu", 1});
  // a is a column range, b has a stride in both dimensions, c skips rows.
  TestTensor a(Type::F32, {10, 12}, {40, 1}), b(Type::F32, {12, 9}, {2, 30}), c(Type::F32, {10, 9}, {20, 1});
  a.random(1);
  b.random(2);
  MatMulArgs args;
  args.a = a;
  args.b = b;
  args.c = c;
  device->matmul(args);
  for (int64_t i = 0; i < 90; ++i) {
    double sum = 0;
    for (int64_t x = 0; x < 12; ++x)
      sum += a.get(i / 9 * 12 + x) * b.get(x * 9 + i % 9);
    ASSERT_NEAR(c.get(i), sum, 1e-5);
  }
}

// The number of threads changes who computes, not what.
TEST(Threads, DoNotChangeBits) {
  std::vector<std::vector<std::byte>> results;
  for (unsigned threads : {1u, 2u, 3u, 5u}) {
    auto device = makeDevice({"cpu", threads});
    TestTensor a(Type::BF16, {700, 300}), b(Type::BF16, {300, 520}), c(Type::F32, {700, 520});
    a.random(1);
    b.random(2);
    MatMulArgs args;
    args.a = a;
    args.b = b;
    args.c = c;
    device->matmul(args);
    const double squares = sumOfSquares(*device, {c.tensor().data, Type::F32, nullptr}, 700 * 520 / 128);
    std::vector<std::byte> bytes(c.tensor().data, c.tensor().data + 700 * 520 * 4);
    bytes.insert(bytes.end(), reinterpret_cast<const std::byte *>(&squares), reinterpret_cast<const std::byte *>(&squares + 1));
    results.push_back(std::move(bytes));
  }
  for (const auto &result : results)
    EXPECT_TRUE(result == results[0]);
}

TEST(Threads, RunEveryIterationOnceAndPassExceptionsOn) {
  auto device = makeDevice({"cpu", 4});
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::atomic<int>> ran(37);
    device->parallel(37, [&](int64_t i) { ++ran[static_cast<size_t>(i)]; });
    for (const auto &count : ran)
      ASSERT_EQ(count.load(), 1);
  }
  expectError(65, "seven", [&] {
    device->parallel(20, [](int64_t i) {
      if (i == 7)
        failData("seven");
    });
  });
  std::atomic<int> inner{0};
  device->parallel(3, [&](int64_t) { device->parallel(5, [&](int64_t) { ++inner; }); });
  EXPECT_EQ(inner, 15);
}

TEST(Lookup, GatherAndScatterAddAreTransposes) {
  auto device = makeDevice({"cpu", 2});
  for (Type type : {Type::F32, Type::BF16}) {
    TestTensor table(type, {11, 300}), indices(Type::I64, {4, 5}), rows(type, {4, 5, 300}), sum(Type::F32, {11, 300});
    table.random(1);
    for (int64_t i = 0; i < 20; ++i)
      indices.set(i, i % 3 == 0 ? -1 - i % 4 : (i * i) % 9); // -1 is the last row
    device->gather(table, indices, 0, rows);
    device->scatterAdd(rows, indices, sum);
    std::vector<double> expected(11 * 300);
    for (int64_t i = 0; i < 20; ++i) {
      const auto row = static_cast<int64_t>(indices.get(i) < 0 ? indices.get(i) + 11 : indices.get(i));
      for (int64_t j = 0; j < 300; ++j) {
        ASSERT_EQ(rows.get(i * 300 + j), table.get(row * 300 + j));
        expected[static_cast<size_t>(row * 300 + j)] += rows.get(i * 300 + j);
      }
    }
    for (int64_t i = 0; i < 11 * 300; ++i)
      ASSERT_NEAR(sum.get(i), expected[static_cast<size_t>(i)], 1e-4);
  }
  TestTensor table(Type::F32, {3, 2}), indices(Type::I64, {1}), out(Type::F32, {1, 2});
  indices.set(0, 3);
  expectError(65, "index 3 of a lookup is beyond a table of 3 rows", [&] { device->gather(table, indices, 0, out); });
  TestTensor wide(Type::F32, {2, 6, 3}), two(Type::I64, {2}), picked(Type::F32, {2, 2, 3});
  wide.random(5);
  two.set(0, 5);
  two.set(1, 1);
  device->gather(wide, two, 1, picked);
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(picked.get(i), wide.get(i / 6 * 18 + (i / 3 % 2 == 0 ? 5 : 1) * 3 + i % 3));
}

TEST(Copy, TransposesSlicesAndConverts) {
  auto device = makeDevice({"cpu", 2});
  TestTensor source(Type::F32, {30, 50, 7}, {1, 30 * 7, 30}), same(Type::F32, {30, 50, 7}), narrow(Type::BF16, {30, 50, 7}),
      long1(Type::F32, {100000}), long2(Type::F32, {100000});
  source.random(1);
  device->copy(source, same);
  device->copy(source, narrow);
  for (int64_t i = 0; i < source.count(); ++i) {
    ASSERT_EQ(same.get(i), source.get(i));
    ASSERT_EQ(narrow.get(i), bf16().decode(bf16().encode(source.get(i))));
  }
  long1.random(2);
  device->copy(long1, long2);
  for (int64_t i = 0; i < long1.count(); ++i)
    ASSERT_EQ(long1.get(i), long2.get(i));
}

TEST(FillAndAccumulate, WriteAndAdd) {
  auto device = makeDevice({"cpu", 2});
  TestTensor sum(Type::F32, {70, 300}), value(Type::BF16, {70, 300}), strided(Type::BF16, {70, 300}, {1, 70});
  device->fill(sum, 5.5);
  EXPECT_EQ(sum.get(20999), 5.5);
  value.random(1);
  strided.random(2);
  device->accumulate(value, sum, true);
  for (int64_t i = 0; i < sum.count(); ++i)
    ASSERT_EQ(sum.get(i), value.get(i));
  device->accumulate(strided, sum, false);
  for (int64_t i = 0; i < sum.count(); ++i)
    ASSERT_EQ(sum.get(i), static_cast<double>(static_cast<float>(value.get(i)) + static_cast<float>(strided.get(i))));
}

TEST(ReduceBlocks, SumsInFp32AndRoundsOnce) {
  auto device = makeDevice({"cpu", 2});
  constexpr int64_t blocks = 70;
  TestTensor a(Type::E4M3, {blocks * 128}), b(Type::E4M3, {blocks * 128}), out(Type::E4M3, {blocks * 128});
  a.random(1, 100);
  b.random(2, 100);
  std::vector<float> scaleA(blocks), scaleB(blocks), scale(blocks);
  for (int64_t i = 0; i < blocks; ++i) {
    scaleA[static_cast<size_t>(i)] = std::ldexp(1.0f, static_cast<int>(i % 9));
    scaleB[static_cast<size_t>(i)] = std::ldexp(1.0f, static_cast<int>(i % 4) + 3);
  }
  const BlockSpan sources[] = {{a.tensor().data, Type::E4M3, scaleA.data()}, {b.tensor().data, Type::E4M3, scaleB.data()}};
  device->reduceBlocks(sources, out.tensor().data, Type::E4M3, scale.data(), blocks);
  for (int64_t block = 0; block < blocks; ++block) {
    const auto s = static_cast<size_t>(block);
    std::vector<float> sum(128);
    float amax = 0;
    for (int64_t j = 0; j < 128; ++j) {
      sum[static_cast<size_t>(j)] = static_cast<float>(a.get(block * 128 + j) / scaleA[s] + b.get(block * 128 + j) / scaleB[s]);
      amax = std::max(amax, std::fabs(sum[static_cast<size_t>(j)]));
    }
    ASSERT_EQ(scale[s], scaleOf(amax, Type::E4M3));
    for (int64_t j = 0; j < 128; ++j)
      ASSERT_EQ(out.get(block * 128 + j), e4m3().decode(e4m3().encode(static_cast<double>(sum[static_cast<size_t>(j)]) * scale[s])));
  }
  // An infinite sum is still not finite after conversion to a format that saturates.
  TestTensor wide(Type::F32, {128}), narrow(Type::E4M3, {128});
  wide.set(5, INFINITY);
  const BlockSpan source{wide.tensor().data, Type::F32, nullptr};
  device->reduceBlocks({&source, 1}, narrow.tensor().data, Type::E4M3, scale.data(), 1);
  EXPECT_FALSE(std::isfinite(sumOfSquares(*device, {narrow.tensor().data, Type::E4M3, scale.data()}, 1)));
}

} // namespace
