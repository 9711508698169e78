// Products on the CPU and on the GPU: the shapes of GPT layers in forward and backward, and what the library does not
// take.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "tests/gpu/CheckTensor.h"

namespace msamp::test {

using namespace runtime;

namespace {

enum class Scales { None, One, Rows, Blocks, Vectors }; // of 1x128 and 128x128; of 1x128 both
enum class Addend { None, Other, InPlace };

struct Case {
  std::string name;
  Type a = Type::BF16, b = Type::BF16, c = Type::BF16;
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false;
  Scales scales = Scales::None;
  Addend addend = Addend::None;
  bool scaleOut = false, amax = false;
  std::vector<int64_t> lead = {};              // leading dimensions
  std::vector<int64_t> leadA = {}, leadB = {}; // their strides, where not row-major
  int64_t padA = 0, padB = 0, padC = 0;        // elements between rows
  bool columnMajorC = false;
  int64_t offset = 0; // elements before each operand
  Type bias = Type::None;
};

std::vector<int64_t> shapeOf(const Case &x, int64_t rows, int64_t cols, bool swap) {
  std::vector<int64_t> shape = x.lead;
  shape.push_back(swap ? cols : rows);
  shape.push_back(swap ? rows : cols);
  return shape;
}

std::vector<int64_t> stridesOf(const std::vector<int64_t> &shape, int64_t pad, const std::vector<int64_t> &lead,
                               bool columnMajor = false) {
  std::vector<int64_t> strides(shape.size());
  const size_t row = shape.size() - 2, col = shape.size() - 1;
  strides[columnMajor ? row : col] = 1;
  strides[columnMajor ? col : row] = shape[columnMajor ? row : col] + pad;
  int64_t stride = strides[columnMajor ? col : row] * shape[columnMajor ? col : row];
  for (size_t d = row; d-- > 0; stride *= shape[d])
    strides[d] = lead.empty() ? stride : lead[d];
  return strides;
}

void check(Devices devices, Report &report, const Case &x) {
  const int64_t leadCount = [&] {
    int64_t product = 1;
    for (int64_t extent : x.lead)
      product *= extent;
    return product;
  }();
  const double flops = 2.0 * static_cast<double>(leadCount) * static_cast<double>(x.m) * static_cast<double>(x.n) *
                       static_cast<double>(x.k);
  std::string name = fmt::format("matmul {} {}{} x {}{} -> {} {}x{}x{}", x.name, nameOf(x.a), x.transposeA ? "T" : "",
                                 nameOf(x.b), x.transposeB ? "T" : "", nameOf(x.c), x.m, x.n, x.k);
  if (leadCount != 1)
    name += fmt::format(" x{}", leadCount);
  const char *scaleNames[] = {"", ", scaled", ", row scales", ", block scales", ", 1x128 scales"};
  name += scaleNames[static_cast<size_t>(x.scales)];
  name += x.addend == Addend::InPlace ? ", accumulated" : x.addend == Addend::Other ? ", addend" : "";
  if (x.bias != Type::None)
    name += fmt::format(", {} bias", nameOf(x.bias));
  name += x.scaleOut ? ", scale out" : "";
  name += x.amax ? ", amax" : "";
  if (!report.wants(name) || (report.quick && flops > 1e10))
    return;

  auto narrow = [](Type type) { return isFp8(type) ? 8.0f : 1.0f; };
  const auto shapeA = shapeOf(x, x.m, x.k, x.transposeA), shapeB = shapeOf(x, x.k, x.n, x.transposeB),
             shapeC = shapeOf(x, x.m, x.n, false);
  CheckTensor a(devices, x.a, shapeA, stridesOf(shapeA, x.padA, x.leadA), x.offset),
      b(devices, x.b, shapeB, stridesOf(shapeB, x.padB, x.leadB), x.offset),
      c(devices, x.c, shapeC, stridesOf(shapeC, x.padC, {}, x.columnMajorC)), addend;
  a.random(1, narrow(x.a));
  b.random(2, narrow(x.b));
  const bool inPlace = x.addend == Addend::InPlace;
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(std::max<int64_t>(x.k, 1))));
  // Scales that bring the values back to a spread of 1.
  CheckTensor scaleA, scaleB;
  float spread = root * narrow(x.a) * narrow(x.b);
  if (x.scales != Scales::None) {
    const bool rows = x.scales != Scales::One;
    const int64_t blocks = (x.k + scaleBlock - 1) / scaleBlock;
    auto shapeOfScale = [&](int64_t extent) {
      return x.scales == Scales::One    ? std::vector<int64_t>{}
             : x.scales == Scales::Rows ? std::vector<int64_t>{extent}
                                        : std::vector<int64_t>{extent, blocks};
    };
    scaleA = CheckTensor(devices, Type::F32, shapeOfScale(x.m));
    scaleB = CheckTensor(devices, Type::F32,
                         shapeOfScale(x.scales == Scales::Blocks ? (x.n + scaleBlock - 1) / scaleBlock : x.n));
    scaleA.powers(3, rows ? 1 : 3, rows ? 4 : 3);
    scaleB.powers(4, rows ? 2 : 3, rows ? 4 : 3);
    spread = rows ? spread / 8 : spread / 64; // the smallest product of scales
  }
  if (inPlace)
    c.random(5, root);
  else
    c.fill(0x5a);
  if (x.addend == Addend::Other)
    (addend = CheckTensor(devices, x.c == Type::F32 ? Type::F32 : Type::BF16, shapeC)).random(6, root);
  CheckTensor bias;
  if (x.bias != Type::None)
    (bias = CheckTensor(devices, x.bias, {x.n})).random(7, root);
  CheckTensor scaleOut(devices, Type::F32, {}), amax(devices, Type::F32, {});
  const float factor = x.scaleOut ? std::exp2(std::floor(std::log2(60.0f / spread))) : 1.0f;
  {
    const int exponent = static_cast<int>(std::lround(std::log2(factor)));
    scaleOut.powers(1, exponent, exponent);
    amax.powers(1, 100, 100); // must be forgotten
  }

  MatMulArgs args;
  args.transposeA = x.transposeA;
  args.transposeB = x.transposeB;
  args.scaled = x.scales != Scales::None;
  args.hasAddend = x.addend != Addend::None;
  auto bind = [&](auto &&side) {
    args.a = side(a);
    args.b = side(b);
    args.c = side(c);
    if (args.scaled) {
      args.scaleA = side(scaleA);
      args.scaleB = side(scaleB);
    }
    if (args.hasAddend)
      args.addend = inPlace ? side(c) : side(addend);
    args.hasBias = x.bias != Type::None;
    if (args.hasBias)
      args.bias = side(bias);
    args.scaleOut = x.scaleOut ? reinterpret_cast<const float *>(side(scaleOut).data) : nullptr;
    args.amaxOut = x.amax ? reinterpret_cast<float *>(side(amax).data) : nullptr;
  };
  std::vector<std::byte> result, resultAmax;
  double milliseconds = 0;
  bind([](const CheckTensor &t) { return t.device(); });
  try {
    devices.gpu.matmul(args);
    result = c.download();
    resultAmax = amax.download();
    if (flops > 1e10)
      milliseconds = timeOf(devices.gpu, name, [&] { devices.gpu.matmul(args); });
  } catch (const std::exception &error) {
    return report.add(name, false, error.what());
  }

  // The reference: all rows, or three windows of a large result.
  bind([](const CheckTensor &t) { return t.host(); });
  std::vector<std::pair<int64_t, int64_t>> windows = {{0, x.m}};
  if (flops > 5e10 && x.m > 256 && leadCount == 1)
    windows = {{0, 64}, {x.m / 2, 64}, {x.m - 64, 64}};
  const unsigned row = args.c.rank - 2;
  const MatMulArgs whole = args;
  // What a result may differ by beyond the rounding to its type. Tensor cores cut off what they add: of 16-bit types to 24 bits
  // each 16 products, always in one direction, of FP8 to 14 bits each 32, unless sums of 128 products are added in FP32. No
  // element of a sum of independent values is further out than `largest`.
  const bool fp8 = isFp8(x.a) && isFp8(x.b), exact = x.a == Type::E5M2 || x.b == Type::E5M2 || args.scaledByBlocks();
  const double largest = 5.5 * spread, products = static_cast<double>(x.k);
  double accumulation = spread * (fp8 ? 0x1p-9 : 0x1p-17);
  if (fp8 && !exact)
    accumulation += products / 32 * 0x1p-14 * largest;
  else if (sizeOf(x.a) == 2 && sizeOf(x.b) == 2)
    accumulation += products / 16 * 0x1p-24 * largest;
  // The library may round the product to the result's type before it adds to it, and rounds a bias to that type.
  const Type added = isFp8(x.c) ? Type::BF16 : x.c;
  if (args.hasAddend || args.hasBias)
    accumulation += unitOf(added) / 2 * (largest + (args.hasBias ? 5.5 * root : 0));
  Difference worst;
  for (auto [first, count] : windows) {
    args.a = part(whole.a, x.transposeA ? row + 1 : row, first, count);
    args.c = part(whole.c, row, first, count);
    if (args.hasAddend)
      args.addend = part(whole.addend, row, first, count);
    if (args.scaled && args.scaleA.rank > 0)
      args.scaleA = part(whole.scaleA, 0, first, count);
    devices.cpu.matmul(args);
    std::vector<float> expected = valuesOf(devices.cpu, args.c);
    std::vector<float> actual = valuesOf(devices.cpu, at(args.c, c, result));
    const Difference d =
        compare(actual, expected, unitOf(x.c) * 1.01, accumulation * factor + (isFp8(x.c) ? 0x1p-9 : 0));
    worst.worst = std::max(worst.worst, d.worst);
    worst.finite &= d.finite;
  }
  bool good = worst.finite && worst.worst <= 1;
  std::string detail = fmt::format("{:.2f} of what is allowed", worst.worst);
  if (x.amax && windows.size() == 1) {
    const float expected = *reinterpret_cast<const float *>(amax.host().data);
    float actual;
    std::memcpy(&actual, resultAmax.data(), sizeof actual);
    // The library may find it after it has rounded.
    const bool fits = std::fabs(actual - expected) <= (unitOf(x.c) / 2 + 0x1p-8) * expected;
    good &= fits;
    detail += fmt::format(", amax {} for {}", actual, expected);
  }
  if (milliseconds > 0)
    detail += fmt::format(", {:.3f} ms, {:.0f} TFLOP/s", milliseconds, flops / milliseconds / 1e9);
  report.add(name, good, detail);
}

// A linear layer's three products, in FP8 (all operands with K innermost) and in BF16 (as tensors lie).
void layer(std::vector<Case> &cases, const std::string &name, int64_t tokens, int64_t in, int64_t out) {
  const Type e4 = Type::E4M3, e5 = Type::E5M2, bf = Type::BF16, f32 = Type::F32;
  cases.push_back({name + " fprop", bf, bf, bf, tokens, out, in, false, true});
  cases.push_back({name + " dgrad", bf, bf, bf, tokens, in, out});
  cases.push_back({name + " wgrad", bf, bf, f32, out, in, tokens, true, false});
  cases.push_back({name + " fprop", e4, e4, bf, tokens, out, in, false, true, Scales::One});
  cases.push_back({name + " fprop", e4, e4, bf, tokens, out, in, false, true, Scales::Rows});
  cases.push_back({name + " fprop", e4, e4, bf, tokens, out, in, false, true, Scales::Blocks});
  cases.push_back({name + " fprop", e4, e4, bf, tokens, out, in, false, true, Scales::One, Addend::Other});
  cases.push_back({name + " dgrad", e5, e4, bf, tokens, in, out, false, true, Scales::One});
  cases.push_back({name + " dgrad", e5, e4, bf, tokens, in, out, false, true, Scales::Rows});
  cases.push_back({name + " dgrad", e5, e4, bf, tokens, in, out, false, true, Scales::Blocks});
  cases.push_back({name + " wgrad", e5, e4, f32, out, in, tokens, false, true, Scales::One});
  cases.push_back({name + " wgrad", e5, e4, f32, out, in, tokens, false, true, Scales::Vectors});
  cases.push_back({name + " wgrad", e4, e5, f32, out, in, tokens, false, true, Scales::Vectors, Addend::InPlace});
  cases.push_back({name + " wgrad", e5, e4, bf, out, in, tokens, false, true, Scales::One, Addend::InPlace});
  cases.push_back({name + " wgrad", e5, e4, f32, out, in, tokens, false, true, Scales::One, Addend::InPlace});
  cases.push_back({name + " wgrad", e5, e4, e4, out, in, tokens, false, true, Scales::One, Addend::None, true, true});
}

} // namespace

void checkMatMul(Devices devices, Report &report) {
  const Type e4 = Type::E4M3, e5 = Type::E5M2, bf = Type::BF16, f16 = Type::F16, f32 = Type::F32;
  std::vector<Case> cases;
  layer(cases, "bytes", 2048, 128, 384);
  // What the library does not take as it is.
  cases.push_back({"one", f32, f32, f32, 1, 1, 1});
  cases.push_back({"f32", f32, f32, f32, 300, 70, 129});
  cases.push_back({"f32", f32, f32, f32, 129, 300, 64, true, true});
  cases.push_back({"f32", f32, f32, f32, 1024, 3072, 768, false, true});
  cases.push_back({"f32 to bf16", f32, f32, bf, 65, 48, 1500});
  cases.push_back({"f16", f16, f16, f16, 128, 96, 64, false, true});
  cases.push_back({"mixed", bf, f32, f32, 65, 48, 96, true});
  cases.push_back({"mixed", f32, f16, bf, 16, 48, 33, false, true});
  cases.push_back({"mixed", bf, e4, bf, 64, 48, 160, false, true});
  cases.push_back({"odd", bf, bf, bf, 7, 601, 51, true, true});
  cases.push_back({"odd", bf, bf, f32, 33, 5, 3, false, true, Scales::None, Addend::Other});
  cases.push_back({"empty sum", bf, bf, bf, 16, 16, 0});
  cases.push_back({"empty sum", bf, bf, bf, 16, 16, 0, false, false, Scales::None, Addend::Other});
  cases.push_back({"odd fp8", e4, e4, bf, 100, 60, 72, false, true, Scales::One});
  cases.push_back({"odd fp8", e5, e4, f32, 33, 17, 45, true, false, Scales::Rows});
  // K and N that are no multiples of 128, of 4 blocks, of 16; operands that lie otherwise.
  cases.push_back({"partial blocks", e4, e4, bf, 256, 400, 1600, false, true, Scales::Blocks});
  cases.push_back({"partial blocks", e5, e4, bf, 96, 208, 80, false, true, Scales::Blocks});
  cases.push_back({"partial blocks", e5, e4, f32, 144, 208, 720, false, true, Scales::Vectors});
  cases.push_back({"odd blocks", e4, e4, bf, 100, 60, 200, false, true, Scales::Blocks});
  cases.push_back({"packed blocks", e4, e4, bf, 256, 384, 640, true, false, Scales::Blocks});
  cases.push_back({"both e5m2", e5, e5, bf, 128, 64, 256, false, true, Scales::One});
  cases.push_back({"packed", e4, e4, bf, 256, 384, 512, false, false, Scales::One});
  cases.push_back({"packed", e4, e5, bf, 256, 384, 512, true, false, Scales::One});
  cases.push_back({"packed", e5, e4, f32, 256, 384, 512, true, true, Scales::Rows});
  cases.push_back({"to e5m2", e4, e5, e5, 256, 384, 512, false, true, Scales::One, Addend::None, true, true});
  cases.push_back({"to e4m3", e4, e4, e4, 256, 384, 512, false, true, Scales::Rows, Addend::None, true, true});
  cases.push_back({"to e4m3", e4, e4, e4, 256, 384, 512, false, true, Scales::One, Addend::Other, true, true});
  cases.push_back({"bf16 to e4m3", bf, bf, e4, 256, 384, 512, false, true, Scales::None, Addend::None, true, true});
  cases.push_back({"amax of bf16", e4, e4, bf, 256, 384, 512, false, true, Scales::One, Addend::None, false, true});
  // Biases.
  auto biased = [&](Case one, Type type) {
    one.bias = type;
    cases.push_back(std::move(one));
  };
  biased({"biased", bf, bf, bf, 256, 384, 512, false, true}, bf);
  biased({"biased", bf, bf, bf, 256, 384, 512, false, true}, f32);
  biased({"biased", bf, bf, f32, 256, 384, 512, false, true}, bf);
  biased({"biased", f32, f32, f32, 256, 384, 512, false, true}, f32);
  biased({"biased", e4, e4, bf, 256, 384, 512, false, true, Scales::One}, bf);
  biased({"biased", e4, e4, bf, 256, 384, 512, false, true, Scales::One, Addend::Other}, f32);
  biased({"biased", e4, e4, bf, 256, 384, 512, false, true, Scales::Rows, Addend::Other}, bf);
  biased({"biased", e4, e4, bf, 256, 384, 640, false, true, Scales::Blocks}, bf);
  biased({"biased", e4, e4, bf, 256, 384, 640, false, true, Scales::Blocks, Addend::Other}, bf);
  biased({"biased", e4, e4, e4, 256, 384, 512, false, true, Scales::One, Addend::None, true, true}, bf);
  biased({"biased", e4, e4, f32, 256, 384, 512, false, true, Scales::One}, f32);
  // Leading dimensions and strides.
  Case x;
  x = {"batched", bf, bf, bf, 64, 48, 32};
  x.lead = {6};
  cases.push_back(x);
  x = {"batched", e4, e4, bf, 64, 48, 32, false, true, Scales::One};
  x.lead = {2, 3};
  cases.push_back(x);
  x = {"batched", e4, e4, bf, 64, 48, 32, false, true, Scales::Rows};
  x.lead = {4};
  cases.push_back(x);
  x = {"shared b", bf, bf, bf, 64, 48, 32, false, true};
  x.lead = {5};
  x.leadB = {0};
  cases.push_back(x);
  x = {"shared b", f32, f32, f32, 1, 48, 32, false, false};
  x.lead = {5, 3};
  x.leadB = {0, 0};
  cases.push_back(x);
  x = {"shared a", bf, bf, bf, 64, 48, 32, false, true};
  x.lead = {5};
  x.leadA = {0};
  cases.push_back(x);
  x = {"heads apart", bf, bf, bf, 128, 128, 64, false, true}; // [B, H, T, D] of a tensor [B, T, 3, H, D]
  x.lead = {2, 4};
  x.leadA = x.leadB = {128 * 3 * 4 * 64, 64};
  x.padA = x.padB = 3 * 4 * 64 - 64;
  cases.push_back(x);
  x = {"rows apart", bf, bf, bf, 64, 48, 32, false, true};
  x.padA = 8;
  x.padB = 3;
  x.padC = 5;
  cases.push_back(x);
  x = {"rows apart", e4, e4, bf, 64, 48, 32, false, true, Scales::One};
  x.padA = 16;
  x.padB = 8;
  cases.push_back(x);
  x = {"not aligned", e4, e4, bf, 64, 48, 32, false, true, Scales::One};
  x.offset = 3;
  cases.push_back(x);
  x = {"not aligned", bf, bf, bf, 64, 48, 32, false, false};
  x.offset = 1;
  cases.push_back(x);
  x = {"columns", bf, bf, bf, 64, 48, 32, false, true};
  x.columnMajorC = true;
  cases.push_back(x);
  x = {"columns", e4, e4, bf, 64, 48, 32, false, true, Scales::Rows};
  x.columnMajorC = true;
  cases.push_back(x);
  // Models.
  layer(cases, "124m proj", 32768, 768, 768);
  layer(cases, "124m up", 32768, 768, 3072);
  layer(cases, "124m head", 4096, 768, 50304);
  biased({"1.3b up fprop", e4, e4, bf, 32768, 8192, 2048, false, true, Scales::One}, bf);
  biased({"1.3b down fprop", e4, e4, bf, 32768, 2048, 8192, false, true, Scales::Rows, Addend::Other}, bf);
  layer(cases, "1.3b up", 32768, 2048, 8192);
  layer(cases, "1.3b down", 32768, 8192, 2048);
  for (const Case &one : cases)
    check(devices, report, one);
}

} // namespace msamp::test
