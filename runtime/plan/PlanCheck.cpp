#include "runtime/plan/PlanCheck.h"

#include <algorithm>
#include <set>
#include <vector>

#include "runtime/core/Error.h"
#include "runtime/core/Types.h"
#include "runtime/core/WindowAxis.h"
#include "runtime/plan/PlanIO.h"

namespace msamp::runtime {

namespace {

class Checker {
public:
  Checker(const plan::Plan &plan, const std::string &file) : plan_(plan), file_(file) {}

  void run() {
    for (const plan::Input &input : plan_.inputs())
      bytesOf(input.type(), input.shape(), fmt::format("input {}", input.name()));
    checkState();
    for (const plan::Site &site : plan_.sites()) {
      if (site.format() != plan::E4M3 && site.format() != plan::E5M2)
        bad("site {}: its format is not an FP8 type", site.name());
      if (site.margin() > 126)
        bad("site {}: a margin of {} powers of two is beyond all scales", site.name(), site.margin());
    }
    if (plan_.targets_size() == 0)
      bad("it is for no target");
    std::set<std::string> names;
    for (const plan::Target &target : plan_.targets()) {
      if (!names.insert(target.name()).second)
        bad("two targets are called {}", target.name());
      target_ = &target;
      checkTarget();
    }
  }

private:
  template <class... Args> [[noreturn]] void bad(fmt::format_string<Args...> format, Args &&...args) {
    const std::string what = fmt::format(format, std::forward<Args>(args)...);
    failData("{}: {}{}", file_, target_ ? fmt::format("target {}: ", target_->name()) : "", what);
  }

  void checkTarget() {
    for (const plan::Constant &constant : target_->constants())
      if (bytesOf(constant.type(), constant.shape(), fmt::format("constant {}", constant.name())) > constant.bytes() ||
          constant.offset() % 64 != 0)
        bad("constant {}: its shape needs more bytes than it has, or its offset is not a multiple of 64", constant.name());
    checkEntries();
    std::set<std::string> names;
    for (const plan::Program &program : target_->programs()) {
      if (!names.insert(program.name()).second)
        bad("two programs are called {}", program.name());
      checkProgram(program);
    }
  }

  template <class Shape> uint64_t bytesOf(plan::Type type, const Shape &shape, const std::string &what) {
    if (!plan::Type_IsValid(type))
      bad("{}: unknown type {}", what, static_cast<int>(type));
    uint64_t bytes = sizeOf(static_cast<Type>(type));
    if (shape.size() > 8)
      bad("{}: has {} dimensions, at most 8 are known", what, shape.size());
    for (int64_t d : shape)
      if (d < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes))
        bad("{}: impossible shape", what);
    return bytes;
  }

  // The limits are those of every NVIDIA GPU.
  void checkEntry(const plan::Entry &entry, const std::string &what, bool hasGrid) {
    constexpr uint32_t mostX = 0x7fffffff, mostY = 65535, mostThreads = 1024, mostShared = 228 << 10;
    if (entry.symbol().empty() || entry.block() == 0 || entry.block() > mostThreads || entry.shared_bytes() > mostShared ||
        (hasGrid && (entry.grid_x() == 0 || entry.grid_x() > mostX || entry.grid_y() == 0 || entry.grid_y() > mostY)))
      bad("{}: entry point \"{}\" cannot be launched with a grid of {} x {}, {} threads and {} bytes of shared memory", what,
          entry.symbol(), entry.grid_x(), entry.grid_y(), entry.block(), entry.shared_bytes());
  }
  void checkEntries() {
    const bool gpu = target_->name().starts_with("sm_");
    for (const plan::Kernel &kernel : target_->kernels()) {
      if (gpu != (kernel.entries_size() > 0))
        bad("kernel {}: has {} entry points, which this target does not take", kernel.symbol(), kernel.entries_size());
      for (const plan::Entry &entry : kernel.entries())
        checkEntry(entry, fmt::format("kernel {}", kernel.symbol()), true);
    }
    if (target_->updates_size() != (gpu ? plan_.classes_size() : 0))
      bad("has {} launches of updates for {} state classes", target_->updates_size(), plan_.classes_size());
    for (int c = 0; c < target_->updates_size(); ++c) {
      const plan::StateClass &state = plan_.classes(c);
      const plan::UpdateLaunch &update = target_->updates(c);
      if (state.update_kernel().empty())
        continue;
      checkEntry(update.entry(), fmt::format("state class {}", state.name()), false);
      if (update.blocks_per_cta() == 0)
        bad("state class {}: its update takes no blocks", state.name());
    }
  }

  void checkState() {
    for (const plan::StateClass &state : plan_.classes()) {
      for (plan::Type type : {state.weight(), state.master(), state.grad(), state.m(), state.v(), state.wire()})
        if (!plan::Type_IsValid(type))
          bad("state class {}: unknown type {}", state.name(), static_cast<int>(type));
      if (state.elements() % blockSize != 0 || state.elements() > (uint64_t{1} << 48))
        bad("state class {}: {} elements are not a multiple of {}", state.name(), state.elements(), blockSize);
    }
    std::vector<std::vector<std::pair<uint64_t, uint64_t>>> ranges(plan_.classes_size());
    for (const plan::Parameter &parameter : plan_.parameters()) {
      uint64_t elements = bytesOf(plan::U8, parameter.shape(), fmt::format("parameter {}", parameter.name()));
      if (parameter.state_class() >= static_cast<unsigned>(plan_.classes_size()))
        bad("parameter {}: there is no state class {}", parameter.name(), parameter.state_class());
      const plan::StateClass &state = plan_.classes(parameter.state_class());
      if (parameter.offset() % blockSize != 0 || parameter.offset() > state.elements() ||
          elements > state.elements() - parameter.offset())
        bad("parameter {}: does not lie within its state class {}", parameter.name(), state.name());
      if (elements > 0)
        ranges[parameter.state_class()].emplace_back(parameter.offset(), parameter.offset() + elements);
    }
    for (int c = 0; c < plan_.classes_size(); ++c) {
      std::sort(ranges[c].begin(), ranges[c].end());
      for (size_t i = 1; i < ranges[c].size(); ++i)
        if (ranges[c][i].first < ranges[c][i - 1].second)
          bad("state class {}: two parameters overlap at element {}", plan_.classes(c).name(), ranges[c][i].first);
    }
    std::vector<std::vector<std::pair<uint64_t, uint64_t>>> buckets(plan_.classes_size());
    for (const plan::Bucket &bucket : plan_.buckets()) {
      if (bucket.state_class() >= static_cast<unsigned>(plan_.classes_size()))
        bad("bucket {}: there is no state class {}", bucket.name(), bucket.state_class());
      const plan::StateClass &state = plan_.classes(bucket.state_class());
      if (bucket.offset() % blockSize != 0 || bucket.elements() % blockSize != 0 || bucket.offset() > state.elements() ||
          bucket.elements() > state.elements() - bucket.offset())
        bad("bucket {}: does not lie within its state class {} in blocks of {}", bucket.name(), state.name(), blockSize);
      for (unsigned index : bucket.parameters()) {
        if (index >= static_cast<unsigned>(plan_.parameters_size()))
          bad("bucket {}: there is no parameter {}", bucket.name(), index);
        const plan::Parameter &parameter = plan_.parameters(index);
        if (parameter.state_class() != bucket.state_class() || parameter.offset() < bucket.offset() ||
            parameter.offset() >= bucket.offset() + bucket.elements())
          bad("bucket {}: parameter {} does not lie in it", bucket.name(), parameter.name());
      }
      buckets[bucket.state_class()].emplace_back(bucket.offset(), bucket.offset() + bucket.elements());
    }
    // The update goes by buckets: what none holds would never be trained, what two hold trained twice.
    for (int c = 0; c < plan_.classes_size(); ++c) {
      const plan::StateClass &state = plan_.classes(c);
      if (state.update_kernel().empty())
        continue;
      std::sort(buckets[c].begin(), buckets[c].end());
      uint64_t position = 0;
      for (const auto &[begin, end] : buckets[c]) {
        if (begin != position)
          bad("state class {}: its buckets {} at element {}", state.name(), begin < position ? "overlap" : "leave a hole",
              position);
        position = end;
      }
      if (position != state.elements())
        bad("state class {}: its buckets end at element {} of {}", state.name(), position, state.elements());
    }
  }

  void checkProgram(const plan::Program &program) {
    for (const plan::Buffer &buffer : program.buffers())
      if (buffer.offset() % 64 != 0 || buffer.offset() > program.arena_bytes() ||
          buffer.bytes() > program.arena_bytes() - buffer.offset())
        bad("program {}: buffer {} does not lie within the arena of {} bytes", program.name(), buffer.name(),
            program.arena_bytes());
    for (const plan::Output &output : program.outputs())
      if (bytesOf(output.type(), output.shape(), fmt::format("program {}: output {}", program.name(), output.name())) >
          output.bytes())
        bad("program {}: output {}: its shape needs more than its {} bytes", program.name(), output.name(), output.bytes());
    for (int i = 0; i < program.steps_size(); ++i)
      checkStep(program, program.steps(i), fmt::format("program {}, step {} ({})", program.name(), i, program.steps(i).name()));
  }

  // Of weights, the micro-step writes running statistics alone.
  bool isWritten(const plan::Program &program, const plan::Operand &output) const {
    switch (output.kind()) {
    case plan::Operand::BUFFER: case plan::Operand::OUTPUT: case plan::Operand::GRAD: return true;
    case plan::Operand::WEIGHT:
      return program.name() == "micro_step" && isStatistic(plan_.parameters(static_cast<int>(output.index())));
    default: return false;
    }
  }

  void checkCount(const std::string &where, const plan::Step &step, int minInputs, int maxInputs, int outputs) {
    if (step.inputs_size() < minInputs || step.inputs_size() > maxInputs || step.outputs_size() != outputs)
      bad("{}: has {} inputs and {} outputs, which its kind does not take", where, step.inputs_size(), step.outputs_size());
  }
  template <class Indices> void checkIndices(const std::string &where, const plan::Step &step, const Indices &indices, int count) {
    if (indices.size() != step.inputs_size())
      bad("{}: has {} inputs for {} indices", where, step.inputs_size(), indices.size());
    for (unsigned index : indices)
      checkIndex(where, index, count);
  }
  void checkIndex(const std::string &where, unsigned index, int count) {
    if (index >= static_cast<unsigned>(count))
      bad("{}: index {} is beyond the {} that there are", where, index, count);
  }

  void checkStep(const plan::Program &program, const plan::Step &step, const std::string &where) {
    if (!plan::Step::When_IsValid(step.when()))
      bad("{}: unknown condition {}", where, static_cast<int>(step.when()));
    int operand = 0;
    for (const plan::Operand &input : step.inputs())
      checkOperand(program, input, fmt::format("{}, input {}", where, operand++));
    operand = 0;
    for (const plan::Operand &output : step.outputs()) {
      checkOperand(program, output, fmt::format("{}, output {}", where, operand));
      if (!isWritten(program, output))
        bad("{}, output {}: steps do not write {}", where, operand, plan::Operand::Kind_Name(output.kind()));
      ++operand;
    }
    if (step.has_workspace())
      checkOperand(program, step.workspace(), where + ", workspace");
    switch (step.kind_case()) {
    case plan::Step::kLaunch: checkIndex(where, step.launch().kernel(), target_->kernels_size()); break;
    case plan::Step::kMatmul: {
      const plan::MatMul &matmul = step.matmul();
      int inputs = (matmul.scaled() ? 4 : 2) + matmul.has_addend() + matmul.has_bias() + matmul.quantised();
      checkCount(where, step, inputs, inputs, matmul.quantised() ? 2 : 1);
      break;
    }
    case plan::Step::kAttention: {
      int inputs = step.attention().has_bias() ? 4 : 3;
      checkCount(where, step, inputs, inputs, 2);
      break;
    }
    case plan::Step::kAttentionGrad: {
      int inputs = step.attention_grad().has_bias() ? 7 : 6;
      checkCount(where, step, inputs, inputs, 3);
      break;
    }
    case plan::Step::kConv: checkConv(where, step, step.conv()); break;
    case plan::Step::kConvDgrad: checkConv(where, step, step.conv_dgrad()); break;
    case plan::Step::kConvWgrad: checkConv(where, step, step.conv_wgrad()); break;
    case plan::Step::kMaxPool:
      checkCount(where, step, 1, 1, 2);
      checkPool(where, step.max_pool(), step.inputs(0), step.outputs(0), &step.outputs(1));
      break;
    case plan::Step::kMaxPoolGrad:
      checkCount(where, step, 2, 2, 1);
      checkPool(where, step.max_pool_grad(), step.outputs(0), step.inputs(0), &step.inputs(1));
      break;
    case plan::Step::kAvgPool:
      checkCount(where, step, 1, 1, 1);
      checkPool(where, step.avg_pool(), step.inputs(0), step.outputs(0), nullptr);
      break;
    case plan::Step::kAvgPoolGrad:
      checkCount(where, step, 1, 1, 1);
      checkPool(where, step.avg_pool_grad(), step.outputs(0), step.inputs(0), nullptr);
      break;
    case plan::Step::kScatterAdd: checkCount(where, step, 2, 2, 1); break;
    case plan::Step::kGather: checkCount(where, step, 2, 2, 1); break;
    case plan::Step::kCopy: checkCount(where, step, 1, 1, 1); break;
    case plan::Step::kFill: checkCount(where, step, 0, 0, 1); break;
    case plan::Step::kAccumulate: checkCount(where, step, 1, 1, 1); break;
    case plan::Step::kCalibrate: checkIndices(where, step, step.calibrate().sites(), plan_.sites_size()); break;
    case plan::Step::kRecordAmax: checkIndices(where, step, step.record_amax().sites(), plan_.sites_size()); break;
    case plan::Step::kStoreGradScale:
      checkIndices(where, step, step.store_grad_scale().parameters(), plan_.parameters_size());
      break;
    case plan::Step::kExchange: checkIndex(where, step.exchange().bucket(), plan_.buckets_size()); break;
    case plan::Step::kUpdate: checkIndex(where, step.update().state_class(), plan_.classes_size()); break;
    case plan::Step::kGatherWeights: checkIndex(where, step.gather_weights().state_class(), plan_.classes_size()); break;
    case plan::Step::kGradNorm: case plan::Step::kUpdateSites: break;
    case plan::Step::KIND_NOT_SET:
      bad("{}: is of a kind that this program does not know; use the msamp-run of the msampc that wrote the plan ({})", where,
          plan_.compiler());
    }
  }

  // The windows of an image: as many as have room, or with `beyond` one more that begins before the image ends. With `touch`
  // none of them lies in padding alone.
  void checkWindows(const std::string &where, const plan::Window &window, const plan::Operand &image, const plan::Operand &y,
      bool beyond, bool touch) {
    constexpr int64_t most = int64_t{1} << 24;
    const int rank = window.size_size();
    if (rank < 1 || rank > 3 || window.strides_size() != rank || window.low_size() != rank || window.high_size() != rank ||
        window.dilations_size() != rank || image.shape_size() != rank + 2 || y.shape_size() != rank + 2 ||
        image.shape(0) != y.shape(0) || image.shape(0) < 1 || image.shape(rank + 1) < 1 || y.shape(rank + 1) < 1)
      bad("{}: its window does not fit its operands", where);
    auto within = [](int64_t value, int64_t least) { return value >= least && value <= most; };
    for (int d = 0; d < rank; ++d) {
      if (!within(window.size(d), 1) || !within(window.strides(d), 1) || !within(window.dilations(d), 1) ||
          !within(window.low(d), 0) || !within(window.high(d), 0) || !within(image.shape(d + 1), 1) || !within(y.shape(d + 1), 1))
        bad("{}: impossible window along dimension {}", where, d + 1);
      const WindowAxis axis{image.shape(d + 1), window.size(d), window.strides(d), window.low(d), window.high(d), window.dilations(d)};
      const int64_t windows = y.shape(d + 1);
      if (windows != axis.count() && !(beyond && windows == axis.countBeyond()))
        bad("{}: {} windows along dimension {} of an image of {}, where {} fit", where, windows, d + 1, axis.extent, axis.count());
      if (const int64_t lost = touch ? axis.firstInPadding(windows) : -1; lost >= 0)
        bad("{}: window {} along dimension {} lies in padding alone", where, lost, d + 1);
    }
    for (const plan::Operand *operand : {&image, &y})
      if (!isFloat(static_cast<Type>(operand->type())) || operand->strides_size() != 0)
        bad("{}: images are floats in row-major order", where);
  }

  // Image, filter and windows are the inputs and the output in the order of which of them is computed.
  void checkConv(const std::string &where, const plan::Step &step, const plan::Conv &conv) {
    checkCount(where, step, 2, 2, 1);
    const plan::Operand &first = step.inputs(0), &second = step.inputs(1), &result = step.outputs(0);
    const plan::Operand &image = step.has_conv_dgrad() ? result : first;
    const plan::Operand &filter = step.has_conv_wgrad() ? result : second;
    const plan::Operand &y = step.has_conv() ? result : step.has_conv_dgrad() ? first : second;
    checkWindows(where, conv.window(), image, y, /*beyond=*/false, /*touch=*/false);
    const int last = image.shape_size() - 1;
    const int64_t groups = conv.groups(), in = image.shape(last), out = y.shape(last);
    bool fits = groups > 0 && in % groups == 0 && out % groups == 0 && filter.shape_size() == last + 1 &&
                isFloat(static_cast<Type>(filter.type())) && filter.strides_size() == 0;
    fits = fits && filter.shape(0) == out && filter.shape(last) == in / groups;
    for (int d = 1; fits && d < last; ++d)
      fits = filter.shape(d) == conv.window().size(d - 1);
    if (!fits)
      bad("{}: its filter does not fit {} and {} channels in {} groups", where, in, out, groups);
  }

  void checkPool(const std::string &where, const plan::Pool &pool, const plan::Operand &image, const plan::Operand &y,
      const plan::Operand *tap) {
    checkWindows(where, pool.window(), image, y, /*beyond=*/true, /*touch=*/tap || !pool.count_padding());
    const int last = image.shape_size() - 1;
    if (image.shape(last) != y.shape(last))
      bad("{}: {} channels became {}", where, image.shape(last), y.shape(last));
    if (!tap)
      return;
    int64_t taps = 1;
    for (int64_t size : pool.window().size())
      taps *= size;
    if (taps > 256 || tap->type() != plan::U8 || tap->strides_size() != 0 ||
        !std::equal(tap->shape().begin(), tap->shape().end(), y.shape().begin(), y.shape().end()))
      bad("{}: what it notes of its {} taps does not fit", where, taps);
  }

  void checkOperand(const plan::Program &program, const plan::Operand &operand, const std::string &where) {
    bytesOf(operand.type(), operand.shape(), where);
    uint64_t size = sizeOf(static_cast<Type>(operand.type()));
    if (operand.strides_size() != 0 && operand.strides_size() != operand.shape_size())
      bad("{}: has {} strides for {} dimensions", where, operand.strides_size(), operand.shape_size());
    // Bytes from the first element to behind the last.
    uint64_t extent = size, rowMajor = size;
    bool empty = false;
    for (int i = operand.shape_size(); i-- > 0;) {
      uint64_t d = static_cast<uint64_t>(operand.shape(i)), stride = rowMajor;
      if (operand.strides_size() != 0) {
        if (operand.strides(i) < 0 || operand.strides(i) > (int64_t{1} << 48))
          bad("{}: impossible stride {}", where, operand.strides(i));
        stride = static_cast<uint64_t>(operand.strides(i)) * size;
      }
      empty |= d == 0;
      uint64_t span;
      if (d > 0 && (__builtin_mul_overflow(d - 1, stride, &span) || __builtin_add_overflow(extent, span, &extent)))
        bad("{}: impossible shape", where);
      rowMajor *= d;
    }
    uint64_t available = availableBytes(program, operand, where);
    if (!empty && (operand.offset_bytes() > available || extent > available - operand.offset_bytes()))
      bad("{}: reaches to byte {} of {}", where, operand.offset_bytes() + extent, available);
  }

  uint64_t availableBytes(const plan::Program &program, const plan::Operand &operand, const std::string &where) {
    const unsigned index = operand.index();
    auto parameter = [&]() -> const plan::Parameter & {
      checkIndex(where, index, plan_.parameters_size());
      return plan_.parameters(index);
    };
    auto stored = [&](plan::Type type) {
      if (type != operand.type())
        bad("{}: its type is not the stored one", where);
      return bytesOf(type, parameter().shape(), where);
    };
    switch (operand.kind()) {
    case plan::Operand::BUFFER: checkIndex(where, index, program.buffers_size()); return program.buffers(index).bytes();
    case plan::Operand::INPUT:
      checkIndex(where, index, plan_.inputs_size());
      return bytesOf(plan_.inputs(index).type(), plan_.inputs(index).shape(), where);
    case plan::Operand::CONSTANT: checkIndex(where, index, target_->constants_size()); return target_->constants(index).bytes();
    case plan::Operand::WEIGHT: return stored(plan_.classes(parameter().state_class()).weight());
    case plan::Operand::GRAD:
      if (!parameter().trained())
        bad("{}: parameter {} is not trained and has no gradient", where, parameter().name());
      return stored(plan_.classes(parameter().state_class()).grad());
    case plan::Operand::WEIGHT_SCALE: case plan::Operand::WEIGHT_AMAX: case plan::Operand::GRAD_SCALE: parameter(); return 4;
    case plan::Operand::SITE_SCALE: checkIndex(where, index, plan_.sites_size()); return 4;
    case plan::Operand::OUTPUT: checkIndex(where, index, program.outputs_size()); return program.outputs(index).bytes();
    default: bad("{}: unknown kind of operand {}", where, static_cast<int>(operand.kind()));
    }
  }

  const plan::Plan &plan_;
  const plan::Target *target_ = nullptr; // the one that is being checked
  const std::string &file_;
};

} // namespace

void checkPlan(const plan::Plan &plan, const std::string &file) { Checker(plan, file).run(); }

} // namespace msamp::runtime
