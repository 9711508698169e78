// Matrix products.
#include "frontend/translate/Translator.h"

namespace msamp::frontend {
namespace {

// numpy's matmul in terms of rank-2 and equally batched products.
Ref product(Emitter &e, Ref a, Ref b) {
  if (!a->rank() || !b->rank())
    throw Invalid("a matrix product of a scalar");
  bool vectorA = a->rank() == 1, vectorB = b->rank() == 1;
  if (vectorA)
    a = e.reshape(a, {1, a->dims[0]});
  if (vectorB)
    b = e.reshape(b, {b->dims[0], 1});
  int64_t m = a->dims[a->rank() - 2], k = a->dims.back(), n = b->dims.back();
  Dims batchA(a->dims.begin(), a->dims.end() - 2), batchB(b->dims.begin(), b->dims.end() - 2);
  Dims batch = Emitter::broadcastDims(batchA, batchB);
  Ref r;
  if (countElements(batchB) == 1 && batchB.size() <= batch.size()) {
    // One matrix for all rows.
    if (b->rank() > 2)
      b = e.reshape(b, {b->dims[b->rank() - 2], n});
    r = e.matmul(e.reshape(a, {countElements(batchA) * m, k}), b);
  } else {
    Dims dimsA = batch, dimsB = batch;
    dimsA.insert(dimsA.end(), {m, k});
    dimsB.insert(dimsB.end(), {b->dims[b->rank() - 2], n});
    a = e.broadcast(a, dimsA);
    b = e.broadcast(b, dimsB);
    r = e.matmul(a, b);
  }
  Dims dims = batch;
  if (!vectorA)
    dims.push_back(m);
  if (!vectorB)
    dims.push_back(n);
  return e.reshape(r, dims);
}

void matMul(NodeContext &c) {
  c.out(product(c.e, c.in(0), c.in(1)));
}

void gemm(NodeContext &c) {
  Emitter &e = c.e;
  Ref a = c.in(0), b = c.in(1);
  if (a->rank() != 2 || b->rank() != 2)
    throw Invalid("operands of shapes " + printDims(a->dims) + " and " + printDims(b->dims));
  Ref r = e.matmul(a, b, c.getInt("transA", 0), c.getInt("transB", 0));
  double alpha = c.getFloat("alpha", 1), beta = c.getFloat("beta", 1);
  if (alpha != 1)
    r = e.binary(Binary::Mul, r, alpha);
  if (c.has(2) && beta != 0) {
    Ref bias = beta == 1 ? c.in(2) : e.binary(Binary::Mul, c.in(2), beta);
    r = e.add(r, e.broadcast(bias, r->dims));
  }
  c.out(r);
}

} // namespace

void addMatMul(TranslatorTable &t) {
  t["MatMul"] = matMul;
  t["Gemm"] = gemm;
}

} // namespace msamp::frontend
