// Attention and its gradients on the CPU and on the GPU.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tests/gpu/CheckTensor.h"

namespace msamp::test {

using namespace runtime;

namespace {

enum class Bias { None, Full, Shared, Mask }; // [B,H,T,S], [1,1,T,S], [B,1,1,S]

struct Case {
  std::string name;
  Type type = Type::BF16;
  int64_t batches = 1, queries = 1, keys = 1, heads = 1, groups = 1, width = 64, valueWidth = 64;
  bool causal = true;
  Bias bias = Bias::None;
  bool fused = false; // q, k, v are parts of one tensor, and so are their gradients
};

struct Limits {
  double rms, largest;
};
// Of BF16 the products of probabilities and values are made from rounded probabilities.
Limits limitsOf(Type type) {
  return type == Type::F32 ? Limits{2e-5, 2e-4} : type == Type::F16 ? Limits{2e-3, 2e-2} : Limits{1.2e-2, 6e-2};
}

// q, k, v, or their gradients: three tensors, or three views of one.
struct Inputs {
  CheckTensor fused, apart[3];
  Tensor host[3], device[3];

  Inputs(Devices devices, const Case &x) {
    const int64_t B = x.batches, heads[3] = {x.heads, x.groups, x.groups}, widths[3] = {x.width, x.width, x.valueWidth},
                  lengths[3] = {x.queries, x.keys, x.keys};
    if (x.fused) {
      const int64_t row = heads[0] * widths[0] + heads[1] * widths[1] + heads[2] * widths[2];
      fused = CheckTensor(devices, x.type, {B, x.queries, row});
      for (int64_t i = 0, from = 0; i < 3; from += heads[i] * widths[i], ++i) {
        auto view = [&](const Tensor &whole) {
          Tensor t = part(whole, 2, from, heads[i] * widths[i]);
          t.rank = 4;
          t.shape[2] = heads[i];
          t.shape[3] = widths[i];
          t.strides[2] = widths[i];
          t.strides[3] = 1;
          return t;
        };
        host[i] = view(fused.host());
        device[i] = view(fused.device());
      }
    } else {
      for (int i = 0; i < 3; ++i) {
        apart[i] = CheckTensor(devices, x.type, {B, lengths[i], heads[i], widths[i]});
        host[i] = apart[i].host();
        device[i] = apart[i].device();
      }
    }
  }
  const CheckTensor &owner(int i) const { return fused.memory().empty() ? apart[i] : fused; }
  void random() {
    if (!fused.memory().empty())
      fused.random(1, 1);
    else
      for (unsigned i = 0; i < 3; ++i)
        apart[i].random(i + 1, 1);
  }
};

void check(Devices devices, Report &report, const Case &x) {
  const int64_t B = x.batches, T = x.queries, S = x.keys, H = x.heads;
  const double flops =
      2.0 * static_cast<double>(B * H * T) * static_cast<double>(S * (x.width + x.valueWidth)) * (x.causal ? 0.5 : 1);
  std::string name = fmt::format("attention {} {} B{} T{} S{} H{}/{} D{}/{}", x.name, nameOf(x.type), B, T, S, H,
                                 x.groups, x.width, x.valueWidth);
  name += x.causal ? " causal" : "";
  name += x.bias == Bias::None     ? ""
          : x.bias == Bias::Full   ? " bias"
          : x.bias == Bias::Shared ? " shared bias"
                                   : " mask";
  name += x.fused ? " fused" : "";
  if (!report.wants(name) || (report.quick && flops > 1e10))
    return;

  Inputs in(devices, x), gradients(devices, x);
  in.random();
  const std::vector<int64_t> shapeO = {B, T, H, x.valueWidth};
  CheckTensor o(devices, x.type, shapeO), dO(devices, x.type, shapeO), lse(devices, Type::F32, {B, H, T}), bias;
  dO.random(9, 1);
  if (x.bias == Bias::Full)
    (bias = CheckTensor(devices, x.type, {B, H, T, S})).random(4, 1);
  else if (x.bias == Bias::Shared)
    (bias = CheckTensor(devices, x.type, {1, 1, T, S})).random(4, 1);
  else if (x.bias == Bias::Mask)
    (bias = CheckTensor(devices, x.type, {B, 1, 1, S})).random(4, 4);

  AttentionArgs args;
  args.scale = 1 / std::sqrt(static_cast<double>(x.width));
  args.causal = x.causal;
  args.hasBias = x.bias != Bias::None;
  auto bind = [&](bool device) {
    auto side = [&](const CheckTensor &t) { return device ? t.device() : t.host(); };
    const Tensor *from = device ? in.device : in.host, *to = device ? gradients.device : gradients.host;
    args.q = from[0];
    args.k = from[1];
    args.v = from[2];
    args.dQ = to[0];
    args.dK = to[1];
    args.dV = to[2];
    args.o = side(o);
    args.lse = side(lse);
    args.dO = side(dO);
    if (args.hasBias)
      args.bias = side(bias);
  };
  bind(true);
  std::vector<std::byte> oBytes, lseBytes, gradBytes[3], again[3];
  double forward = 0, backward = 0;
  try {
    devices.gpu.attention(args);
    devices.gpu.attentionGrad(args);
    oBytes = o.download();
    lseBytes = lse.download();
    for (int i = 0; i < 3; ++i)
      gradBytes[i] = gradients.owner(i).download();
    if (flops > 5e9) {
      forward = timeOf(devices.gpu, name, [&] { devices.gpu.attention(args); });
      backward = timeOf(devices.gpu, name + " gradients", [&] { devices.gpu.attentionGrad(args); });
    } else {
      devices.gpu.attentionGrad(args);
    }
    for (int i = 0; i < 3; ++i)
      again[i] = gradients.owner(i).download();
  } catch (const std::exception &error) {
    return report.add(name, false, error.what());
  }

  // The reference: of a large batch the first entry and the last.
  bind(false);
  const AttentionArgs whole = args;
  const bool large = flops > 2e10 && B > 2;
  const Limits limits = limitsOf(x.type);
  bool good = true;
  std::string detail = "errors";
  double worst[5] = {};
  for (int64_t entry : large ? std::vector<int64_t>{0, B - 1} : std::vector<int64_t>{-1}) {
    args = whole;
    if (entry >= 0) {
      for (Tensor *t : {&args.q, &args.k, &args.v, &args.o, &args.lse, &args.dO, &args.dQ, &args.dK, &args.dV})
        *t = part(*t, 0, entry, 1);
      if (args.hasBias && args.bias.shape[0] > 1)
        args.bias = part(args.bias, 0, entry, 1);
    }
    devices.cpu.attention(args);
    devices.cpu.attentionGrad(args);
    auto see = [&](int i, const Tensor &reference, const CheckTensor &owner, std::vector<std::byte> &bytes,
                   Limits limit) {
      const Difference d =
          compare(valuesOf(devices.cpu, at(reference, owner, bytes)), valuesOf(devices.cpu, reference), 0, 1);
      const double share = std::max(d.rms / limit.rms, d.largest / limit.largest);
      worst[i] = std::max(worst[i], share);
      good &= d.finite && share <= 1;
    };
    see(0, args.o, o, oBytes, limits);
    see(1, args.lse, lse, lseBytes, x.type == Type::F32 ? Limits{1e-6, 1e-5} : Limits{1e-4, 1e-3});
    see(2, args.dQ, gradients.owner(0), gradBytes[0], limits);
    see(3, args.dK, gradients.owner(1), gradBytes[1], limits);
    see(4, args.dV, gradients.owner(2), gradBytes[2], limits);
  }
  const char *names[5] = {"o", "lse", "dq", "dk", "dv"};
  for (int i = 0; i < 5; ++i)
    detail += fmt::format(" {} {:.2f}", names[i], worst[i]);
  detail += " of what is allowed";
  for (int i = 0; i < 3; ++i)
    if (!report.anyOrder && gradBytes[i] != again[i]) {
      detail += fmt::format(", {} DIFFERS when repeated", names[i + 2]);
      good = false;
    }
  if (forward > 0)
    detail += fmt::format(", {:.3f} ms {:.0f} TFLOP/s, gradients {:.3f} ms {:.0f} TFLOP/s", forward,
                          flops / forward / 1e9, backward, 2.5 * flops / backward / 1e9);
  report.add(name, good, detail);
}

} // namespace

void checkAttention(Devices devices, Report &report) {
  const Type bf = Type::BF16, f16 = Type::F16, f32 = Type::F32;
  const std::vector<Case> cases = {
      {"bytes", bf, 16, 128, 128, 4, 4, 32, 32, true, Bias::None, true},
      {"bytes", f32, 16, 128, 128, 4, 4, 32, 32, true, Bias::None, true},
      {"bytes", f16, 16, 128, 128, 4, 4, 32, 32, true, Bias::None, true},
      {"whole", bf, 2, 256, 256, 4, 4, 64, 64, false, Bias::None, false},
      {"groups", bf, 2, 256, 256, 8, 2, 64, 64, true, Bias::None, true},
      {"groups", f32, 2, 100, 100, 6, 2, 24, 24, true, Bias::None, true},
      {"biased", bf, 2, 128, 128, 4, 4, 64, 64, false, Bias::Full, false},
      {"biased", bf, 2, 128, 128, 4, 4, 64, 64, true, Bias::Full, false},
      {"biased", bf, 2, 128, 128, 4, 4, 64, 64, true, Bias::Shared, false},
      {"biased", bf, 2, 32, 32, 4, 4, 64, 64, false, Bias::Mask, false},
      {"biased", bf, 2, 128, 128, 4, 4, 64, 64, false, Bias::Mask, false},
      {"biased", bf, 2, 192, 192, 4, 4, 64, 64, false, Bias::Mask, false},
      {"biased", bf, 2, 96, 96, 4, 4, 64, 64, false, Bias::Full, false},
      {"biased", bf, 2, 96, 96, 4, 4, 64, 64, true, Bias::Shared, false},
      {"biased", bf, 2, 96, 96, 4, 4, 64, 64, true, Bias::None, false},
      {"biased", bf, 2, 96, 96, 4, 4, 64, 64, false, Bias::Mask, false},
      {"biased", f32, 2, 50, 50, 4, 2, 16, 16, true, Bias::Full, false},
      {"biased", f32, 2, 50, 50, 4, 4, 16, 16, false, Bias::Mask, false},
      {"more keys", bf, 2, 64, 192, 4, 4, 64, 64, true, Bias::None, false},
      {"more keys", f32, 2, 30, 70, 4, 4, 16, 16, true, Bias::None, false},
      {"more queries", bf, 2, 192, 64, 4, 4, 64, 64, true, Bias::None, false},
      {"more queries", f32, 2, 70, 30, 4, 4, 16, 16, true, Bias::None, false},
      {"two widths", bf, 2, 128, 128, 4, 4, 64, 128, true, Bias::None, false},
      {"two widths", f32, 2, 33, 65, 3, 1, 20, 12, false, Bias::None, false},
      {"odd", bf, 3, 77, 77, 3, 3, 40, 40, true, Bias::None, true},
      {"odd", bf, 3, 77, 77, 3, 3, 36, 36, true, Bias::None, true},
      {"odd", bf, 1, 1, 1, 1, 1, 4, 4, true, Bias::None, false},
      {"odd", bf, 2, 8, 8, 2, 2, 16, 16, true, Bias::None, true},
      {"wide", bf, 1, 128, 128, 2, 2, 256, 256, true, Bias::None, false},
      {"wider", bf, 1, 64, 64, 2, 2, 320, 320, true, Bias::None, false},
      {"124m", bf, 32, 1024, 1024, 12, 12, 64, 64, true, Bias::None, true},
      {"124m", f32, 2, 1024, 1024, 12, 12, 64, 64, true, Bias::None, true},
      {"1.3b", bf, 16, 2048, 2048, 16, 16, 128, 128, true, Bias::None, true},
      {"7b", bf, 2, 2048, 2048, 32, 32, 128, 128, true, Bias::None, true},
      {"llama", bf, 4, 2048, 2048, 32, 8, 128, 128, true, Bias::None, true},
  };
  for (const Case &one : cases)
    check(devices, report, one);
}

} // namespace msamp::test
