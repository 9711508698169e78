// The operations that ONNX ops are translated into. Each is evaluated on the host when all operands are known, and is
// emitted as Msamp, arith or math ops otherwise: constant folding comes with the translation.
#ifndef MSAMP_FRONTEND_EMITTER_H
#define MSAMP_FRONTEND_EMITTER_H

#include "frontend/HostTensor.h"
#include "frontend/WeightSource.h"

#include "ir/Msamp/Msamp.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

namespace msamp::frontend {

// A value of the graph. Exactly one of these is set when it is made: `host` (known), `value` (computed by the step),
// `initializer` (read when first needed: a constant, or a parameter if the emitter says so), `elements`.
struct Tensor {
  int type = 0; // onnx::TensorProto::DataType
  Dims dims;
  Host host;
  mlir::Value value;
  std::string initializer;
  std::vector<std::shared_ptr<Tensor>> elements; // of a sequence of tensors, which is none itself
  bool fromBool = false; // cast from bool: values are 0 and 1

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};
using Ref = std::shared_ptr<Tensor>;

// An op that the frontend cannot translate; what() says which feature of it.
class Unsupported : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class Emitter {
public:
  Emitter(mlir::OpBuilder builder, const WeightSource &weights) : builder(builder), weights(weights) {}

  void setLocation(mlir::Location l) { location = l; }
  mlir::OpBuilder builder;
  mlir::Location loc() const { return *location; }

  // Notes what the step will not do that its model does; said once for all nodes that it is true of.
  void warn(const std::string &message) { warnings[message].push_back(loc()); }
  const std::map<std::string, std::vector<mlir::Location>> &warned() const { return warnings; }

  // Sources.
  Ref constant(Host host);
  Ref splat(int type, const Dims &dims, double value);
  Ref ints(const std::vector<int64_t> &values); // rank 1, INT64
  Ref initializer(const std::string &name, int type, const Dims &dims);
  Ref computed(mlir::Value value, int type);
  // Marks an initializer as a parameter: never folded, read by msamp.get.
  void setParameter(const std::string &name) { parameters[name]; }
  bool isParameter(const Ref &x) const { return !x->initializer.empty() && parameters.count(x->initializer); }
  // Marks a parameter as a running statistic that the step moves on, or that is to stay.
  void setTracked(const std::string &name) { tracked.insert(name); }
  void setKept(const std::string &name) { kept.insert(name); }
  bool isTracked(const Ref &x) const { return tracked.count(x->initializer) > 0; }
  bool isKept(const Ref &x) const { return kept.count(x->initializer) > 0; }
  void track(const Ref &statistic, const Ref &next);

  // A known value computed once for all equal keys: what is derived from it is then shared too.
  Ref remember(const std::string &key, const std::function<Host()> &make);

  // Known values, or null.
  Host host(const Ref &x);
  bool known(const Ref &x) { return x->host || (!x->initializer.empty() && !isParameter(x)); }
  // The value in the module.
  mlir::Value value(const Ref &x);
  mlir::RankedTensorType type(int onnxType, const Dims &dims);
  mlir::RankedTensorType type(const Ref &x) { return type(x->type, x->dims); }

  // Structure.
  Ref reshape(const Ref &x, const Dims &dims);
  Ref transpose(const Ref &x, const Dims &perm);
  Ref broadcast(const Ref &x, const Dims &dims); // numpy rules
  Ref slice(const Ref &x, const Dims &starts, const Dims &steps, const Dims &sizes);
  Ref concat(std::vector<Ref> xs, int64_t axis);
  Ref gather(const Ref &x, const Ref &indices, int64_t axis);
  Ref pad(const Ref &x, const Dims &low, const Dims &dims, double value);

  // Pointwise, with numpy broadcasting.
  Ref unary(Unary kind, const Ref &x);
  Ref binary(Binary kind, const Ref &a, const Ref &b);
  Ref compare(Compare kind, const Ref &a, const Ref &b);
  Ref select(const Ref &condition, const Ref &a, const Ref &b);
  Ref cast(const Ref &x, int type);
  // Binary with a number.
  Ref binary(Binary kind, const Ref &a, double b) { return binary(kind, a, splat(a->type, {}, b)); }
  Ref binary(Binary kind, double a, const Ref &b) { return binary(kind, splat(b->type, {}, a), b); }
  Ref add(const Ref &a, const Ref &b) { return binary(Binary::Add, a, b); }
  Ref mul(const Ref &a, const Ref &b) { return binary(Binary::Mul, a, b); }
  Ref sub(const Ref &a, const Ref &b) { return binary(Binary::Sub, a, b); }
  Ref div(const Ref &a, const Ref &b) { return binary(Binary::Div, a, b); }

  // Axes ascending; they are dropped.
  Ref reduce(Reduction kind, const Ref &x, const Dims &axes);
  Ref reduceMean(const Ref &x, const Dims &axes);
  // Equal batch dimensions, ranks of at least 2.
  Ref matmul(const Ref &a, const Ref &b, bool transposeA = false, bool transposeB = false);

  static Dims broadcastDims(const Dims &a, const Dims &b);

  // Names the contents of a known value, for keys.
  std::string identity(const HostTensor &t);

private:
  // The value of `x` in the shape `dims`; a constant is never enlarged on the host.
  mlir::Value broadcastValue(const Ref &x, const Dims &dims);
  mlir::Value constantValue(const HostTensor &t);
  mlir::Value splatValue(const HostTensor &t, const Dims &dims);
  void sameTypes(const char *what, const Ref &a, const Ref &b);

  const WeightSource &weights;
  std::optional<mlir::Location> location;
  std::map<std::string, Ref> initializers;
  std::map<std::string, mlir::Value> parameters; // value: its msamp.get, once read
  std::set<std::string> tracked, kept;
  std::unordered_map<std::string, Host> folded;
  std::unordered_map<const char *, std::pair<uint64_t, Host>> identities;
  uint64_t nextIdentity = 0;
  std::unordered_map<std::string, mlir::Value> constants;
  std::map<std::string, std::vector<mlir::Location>> warnings;
};

} // namespace msamp::frontend

#endif
