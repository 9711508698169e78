// Reductions and softmax.
#include "frontend/translate/Translator.h"

namespace msamp::frontend {
namespace {

// Axes of a reduction (an input since opset 18, an attribute before), and its result brought to the wanted rank.
struct Reduced {
  explicit Reduced(NodeContext &c) : c(c), x(c.in(0)) {
    axes = c.axes(c.intsFrom(1, "axes"), x->rank());
    if (axes.empty() && !c.getInt("noop_with_empty_axes", 0))
      for (int64_t d = 0; d < x->rank(); ++d)
        axes.push_back(d);
  }
  void finish(const Ref &r) { c.out(c.getInt("keepdims", 1) ? c.e.reshape(r, withOnes(x->dims, axes)) : r); }
  NodeContext &c;
  Ref x;
  Dims axes;
};

template <Reduction K>
void reduce(NodeContext &c) {
  Reduced r(c);
  r.finish(c.e.reduce(K, r.x, r.axes));
}

void reduceMean(NodeContext &c) {
  Reduced r(c);
  r.finish(c.e.reduceMean(r.x, r.axes));
}

void reduceSumSquare(NodeContext &c) {
  Reduced r(c);
  r.finish(c.e.reduce(Reduction::Sum, c.e.mul(r.x, r.x), r.axes));
}

void reduceL1(NodeContext &c) {
  Reduced r(c);
  r.finish(c.e.reduce(Reduction::Sum, c.e.unary(Unary::Abs, r.x), r.axes));
}

void reduceL2(NodeContext &c) {
  Reduced r(c);
  r.finish(c.e.unary(Unary::Sqrt, c.e.reduce(Reduction::Sum, c.e.mul(r.x, r.x), r.axes)));
}

void reduceLogSum(NodeContext &c) {
  Reduced r(c);
  r.finish(c.e.unary(Unary::Log, c.e.reduce(Reduction::Sum, r.x, r.axes)));
}

// log of sum(exp(x)) along the axes, the largest taken out first.
Ref logSumExp(Emitter &e, const Ref &x, const Dims &axes) {
  Ref most = e.reduce(Reduction::Max, x, axes);
  Ref sums = e.reduce(Reduction::Sum, e.unary(Unary::Exp, e.sub(x, e.reshape(most, withOnes(x->dims, axes)))), axes);
  return e.add(e.unary(Unary::Log, sums), most);
}

void reduceLogSumExp(NodeContext &c) {
  Reduced r(c);
  r.finish(logSumExp(c.e, r.x, r.axes));
}

void reduceProd(NodeContext &c) {
  Reduced r(c);
  if (!c.e.known(r.x))
    throw Unsupported("a product of values that the step computes");
  // One factor after the other along each axis.
  Ref p = r.x;
  for (size_t i = r.axes.size(); i-- > 0;) {
    int64_t axis = r.axes[i], n = p->dims[axis];
    Dims starts(p->rank(), 0), steps(p->rank(), 1), sizes = p->dims;
    sizes[axis] = 1;
    Ref product = c.e.splat(p->type, sizes, 1);
    for (int64_t k = 0; k < n; ++k) {
      starts[axis] = k;
      product = c.e.mul(product, c.e.slice(p, starts, steps, sizes));
    }
    sizes.erase(sizes.begin() + axis);
    p = c.e.reshape(product, sizes);
  }
  r.finish(p);
}

// `f` on the rows along the node's axis, brought to the last dimension. Before opset 13 softmax was over all
// dimensions from the axis on.
template <class F>
void overRows(NodeContext &c, F f) {
  Emitter &e = c.e;
  Ref x = c.in(0);
  int64_t rank = x->rank(), axis = c.axis(c.getInt("axis", c.opset < 13 ? 1 : -1), rank);
  if (c.opset < 13) {
    int64_t outer = countElements(Dims(x->dims.begin(), x->dims.begin() + axis));
    int64_t inner = countElements(Dims(x->dims.begin() + axis, x->dims.end()));
    return c.out(e.reshape(f(e.reshape(x, {outer, inner})), x->dims));
  }
  Dims perm;
  for (int64_t d = 0; d < rank; ++d)
    perm.push_back(d);
  std::swap(perm[axis], perm[rank - 1]);
  c.out(e.transpose(f(e.transpose(x, perm)), perm));
}

void softmax(NodeContext &c) {
  overRows(c, [&](const Ref &x) {
    return c.e.computed(SoftmaxOp::create(c.e.builder, c.e.loc(), c.e.type(x), c.e.value(x)), x->type);
  });
}

void logSoftmax(NodeContext &c) {
  overRows(c, [&](const Ref &x) {
    Dims last{x->rank() - 1};
    return c.e.sub(x, c.e.reshape(logSumExp(c.e, x, last), withOnes(x->dims, last)));
  });
}

} // namespace

void addReductions(TranslatorTable &t) {
  t["ReduceSum"] = reduce<Reduction::Sum>;
  t["ReduceMax"] = reduce<Reduction::Max>;
  t["ReduceMin"] = reduce<Reduction::Min>;
  t["ReduceMean"] = reduceMean;
  t["ReduceSumSquare"] = reduceSumSquare;
  t["ReduceL1"] = reduceL1;
  t["ReduceL2"] = reduceL2;
  t["ReduceLogSum"] = reduceLogSum;
  t["ReduceLogSumExp"] = reduceLogSumExp;
  t["ReduceProd"] = reduceProd;
  t["Softmax"] = softmax;
  t["LogSoftmax"] = logSoftmax;
}

} // namespace msamp::frontend
