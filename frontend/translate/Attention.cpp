// Attention of opset 23 and later.
#include "frontend/ElementType.h"
#include "frontend/translate/Translator.h"

#include <cmath>
#include <limits>

namespace msamp::frontend {
namespace {

// To [batch, tokens, heads, width], from [batch, heads, tokens, width] or from [batch, tokens, heads * width].
Ref toHeads(NodeContext &c, const Ref &x, const char *attribute) {
  if (x->rank() == 4)
    return c.e.transpose(x, {0, 2, 1, 3});
  int64_t heads = c.getInt(attribute, 0);
  if (x->rank() != 3 || heads < 1 || x->dims[2] % heads)
    throw Invalid("an operand of shape " + printDims(x->dims) + " with " + attribute + " = " + std::to_string(heads));
  return c.e.reshape(x, {x->dims[0], x->dims[1], heads, x->dims[2] / heads});
}

// Whether a known mask lets row t see exactly the columns up to t + columns - rows.
bool isCausal(const HostTensor &mask, int64_t rows, int64_t columns) {
  Host small = host::compress(mask);
  if (small->size() != rows * columns || rows < 2)
    return false;
  auto v = doublesOf(*small);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t s = 0; s < columns; ++s) {
      bool seen = isBool(mask.type) ? v[t * columns + s] != 0 : v[t * columns + s] == 0;
      bool hidden =
          isBool(mask.type) ? v[t * columns + s] == 0 : v[t * columns + s] == -std::numeric_limits<double>::infinity();
      if (s <= t + columns - rows ? !seen : !hidden)
        return false;
    }
  return true;
}

void attention(NodeContext &c) {
  Emitter &e = c.e;
  if (c.has(4) || c.has(5) || c.wants(1) || c.wants(2))
    throw Unsupported("past and present keys and values");
  if (c.has(6))
    throw Unsupported("nonpad_kv_seqlen");
  if (c.wants(3))
    throw Unsupported("the output qk_matmul_output");
  if (c.getFloat("softcap", 0) != 0)
    throw Unsupported("softcap");
  bool flat = c.in(0)->rank() == 3;
  Ref q = toHeads(c, c.in(0), "q_num_heads"), k = toHeads(c, c.in(1), "kv_num_heads"),
      v = toHeads(c, c.in(2), "kv_num_heads");
  int64_t B = q->dims[0], T = q->dims[1], H = q->dims[2], D = q->dims[3], S = k->dims[1];
  bool causal = false;
  Ref bias, mask = c.maybe(3);
  double never = -std::numeric_limits<double>::infinity();
  auto toBias = [&](const Ref &m) {
    return isBool(m->type) ? e.select(m, e.splat(q->type, {}, 0), e.splat(q->type, {}, never)) : e.cast(m, q->type);
  };
  if (mask) {
    Host known = e.host(mask);
    Dims full{B, H, T, S}, dims = mask->dims;
    if (Emitter::broadcastDims(dims, full) != full)
      throw Invalid("a mask of shape " + printDims(dims) + " for scores of shape " + printDims(full));
    if (known && isCausal(*known, T, S)) {
      causal = true;
    } else if (known && allEqual(*known) && (isBool(mask->type) ? *known->data != 0 : doublesOf(*known)[0] == 0)) {
      // Nothing is masked.
    } else {
      while (dims.size() < 4)
        dims.insert(dims.begin(), 1);
      bias = e.reshape(toBias(mask), dims);
      bias = e.broadcast(bias, {dims[0], dims[1], T, S});
    }
  }
  if (c.getInt("is_causal", 0)) {
    // ONNX counts from the first key, msamp.attention from the last.
    if (T == S) {
      causal = true;
    } else {
      Host lower = makeHost(onnx::TensorProto::BOOL, {1, 1, T, S}, [&](char *p) {
        for (int64_t t = 0; t < T; ++t)
          for (int64_t s = 0; s < S; ++s)
            *p++ = s <= t;
      });
      Ref more = toBias(e.constant(lower));
      bias = bias ? e.add(bias, more) : more;
    }
  }
  auto *scale = c.attribute("scale");
  mlir::Value qValue = e.value(q), kValue = e.value(k), vValue = e.value(v),
              biasValue = bias ? e.value(bias) : mlir::Value();
  auto op = AttentionOp::create(e.builder, e.loc(), e.type(q->type, {B, T, H, v->dims[3]}),
                                e.type(onnx::TensorProto::FLOAT, {B, H, T}), qValue, kValue, vValue, biasValue,
                                e.builder.getF64FloatAttr(scale ? scale->f() : 1 / std::sqrt(double(D))),
                                causal ? e.builder.getUnitAttr() : mlir::UnitAttr());
  Ref o = e.computed(op.getO(), q->type);
  c.out(flat ? e.reshape(o, {B, T, H * v->dims[3]}) : e.transpose(o, {0, 2, 1, 3}));
}

} // namespace

void addAttention(TranslatorTable &t) {
  t["Attention"] = attention;
}

} // namespace msamp::frontend
