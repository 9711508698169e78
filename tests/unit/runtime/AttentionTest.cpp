#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/runtime/ExpectNear.h"
#include "tests/unit/runtime/TestTensor.h"

using namespace msamp::runtime;
using namespace msamp::test;

namespace {

struct Case {
  Type type;
  int64_t batch, queries, keys, heads, groups, width, valueWidth;
  bool causal;
  int biasHeads; // 0: no bias
  bool fused;    // q, k and v are slices of one tensor
};

// Attention in double precision, straight from its definition, with gradients by the chain rule on the whole matrix.
struct Reference {
  std::vector<double> o, lse, dQ, dK, dV;
  Reference(const Case &c, double scale, const TestTensor &q, const TestTensor &k, const TestTensor &v, const TestTensor *bias,
      const TestTensor &dO)
      : o(static_cast<size_t>(dO.count())), lse(static_cast<size_t>(c.batch * c.heads * c.queries)),
        dQ(static_cast<size_t>(q.count())), dK(static_cast<size_t>(k.count())), dV(static_cast<size_t>(v.count())) {
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t t = 0; t < c.queries; ++t)
          row(c, scale, q, k, v, bias, dO, b, h, t);
  }

private:
  void row(const Case &c, double scale, const TestTensor &q, const TestTensor &k, const TestTensor &v, const TestTensor *bias,
      const TestTensor &dO, int64_t b, int64_t h, int64_t t) {
    const int64_t g = h / (c.heads / c.groups);
    auto qAt = [&](int64_t i) { return static_cast<size_t>(((b * c.queries + t) * c.heads + h) * c.width + i); };
    auto kAt = [&](int64_t s, int64_t i) { return static_cast<size_t>(((b * c.keys + s) * c.groups + g) * c.width + i); };
    auto vAt = [&](int64_t s, int64_t i) { return static_cast<size_t>(((b * c.keys + s) * c.groups + g) * c.valueWidth + i); };
    auto oAt = [&](int64_t i) { return static_cast<size_t>(((b * c.queries + t) * c.heads + h) * c.valueWidth + i); };
    std::vector<double> p(static_cast<size_t>(c.keys), -INFINITY);
    double sum = 0;
    for (int64_t s = 0; s < c.keys; ++s) {
      if (c.causal && s > t + c.keys - c.queries)
        continue;
      double score = 0;
      for (int64_t i = 0; i < c.width; ++i)
        score += q.get(static_cast<int64_t>(qAt(i))) * k.get(static_cast<int64_t>(kAt(s, i)));
      score *= scale;
      if (bias)
        score += bias->get(((c.biasHeads == 1 ? 0 : h) * c.queries + t) * c.keys + s);
      p[static_cast<size_t>(s)] = score;
      sum += std::exp(score);
    }
    lse[static_cast<size_t>((b * c.heads + h) * c.queries + t)] = std::log(sum);
    if (sum == 0)
      return;
    std::vector<double> dP(static_cast<size_t>(c.keys));
    double delta = 0;
    for (int64_t s = 0; s < c.keys; ++s) {
      auto &prob = p[static_cast<size_t>(s)];
      prob = std::exp(prob) / sum;
      for (int64_t i = 0; i < c.valueWidth; ++i) {
        const double gradient = dO.get(static_cast<int64_t>(oAt(i))), value = v.get(static_cast<int64_t>(vAt(s, i)));
        o[oAt(i)] += prob * value;
        dV[vAt(s, i)] += prob * gradient;
        dP[static_cast<size_t>(s)] += gradient * value;
      }
      delta += prob * dP[static_cast<size_t>(s)];
    }
    for (int64_t s = 0; s < c.keys; ++s) {
      const double dScore = p[static_cast<size_t>(s)] * (dP[static_cast<size_t>(s)] - delta) * scale;
      for (int64_t i = 0; i < c.width; ++i) {
        dQ[qAt(i)] += dScore * k.get(static_cast<int64_t>(kAt(s, i)));
        dK[kAt(s, i)] += dScore * q.get(static_cast<int64_t>(qAt(i)));
      }
    }
  }
};

class Attention : public testing::TestWithParam<Case> {};

TEST_P(Attention, AgreesWithItsDefinition) {
  const Case &c = GetParam();
  auto device = makeDevice({"cpu", 2});
  std::vector<int64_t> qStrides, kStrides, vStrides;
  if (c.fused) {
    const int64_t token = c.heads * c.width + c.groups * (c.width + c.valueWidth) + 3;
    qStrides = {c.queries * token, token, c.width, 1};
    kStrides = {c.keys * token, token, c.width, 1};
    vStrides = {c.keys * token, token, c.valueWidth, 1};
  }
  TestTensor q(c.type, {c.batch, c.queries, c.heads, c.width}, qStrides), k(c.type, {c.batch, c.keys, c.groups, c.width}, kStrides),
      v(c.type, {c.batch, c.keys, c.groups, c.valueWidth}, vStrides), o(c.type, {c.batch, c.queries, c.heads, c.valueWidth}),
      lse(Type::F32, {c.batch, c.heads, c.queries}), dO(c.type, {c.batch, c.queries, c.heads, c.valueWidth}),
      dQ(c.type, {c.batch, c.queries, c.heads, c.width}, qStrides), dK(c.type, {c.batch, c.keys, c.groups, c.width}, kStrides),
      dV(c.type, {c.batch, c.keys, c.groups, c.valueWidth}, vStrides);
  q.random(1);
  k.random(2);
  v.random(3);
  dO.random(4);
  TestTensor bias(Type::F32, {1, std::max(1, c.biasHeads), c.queries, c.keys});
  bias.random(5);
  if (c.biasHeads > 0)
    for (int64_t i = 0; i < bias.count(); ++i)
      if (i % 3 == 0 || (i / c.keys) % c.queries == 1) // query 1 is masked whole
        bias.set(i, -INFINITY);
  AttentionArgs args;
  args.q = q;
  args.k = k;
  args.v = v;
  args.o = o;
  args.lse = lse;
  args.scale = 1 / std::sqrt(static_cast<double>(c.width));
  args.causal = c.causal;
  args.hasBias = c.biasHeads > 0;
  args.bias = bias;
  device->attention(args);
  const Reference reference(c, args.scale, q, k, v, args.hasBias ? &bias : nullptr, dO);
  const double tolerance = c.type == Type::F32 ? 2e-6 : 6e-3;
  expectNear(o, reference.o, tolerance, "o");
  for (int64_t i = 0; i < lse.count(); ++i) {
    const double expected = reference.lse[static_cast<size_t>(i)];
    ASSERT_TRUE(lse.get(i) == expected || std::fabs(lse.get(i) - expected) < 1e-5) << lse.get(i) << " " << expected;
  }
  args.dO = dO;
  args.dQ = dQ;
  args.dK = dK;
  args.dV = dV;
  device->attentionGrad(args);
  expectNear(dQ, reference.dQ, tolerance, "dQ");
  expectNear(dK, reference.dK, tolerance, "dK");
  expectNear(dV, reference.dV, tolerance, "dV");
}

INSTANTIATE_TEST_SUITE_P(Cases, Attention,
    testing::Values(Case{Type::F32, 2, 17, 17, 3, 3, 8, 8, true, 0, false}, Case{Type::F32, 1, 150, 150, 4, 2, 16, 24, true, 0, true},
        Case{Type::F32, 2, 33, 70, 2, 1, 8, 8, true, 0, false}, Case{Type::F32, 1, 20, 9, 2, 2, 8, 8, true, 0, false},
        Case{Type::F32, 2, 19, 40, 4, 2, 8, 16, false, 1, false}, Case{Type::F32, 1, 70, 70, 2, 2, 32, 32, true, 2, true},
        Case{Type::BF16, 2, 128, 128, 4, 4, 32, 32, true, 0, true}, Case{Type::BF16, 1, 30, 30, 6, 2, 16, 16, false, 6, false}));

} // namespace
