// Normalisations.
#include "frontend/translate/Translator.h"

#include <cmath>
#include <limits>

namespace msamp::frontend {
namespace {

mlir::Value valueOrNull(Emitter &e, const Ref &x) {
  return x ? e.value(x) : mlir::Value();
}

// Layer norm of the last dimension; scale and shift may be null.
LayerNormOp layerNorm(Emitter &e, const Ref &x, const Ref &scale, const Ref &shift, double eps) {
  Dims rows(x->dims.begin(), x->dims.end() - 1);
  auto statistics = e.type(onnx::TensorProto::FLOAT, rows);
  // One after the other: each may create an op.
  mlir::Value xValue = e.value(x), scaleValue = valueOrNull(e, scale), shiftValue = valueOrNull(e, shift);
  return LayerNormOp::create(e.builder, e.loc(), e.type(x), statistics, statistics, xValue, scaleValue, shiftValue,
                             e.builder.getF64FloatAttr(eps));
}

// A negative one makes roots of negative numbers.
double epsilonOf(NodeContext &c) {
  const double epsilon = c.getFloat("epsilon", 1e-5);
  if (!(epsilon >= 0) || std::isinf(epsilon))
    throw Invalid("epsilon = " + std::to_string(epsilon) + ", expected a number of at least 0");
  return epsilon;
}

// The dimensions from the axis on as one, and the vectors that fit it: those of exactly these dimensions.
struct Rows {
  Rows(NodeContext &c) : c(c), x(c.in(0)), axis(c.axis(c.getInt("axis", -1), x->rank())) {
    inner.assign(x->dims.begin() + axis, x->dims.end());
    Dims dims(x->dims.begin(), x->dims.begin() + axis);
    dims.push_back(countElements(inner));
    flat = c.e.reshape(x, dims);
  }
  bool fits(const Ref &v) const { return !v || v->dims == inner; }
  Ref vector(const Ref &v) const { return v ? c.e.reshape(v, {countElements(inner)}) : v; }
  Dims statisticDims() const {
    Dims dims = x->dims;
    for (int64_t d = axis; d < x->rank(); ++d)
      dims[d] = 1;
    return dims;
  }
  NodeContext &c;
  Ref x, flat;
  int64_t axis;
  Dims inner;
};

void layerNormalization(NodeContext &c) {
  Emitter &e = c.e;
  Rows rows(c);
  Ref scale = c.in(1), shift = c.maybe(2);
  bool fused = rows.fits(scale) && rows.fits(shift);
  Ref scaleVector = fused ? rows.vector(scale) : Ref(), shiftVector = fused ? rows.vector(shift) : Ref();
  auto op = layerNorm(e, rows.flat, scaleVector, shiftVector, epsilonOf(c));
  Ref y = e.reshape(e.computed(op.getY(), rows.x->type), rows.x->dims);
  if (!fused) {
    y = e.mul(y, scale);
    if (shift)
      y = e.add(y, shift);
  }
  c.out(y);
  if (c.wants(1))
    c.out(e.reshape(e.computed(op.getMean(), onnx::TensorProto::FLOAT), rows.statisticDims()), 1);
  if (c.wants(2))
    c.out(e.reshape(e.computed(op.getRstd(), onnx::TensorProto::FLOAT), rows.statisticDims()), 2);
}

void rmsNormalization(NodeContext &c) {
  Emitter &e = c.e;
  Rows rows(c);
  Ref scale = c.in(1);
  bool fused = rows.fits(scale);
  Dims leading(rows.flat->dims.begin(), rows.flat->dims.end() - 1);
  Ref scaleVector = fused ? rows.vector(scale) : Ref();
  mlir::Value xValue = e.value(rows.flat), scaleValue = valueOrNull(e, scaleVector);
  auto op = RmsNormOp::create(e.builder, e.loc(), e.type(rows.flat), e.type(onnx::TensorProto::FLOAT, leading), xValue,
                              scaleValue, e.builder.getF64FloatAttr(epsilonOf(c)));
  Ref y = e.reshape(e.computed(op.getY(), rows.x->type), rows.x->dims);
  c.out(fused ? y : e.mul(y, scale));
}

// A value for each channel (dimension 1), ready to broadcast.
Ref channels(Emitter &e, const Ref &v, const Ref &x) {
  Dims dims(x->rank(), 1);
  if (v->dims != Dims{x->dims.at(1)})
    throw Invalid("a vector of shape " + printDims(v->dims) + " for " + std::to_string(x->dims.at(1)) + " channels");
  dims[1] = v->dims[0];
  return e.reshape(v, dims);
}

// The running statistics move towards the batch's (ONNX, BatchNormalization: running = running * momentum + batch *
// (1 - momentum)); outputs 1 and 2 are what they become. Of a channel that overflowed both stay where they are.
void runningStatistics(NodeContext &c, const Ref &mean, const Ref &variance) {
  Emitter &e = c.e;
  const double momentum = c.getFloat("momentum", 0.9f), infinity = std::numeric_limits<double>::infinity();
  const Ref batch[] = {mean, variance};
  // Of values of which one is not finite the variance is not.
  Ref finite = e.compare(Compare::Less, e.reshape(variance, {variance->dims.at(1)}), e.splat(variance->type, {}, infinity));
  for (size_t i = 0; i < 2; ++i) {
    const Ref &running = c.in(3 + i);
    if (!e.isTracked(running) && !e.isKept(running))
      e.warn(std::string("normalised by the batch's own statistics, while the running ") + (i ? "variance" : "mean") +
             " stays as the file has it: it is no FP32 initializer of this node alone");
    if (e.isTracked(running) && momentum == 1)
      e.warn("a momentum of 1, with which running statistics never move (PyTorch's exporter writes it for momentum=None): "
             "give the layer one before it is exported");
    if (e.isTracked(running) && running->dims != Dims{variance->dims.at(1)})
      throw Invalid("running statistics of shape " + printDims(running->dims) + " for " +
                    std::to_string(variance->dims.at(1)) + " channels");
    if (!e.isTracked(running) && !c.wants(1 + i))
      continue;
    Ref next = e.add(e.binary(Binary::Mul, running, momentum),
                     e.binary(Binary::Mul, e.reshape(batch[i], running->dims), 1 - momentum));
    next = e.select(finite, next, running);
    if (e.isTracked(running))
      e.track(running, next);
    if (c.wants(1 + i))
      c.out(next, 1 + i);
  }
}

void batchNormalization(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0), mean, variance;
  if (x->rank() < 2)
    throw Invalid("rank " + std::to_string(x->rank()) + ", expected at least 2");
  if (c.getInt("training_mode", 0)) {
    Dims axes;
    for (int64_t d = 0; d < x->rank(); ++d)
      if (d != 1)
        axes.push_back(d);
    mean = channels(e, e.reduceMean(x, axes), x);
    Ref centred = e.sub(x, mean);
    variance = channels(e, e.reduceMean(e.mul(centred, centred), axes), x);
    runningStatistics(c, mean, variance);
  } else {
    mean = channels(e, c.in(3), x);
    variance = channels(e, c.in(4), x);
  }
  Ref deviation = e.unary(Unary::Sqrt, e.binary(Binary::Add, variance, epsilonOf(c)));
  Ref factor = e.div(channels(e, c.in(1), x), deviation);
  Ref normalised = e.mul(e.sub(x, mean), factor);
  c.out(e.add(normalised, channels(e, c.in(2), x)));
}

// Each of `groups` runs of channels to mean 0 and variance 1.
Ref groupsNormalised(Emitter &e, const Ref &x, int64_t groups, double eps) {
  if (x->rank() < 3 || groups < 1 || x->dims[1] % groups || !countElements(x->dims))
    throw Invalid(std::to_string(groups) + " groups of the channels of shape " + printDims(x->dims));
  Ref flat = e.reshape(x, {x->dims[0], groups, countElements(x->dims) / (x->dims[0] * groups)});
  return e.reshape(e.computed(layerNorm(e, flat, {}, {}, eps).getY(), x->type), x->dims);
}

void instanceNormalization(NodeContext &c) {
  Ref x = c.in(0), y = groupsNormalised(c.e, x, x->rank() > 1 ? x->dims[1] : 0, epsilonOf(c));
  Ref scaled = c.e.mul(y, channels(c.e, c.in(1), x));
  c.out(c.e.add(scaled, channels(c.e, c.in(2), x)));
}

void groupNormalization(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0), scale = c.in(1), shift = c.in(2);
  int64_t groups = c.getInt("num_groups", 1);
  Ref y = groupsNormalised(e, x, groups, epsilonOf(c));
  // Opset 18 had a value for each group.
  auto perChannel = [&](const Ref &v) {
    if (v->dims == Dims{groups} && groups != x->dims[1])
      return e.reshape(e.broadcast(e.reshape(v, {groups, 1}), {groups, x->dims[1] / groups}), {x->dims[1]});
    return v;
  };
  Ref scaled = e.mul(y, channels(e, perChannel(scale), x));
  c.out(e.add(scaled, channels(e, perChannel(shift), x)));
}

} // namespace

void addNorms(TranslatorTable &t) {
  t["LayerNormalization"] = layerNormalization;
  t["RMSNormalization"] = rmsNormalization;
  t["BatchNormalization"] = batchNormalization;
  t["InstanceNormalization"] = instanceNormalization;
  t["GroupNormalization"] = groupNormalization;
}

} // namespace msamp::frontend
