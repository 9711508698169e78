#include "tests/unit/runtime/TestPlan.h"

#include <initializer_list>
#include <tuple>

#include "runtime/core/Types.h"

namespace msamp::test {

namespace {

using namespace msamp::runtime;

struct Classes {
  plan::StateClass matrix, vector;
};

void set(plan::StateClass &state, const char *name, plan::Type weight, plan::Type master, plan::Type grad, plan::Type m,
    plan::Type v, const char *kernel) {
  state.set_name(name);
  state.set_weight(weight);
  state.set_master(master);
  state.set_grad(grad);
  state.set_m(m);
  state.set_v(v);
  state.set_update_kernel(kernel);
}

class Builder {
public:
  explicit Builder(const TestPlanOptions &options) : o_(options) {}

  plan::Plan build() {
    plan_.set_compiler("test");
    plan_.set_level(o_.level);
    plan_.set_optimizer(o_.level == "fp32-sgd" ? "sgd" : "adamw");
    plan_.set_accumulate(o_.accumulate);
    plan_.set_zero(o_.zero);
    plan_.set_history(4);
    plan_.set_tokens_per_micro_batch(testBatch);
    plan_.set_loss("mse");
    auto *input = plan_.add_inputs();
    input->set_name("x");
    input->set_type(plan::F32);
    shape(*input, {testBatch, testRows});
    classes();
    parameters();
    target_ = plan_.add_targets();
    target_->set_name("cpu");
    for (auto [symbol, chunks, finish] : {std::tuple{"test_loss", 1, false}, {"test_widen_f16", 48, false},
             {"test_widen_e4m3", 48, false}, {"test_amax", 48, true}, {"test_quantise", 48, false}, {"test_narrow_bf16", 48, false}}) {
      auto *kernel = target_->add_kernels();
      kernel->set_symbol(symbol);
      kernel->set_chunks(static_cast<unsigned>(chunks));
      kernel->set_finish(finish);
    }
    forwardAndBackward(*target_->add_programs(), true);
    updateProgram(*target_->add_programs());
    forwardAndBackward(*target_->add_programs(), false);
    return plan_;
  }

private:
  template <class Message> static void shape(Message &message, std::initializer_list<int64_t> sizes) {
    for (int64_t d : sizes)
      message.add_shape(d);
  }
  bool scaled() const { return o_.level == "o1" || o_.level == "o2" || o_.level == "o3"; }
  bool fp8Grads() const { return scaled() && o_.accumulate == 1; }

  void classes() {
    plan::StateClass state;
    if (o_.level == "fp32")
      set(state, "plain", plan::F32, plan::NONE, plan::F32, plan::F32, plan::F32, "test_update_fp32");
    else if (o_.level == "fp32-sgd")
      set(state, "plain", plan::F32, plan::NONE, plan::F32, plan::F32, plan::NONE, "test_update_sgd");
    else if (o_.level == "bf16")
      set(state, "plain", plan::BF16, plan::F32, plan::BF16, plan::F32, plan::F32, "test_update_bf16");
    else if (o_.level == "o1")
      set(state, "scaled", plan::F16, plan::NONE, plan::E4M3, plan::F32, plan::F32, "test_update_o1");
    else if (o_.level == "o2")
      set(state, "scaled", plan::F16, plan::NONE, plan::E4M3, plan::E4M3, plan::F16, "test_update_o2");
    else
      set(state, "scaled", plan::E4M3, plan::F16, plan::E4M3, plan::E4M3, plan::F16, "test_update_o3");
    if (o_.accumulate > 1 && state.grad() != plan::F32) {
      state.set_grad(plan::F32);
      state.set_update_kernel(state.update_kernel() + "_f32"); // gradients are FP32 where they are accumulated
    }
    state.set_weight_scaled(scaled());
    state.set_master_scaled(o_.level == "o3");
    state.set_elements(testRows * testColumns);
    state.set_values(testRows * testColumns);
    state.set_wire(o_.wire == plan::NONE ? state.grad() : o_.wire);
    *plan_.add_classes() = state;
    // The vector is FP32 at every level, in a class of its own.
    set(state, "vector", plan::F32, plan::NONE, plan::F32, plan::F32, plan::F32, "test_update_fp32");
    state.set_weight_scaled(false);
    state.set_master_scaled(false);
    state.set_elements(128);
    state.set_values(testColumns);
    state.set_wire(plan::F32);
    *plan_.add_classes() = state;
  }

  void parameters() {
    auto *w = plan_.add_parameters();
    w->set_name("w");
    shape(*w, {testRows, testColumns});
    w->set_trained(true);
    w->set_init(plan::Parameter::NORMAL);
    w->set_init_stddev(0.1);
    auto *twin = w->add_twins();
    twin->set_name("w.twin");
    twin->set_transposed(true);
    auto *b = plan_.add_parameters();
    b->set_name("b");
    shape(*b, {testColumns});
    b->set_role(plan::Parameter::BIAS);
    b->set_trained(true);
    b->set_state_class(1);
    b->set_init(plan::Parameter::ZEROS);
    // The matrix in two buckets would need two parameters; one of an odd number of blocks makes uneven shards.
    for (unsigned p : {0u, 1u}) {
      auto *bucket = plan_.add_buckets();
      bucket->set_name(p == 0 ? "matrix" : "vector");
      bucket->set_state_class(p);
      bucket->set_elements(plan_.classes(static_cast<int>(p)).elements());
      bucket->add_parameters(p);
    }
    if (fp8Grads()) {
      auto *site = plan_.add_sites();
      site->set_name("w.dw");
      site->set_kind(plan::Site::WEIGHT_GRAD);
      site->set_format(plan::E4M3);
      site->set_margin(o_.margin);
    }
  }

  static plan::Operand operand(plan::Operand::Kind kind, unsigned index, plan::Type type, std::initializer_list<int64_t> sizes) {
    plan::Operand out;
    out.set_kind(kind);
    out.set_index(index);
    out.set_type(type);
    shape(out, sizes);
    return out;
  }
  static plan::Operand buffer(plan::Program &program, const char *name, plan::Type type, std::initializer_list<int64_t> sizes) {
    uint64_t bytes = sizeOf(static_cast<Type>(type));
    for (int64_t d : sizes)
      bytes *= static_cast<uint64_t>(d);
    auto *b = program.add_buffers();
    b->set_name(name);
    b->set_offset(program.arena_bytes());
    b->set_bytes(bytes);
    b->set_role(plan::ACTIVATIONS);
    program.set_arena_bytes((program.arena_bytes() + bytes + 63) / 64 * 64);
    return operand(plan::Operand::BUFFER, static_cast<unsigned>(program.buffers_size() - 1), type, sizes);
  }
  static plan::Step *step(plan::Program &program, const char *name, std::initializer_list<plan::Operand> inputs,
      std::initializer_list<plan::Operand> outputs) {
    auto *s = program.add_steps();
    s->set_name(name);
    for (const auto &o : inputs)
      *s->add_inputs() = o;
    for (const auto &o : outputs)
      *s->add_outputs() = o;
    return s;
  }
  static void kernel(plan::Program &program, unsigned index, const char *name, std::initializer_list<plan::Operand> inputs,
      std::initializer_list<plan::Operand> outputs) {
    step(program, name, inputs, outputs)->mutable_launch()->set_kernel(index);
  }

  void forwardAndBackward(plan::Program &program, bool training) {
    program.set_name(training ? "micro_step" : "eval");
    auto *loss = program.add_outputs();
    loss->set_name("loss");
    loss->set_bytes(4);
    const auto lossOut = operand(plan::Operand::OUTPUT, 0, plan::F32, {});
    plan::Operand y;
    if (training) {
      y = buffer(program, "y", plan::F32, {testBatch, testColumns});
    } else {
      auto *out = program.add_outputs();
      out->set_name("y");
      shape(*out, {testBatch, testColumns});
      out->set_offset(64);
      out->set_bytes(testBatch * testColumns * 4);
      y = operand(plan::Operand::OUTPUT, 1, plan::F32, {testBatch, testColumns});
    }
    const auto x = operand(plan::Operand::INPUT, 0, plan::F32, {testBatch, testRows});
    auto w = operand(plan::Operand::WEIGHT, 0, plan_.classes(0).weight(), {testRows, testColumns});
    if (scaled()) {
      const auto wide = buffer(program, "w32", plan::F32, {testRows, testColumns});
      kernel(program, o_.level == "o3" ? 2 : 1, "widen", {w, operand(plan::Operand::WEIGHT_SCALE, 0, plan::F32, {})}, {wide});
      w = wide;
    }
    step(program, "y = x w", {x, w}, {y})->mutable_matmul();
    const auto b = operand(plan::Operand::WEIGHT, 1, plan::F32, {testColumns});
    const auto dy = buffer(program, "dy", plan::F32, {testBatch, testColumns});
    const bool direct = training && o_.accumulate == 1;
    const auto gradB = operand(plan::Operand::GRAD, 1, plan::F32, {testColumns});
    const auto db = direct ? gradB : buffer(program, "db", plan::F32, {testColumns});
    kernel(program, 0, "loss", {y, b}, {lossOut, dy, db});
    if (!training)
      return;
    const auto gradW = operand(plan::Operand::GRAD, 0, plan_.classes(0).grad(), {testRows, testColumns});
    const bool wide = plan_.classes(0).grad() == plan::F32 && direct;
    const auto dw = wide ? gradW : buffer(program, "dw", plan::F32, {testRows, testColumns});
    step(program, "dw = xT dy", {x, dy}, {dw})->mutable_matmul()->set_transpose_a(true);
    if (!direct) {
      step(program, "accumulate db", {db}, {gradB})->mutable_accumulate();
      step(program, "accumulate dw", {dw}, {gradW})->mutable_accumulate();
    } else if (fp8Grads()) {
      const auto amax = buffer(program, "amax", plan::F32, {});
      const auto workspace = buffer(program, "partial", plan::F32, {testRows});
      kernel(program, 3, "amax", {dw}, {amax});
      *program.mutable_steps(program.steps_size() - 1)->mutable_workspace() = workspace;
      auto *calibrate = step(program, "calibrate", {amax}, {});
      calibrate->set_when(plan::Step::FIRST);
      calibrate->mutable_calibrate()->add_sites(0);
      const auto scale = buffer(program, "scale", plan::F32, {});
      kernel(program, 4, "quantise", {dw, operand(plan::Operand::SITE_SCALE, 0, plan::F32, {})}, {gradW, scale});
      step(program, "store scale", {scale}, {})->mutable_store_grad_scale()->add_parameters(0);
      step(program, "record", {amax}, {})->mutable_record_amax()->add_sites(0);
    } else if (!wide) {
      kernel(program, 5, "narrow", {dw}, {gradW});
    }
    if (o_.accumulate == 1)
      exchanges(program);
  }

  void exchanges(plan::Program &program) {
    for (unsigned b : {1u, 0u}) {
      auto *exchange = step(program, "exchange", {}, {})->mutable_exchange();
      exchange->set_bucket(b);
      exchange->set_zero(o_.zero);
    }
  }

  void updateProgram(plan::Program &program) {
    program.set_name("update");
    if (o_.accumulate > 1)
      exchanges(program);
    step(program, "norm", {}, {})->mutable_grad_norm();
    for (unsigned c : {0u, 1u}) {
      auto *update = step(program, "update", {}, {})->mutable_update();
      update->set_state_class(c);
      update->set_optimizer(c == 0 ? plan_.optimizer() : "adamw");
    }
    for (unsigned c : {0u, 1u})
      step(program, "gather", {}, {})->mutable_gather_weights()->set_state_class(c);
    step(program, "sites", {}, {})->mutable_update_sites();
  }

  const TestPlanOptions &o_;
  plan::Plan plan_;
  plan::Target *target_ = nullptr; // of plan_
};

} // namespace

plan::Plan makeTestPlan(const TestPlanOptions &options) { return Builder(options).build(); }

void writeTestPlan(const std::filesystem::path &folder, const TestPlanOptions &options) {
  std::filesystem::create_directories(folder / "kernels");
  std::filesystem::copy_file(MSAMP_TEST_KERNELS, folder / "kernels" / "cpu.so", std::filesystem::copy_options::overwrite_existing);
  plan::Plan plan = makeTestPlan(options);
  runtime::addPart(plan, folder, "kernels/cpu.so");
  runtime::savePlan(folder, std::move(plan));
}

} // namespace msamp::test
