// Attention and its gradients, one (batch, key group) at a time, in blocks of query rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/core/Error.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/Gemm.h"

namespace msamp::runtime::cpu {

namespace {

// A matrix of one head: rows at a stride, FP32.
struct Rows {
  float *data;
  int64_t ld;
};

// Strided [B, X, H, D] tensor as rows of one (batch, head).
struct Heads {
  const VectorOps &ops;
  const Tensor &tensor;
  std::byte *base(int64_t batch, int64_t head, int64_t row) const {
    return tensor.data +
           static_cast<size_t>(batch * tensor.strides[0] + row * tensor.strides[1] + head * tensor.strides[2]) * sizeOf(tensor.type);
  }
  int64_t width() const { return tensor.shape[3]; }
  bool inPlace() const { return tensor.type == Type::F32 && tensor.strides[3] == 1 && tensor.strides[1] >= tensor.shape[3]; }

  // Where they lie, or copied to `scratch`.
  Rows read(int64_t batch, int64_t head, int64_t row, int64_t rows, float *scratch) const {
    if (inPlace())
      return {reinterpret_cast<float *>(base(batch, head, row)), tensor.strides[1]};
    auto widen = ops.decode[static_cast<size_t>(tensor.type)];
    for (int64_t i = 0; i < rows; ++i) {
      const std::byte *from = base(batch, head, row + i);
      if (tensor.strides[3] == 1)
        widen(from, scratch + i * width(), width());
      else
        for (int64_t j = 0; j < width(); ++j)
          widen(from + static_cast<size_t>(j * tensor.strides[3]) * sizeOf(tensor.type), scratch + i * width() + j, 1);
    }
    return {scratch, width()};
  }
  void write(int64_t batch, int64_t head, int64_t row, int64_t rows, const float *from, int64_t ld) const {
    auto narrow = ops.encode[static_cast<size_t>(tensor.type)];
    for (int64_t i = 0; i < rows; ++i) {
      std::byte *to = base(batch, head, row + i);
      if (tensor.strides[3] == 1)
        narrow(from + i * ld, to, width());
      else
        for (int64_t j = 0; j < width(); ++j)
          narrow(from + i * ld + j, to + static_cast<size_t>(j * tensor.strides[3]) * sizeOf(tensor.type), 1);
    }
  }
};

// Sizes of one attention, and which entries are left out.
struct Shape {
  int64_t batches, queries, keys, heads, groups, width, valueWidth, blockRows;
  bool causal;

  explicit Shape(const AttentionArgs &args)
      : batches(args.q.shape[0]), queries(args.q.shape[1]), keys(args.k.shape[1]), heads(args.q.shape[2]),
        groups(args.k.shape[2]), width(args.q.shape[3]), valueWidth(args.v.shape[3]),
        blockRows(std::min<int64_t>(args.q.shape[1], 64)), causal(args.causal) {
    if (args.q.rank != 4 || args.k.rank != 4 || args.v.rank != 4 || groups <= 0 || heads % groups != 0 ||
        args.v.shape[1] != keys || args.v.shape[2] != groups || args.k.shape[3] != width)
      failInternal("attention of shapes that do not fit");
  }
  // Keys that query `t` may look at.
  int64_t visible(int64_t t) const { return causal ? std::clamp<int64_t>(t + keys - queries + 1, 0, keys) : keys; }

  // body(head, first row, rows, keys that any of them sees) for each block of rows of the heads of a group.
  template <class Body> void overBlocks(int64_t group, Body &&body) const {
    const int64_t perGroup = heads / groups;
    for (int64_t head = group * perGroup; head < (group + 1) * perGroup; ++head)
      for (int64_t t0 = 0; t0 < queries; t0 += blockRows) {
        const int64_t rows = std::min(blockRows, queries - t0);
        body(head, t0, rows, visible(t0 + rows - 1));
      }
  }

  // Floats of a group's keys and values, and of a block's queries, scores and outputs.
  int64_t sizeK() const { return round16(keys * width); }
  int64_t sizeV() const { return round16(keys * valueWidth); }
  int64_t sizeQ() const { return round16(blockRows * width); }
  int64_t sizeS() const { return round16(blockRows * keys); }
  int64_t sizeO() const { return round16(blockRows * valueWidth); }
  static int64_t round16(int64_t x) { return (x + 15) / 16 * 16; }
};

struct Bias {
  const VectorOps &ops;
  const Tensor *tensor;
  // Biases of one query row, widened into `scratch` where they are not FP32 in sequence; null without bias.
  const float *row(int64_t batch, int64_t head, int64_t t, int64_t count, float *scratch) const {
    if (!tensor)
      return nullptr;
    const size_t size = sizeOf(tensor->type);
    const int64_t offset = (tensor->shape[0] == 1 ? 0 : batch * tensor->strides[0]) +
                           (tensor->shape[1] == 1 ? 0 : head * tensor->strides[1]) +
                           (tensor->shape[2] == 1 ? 0 : t * tensor->strides[2]);
    const std::byte *from = tensor->data + static_cast<size_t>(offset) * size;
    const int64_t stride = tensor->shape[3] == 1 ? 0 : tensor->strides[3];
    if (stride == 1 && tensor->type == Type::F32)
      return reinterpret_cast<const float *>(from);
    auto widen = ops.decode[static_cast<size_t>(tensor->type)];
    if (stride == 1)
      widen(from, scratch, count);
    else
      for (int64_t j = 0; j < count; ++j)
        widen(from + static_cast<size_t>(j * stride) * size, scratch + j, 1);
    return scratch;
  }
};

float &at(const Tensor &lse, int64_t batch, int64_t head, int64_t t) {
  return reinterpret_cast<float *>(lse.data)[batch * lse.strides[0] + head * lse.strides[1] + t * lse.strides[2]];
}

// What the forward pass reads and writes, and the backward pass reads.
struct Operands {
  Shape s;
  Heads q, k, v, o;
  Bias bias;
  float factor;

  Operands(const VectorOps &ops, const AttentionArgs &args)
      : s(args), q{ops, args.q}, k{ops, args.k}, v{ops, args.v}, o{ops, args.o},
        bias{ops, args.hasBias ? &args.bias : nullptr}, factor(static_cast<float>(args.scale)) {}
};

// Tiles one behind the other in a thread's memory.
struct Tiles {
  float *next;
  float *take(int64_t floats) { return std::exchange(next, next + floats); }
};

} // namespace

void CpuDevice::attention(const AttentionArgs &args) {
  const Operands operands(ops_, args);
  const auto &[s, q, k, v, o, bias, factor] = operands;
  pool_.run(s.batches * s.groups, [&](int64_t task, unsigned thread) {
    const int64_t batch = task / s.groups, group = task % s.groups;
    Tiles tiles{scratch_[thread].get(static_cast<size_t>(s.sizeK() + s.sizeV() + s.sizeQ() + s.sizeS() + s.sizeO() + s.keys))};
    const Rows kRows = k.read(batch, group, 0, s.keys, tiles.take(s.sizeK()));
    const Rows vRows = v.read(batch, group, 0, s.keys, tiles.take(s.sizeV()));
    float *qMemory = tiles.take(s.sizeQ()), *scores = tiles.take(s.sizeS()), *oMemory = tiles.take(s.sizeO()),
          *biasMemory = tiles.take(s.keys);
    s.overBlocks(group, [&](int64_t head, int64_t t0, int64_t rows, int64_t keys) {
      if (keys == 0) {
        std::memset(oMemory, 0, static_cast<size_t>(rows * s.valueWidth) * sizeof(float));
        o.write(batch, head, t0, rows, oMemory, s.valueWidth);
        for (int64_t i = 0; i < rows; ++i)
          at(args.lse, batch, head, t0 + i) = -INFINITY;
        return;
      }
      const Rows qRows = q.read(batch, head, t0, rows, qMemory);
      gemm(false, true, rows, keys, s.width, qRows.data, qRows.ld, kRows.data, kRows.ld, 0.0f, scores, keys);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t visible = s.visible(t0 + i);
        float *row = scores + i * keys;
        at(args.lse, batch, head, t0 + i) = ops_.softmax(row, bias.row(batch, head, t0 + i, visible, biasMemory), factor, visible);
        std::fill(row + visible, row + keys, 0.0f);
      }
      const bool direct = o.inPlace();
      float *out = direct ? reinterpret_cast<float *>(o.base(batch, head, t0)) : oMemory;
      gemm(false, false, rows, s.valueWidth, keys, scores, keys, vRows.data, vRows.ld, 0.0f, out,
          direct ? args.o.strides[1] : s.valueWidth);
      if (!direct)
        o.write(batch, head, t0, rows, out, s.valueWidth);
    });
  });
}

void CpuDevice::attentionGrad(const AttentionArgs &args) {
  const Operands operands(ops_, args);
  const auto &[s, q, k, v, o, bias, factor] = operands;
  const Heads dO{ops_, args.dO}, dQ{ops_, args.dQ}, dK{ops_, args.dK}, dV{ops_, args.dV};
  pool_.run(s.batches * s.groups, [&](int64_t task, unsigned thread) {
    const int64_t batch = task / s.groups, group = task % s.groups;
    Tiles tiles{scratch_[thread].get(
        static_cast<size_t>(2 * (s.sizeK() + s.sizeV() + s.sizeQ() + s.sizeS() + s.sizeO()) + s.keys))};
    const Rows kRows = k.read(batch, group, 0, s.keys, tiles.take(s.sizeK()));
    const Rows vRows = v.read(batch, group, 0, s.keys, tiles.take(s.sizeV()));
    float *dKSum = tiles.take(s.sizeK()), *dVSum = tiles.take(s.sizeV()), *qMemory = tiles.take(s.sizeQ()),
          *dQMemory = tiles.take(s.sizeQ()), *p = tiles.take(s.sizeS()), *dP = tiles.take(s.sizeS()),
          *oMemory = tiles.take(s.sizeO()), *dOMemory = tiles.take(s.sizeO()), *biasMemory = tiles.take(s.keys);
    std::memset(dKSum, 0, static_cast<size_t>(s.keys * s.width) * sizeof(float));
    std::memset(dVSum, 0, static_cast<size_t>(s.keys * s.valueWidth) * sizeof(float));
    s.overBlocks(group, [&](int64_t head, int64_t t0, int64_t rows, int64_t keys) {
      if (keys == 0) {
        std::memset(dQMemory, 0, static_cast<size_t>(rows * s.width) * sizeof(float));
        dQ.write(batch, head, t0, rows, dQMemory, s.width);
        return;
      }
      const Rows qRows = q.read(batch, head, t0, rows, qMemory), oRows = o.read(batch, head, t0, rows, oMemory),
                 dORows = dO.read(batch, head, t0, rows, dOMemory);
      gemm(false, true, rows, keys, s.width, qRows.data, qRows.ld, kRows.data, kRows.ld, 0.0f, p, keys);
      gemm(false, true, rows, keys, s.valueWidth, dORows.data, dORows.ld, vRows.data, vRows.ld, 0.0f, dP, keys);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t visible = s.visible(t0 + i);
        float *pRow = p + i * keys, *dPRow = dP + i * keys;
        const float delta = ops_.dot(dORows.data + i * dORows.ld, oRows.data + i * oRows.ld, s.valueWidth);
        ops_.softmaxGrad(pRow, dPRow, bias.row(batch, head, t0 + i, visible, biasMemory), factor,
            at(args.lse, batch, head, t0 + i), delta, visible);
        std::fill(pRow + visible, pRow + keys, 0.0f);
        std::fill(dPRow + visible, dPRow + keys, 0.0f);
      }
      // dP now holds the gradient of the scores, before `factor`.
      gemm(true, false, keys, s.valueWidth, rows, p, keys, dORows.data, dORows.ld, 1.0f, dVSum, s.valueWidth);
      gemm(true, false, keys, s.width, rows, dP, keys, qRows.data, qRows.ld, 1.0f, dKSum, s.width);
      gemm(false, false, rows, s.width, keys, dP, keys, kRows.data, kRows.ld, 0.0f, dQMemory, s.width);
      ops_.scale(dQMemory, factor, rows * s.width);
      dQ.write(batch, head, t0, rows, dQMemory, s.width);
    });
    ops_.scale(dKSum, factor, s.keys * s.width);
    dK.write(batch, group, 0, s.keys, dKSum, s.width);
    dV.write(batch, group, 0, s.keys, dVSum, s.valueWidth);
  });
}

} // namespace msamp::runtime::cpu
