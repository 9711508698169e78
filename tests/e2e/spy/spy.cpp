// Runs two micro-steps of a plan on a device that looks at every GEMM's operands as they are in memory at that moment,
// and computes some of its results again from those bytes. Prints a line a kind of GEMM; exit 1 when a result is not
// what the operands give.
#include "runtime/core/Error.h"
#include "runtime/data/Loader.h"
#include "runtime/exec/Executor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

using namespace msamp;
using namespace msamp::runtime;

namespace {

// The value of an FP8 code by its definition: sign, exponent, fraction; an independent reading of the format.
double valueOf(Type type, uint8_t code) {
  int fractionBits = type == Type::E4M3 ? 3 : 2, bias = type == Type::E4M3 ? 7 : 15;
  int exponent = (code & 0x7f) >> fractionBits, fraction = code & ((1 << fractionBits) - 1);
  double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - fractionBits)
                                   : std::ldexp((1 << fractionBits) + fraction, exponent - bias - fractionBits);
  return code & 0x80 ? -magnitude : magnitude;
}

struct Kind {
  int count = 0;
  double largest = 0; // largest code in use relative to the format's largest value: the scale fits
};

class SpyDevice : public Device {
public:
  explicit SpyDevice(Device &device) : device(device) {}

  std::map<std::string, Kind> kinds;
  int wrong = 0;

  void matmul(const MatMulArgs &args) override {
    // What is added may lie where the result goes.
    std::vector<double> addends(samples, 0.0);
    if (args.scaled && args.hasAddend)
      for (int64_t sample = 0; sample < samples; ++sample)
        addends[static_cast<size_t>(sample)] = element(args.addend, rowOf(args, sample), columnOf(args, sample));
    device.matmul(args);
    std::string kind =
        fmt::format("{}{} x {}", args.scaled ? "scaled " : "plain ", nameOf(args.a.type), nameOf(args.b.type));
    Kind &entry = kinds[kind];
    ++entry.count;
    if (!args.scaled)
      return;
    entry.largest = std::max({entry.largest, fill(args.a), fill(args.b)});
    recompute(args, addends);
  }

  std::string description() const override { return device.description(); }
  unsigned threads() const override { return device.threads(); }
  void *allocate(size_t bytes) override { return device.allocate(bytes); }
  void release(void *data, size_t bytes) override { device.release(data, bytes); }
  void upload(void *to, const void *from, size_t bytes) override { device.upload(to, from, bytes); }
  void download(void *to, const void *from, size_t bytes) override { device.download(to, from, bytes); }
  void copyBytes(void *to, const void *from, size_t bytes) override { device.copyBytes(to, from, bytes); }
  size_t chooseTarget(std::span<const std::string> targets) const override { return device.chooseTarget(targets); }
  void loadKernels(std::span<const std::string> files, std::span<const KernelRef> kernels) override {
    device.loadKernels(files, kernels);
  }
  void launch(unsigned kernel, std::span<void *const> args) override { device.launch(kernel, args); }
  unsigned loadUpdateKernel(const UpdateKernelRef &kernel) override { return device.loadUpdateKernel(kernel); }
  void update(unsigned kernel, const StepTables &tables, const UpdateArgs &args) override {
    device.update(kernel, tables, args);
  }
  void noteLoss(const StepTables &t, const Tensor &loss, LossUse use) override { device.noteLoss(t, loss, use); }
  void gradSquares(const StepTables &t, std::span<const GradRange> ranges) override { device.gradSquares(t, ranges); }
  void finishNorm(const StepTables &t, unsigned ranks, double count) override { device.finishNorm(t, ranks, count); }
  void planScales(const StepTables &t, const ClassRule &rule) override { device.planScales(t, rule); }
  void commitScales(const StepTables &t, const ClassRule &rule) override { device.commitScales(t, rule); }
  using Values = std::span<const float *const>;
  using Indices = std::span<const uint32_t>;
  void calibrate(const StepTables &t, Values values, Indices sites) override { device.calibrate(t, values, sites); }
  void recordAmax(const StepTables &t, Values values, Indices sites) override { device.recordAmax(t, values, sites); }
  void storeGradScales(const StepTables &t, Values values, Indices parameters) override {
    device.storeGradScales(t, values, parameters);
  }
  void pushSites(const StepTables &t) override { device.pushSites(t); }
  void spreadScales(const float *byParameter, const int32_t *owner, float *byBlock, int64_t blocks) override {
    device.spreadScales(byParameter, owner, byBlock, blocks);
  }
  void attention(const AttentionArgs &args) override { device.attention(args); }
  void attentionGrad(const AttentionArgs &args) override { device.attentionGrad(args); }
  void conv(const ConvArgs &args) override { device.conv(args); }
  void pool(const PoolArgs &args) override { device.pool(args); }
  void scatterAdd(const Tensor &updates, const Tensor &indices, const Tensor &table) override {
    device.scatterAdd(updates, indices, table);
  }
  void gather(const Tensor &table, const Tensor &indices, unsigned axis, const Tensor &result) override {
    device.gather(table, indices, axis, result);
  }
  void copy(const Tensor &source, const Tensor &destination) override { device.copy(source, destination); }
  void fill(const Tensor &destination, double value) override { device.fill(destination, value); }
  void accumulate(const Tensor &value, const Tensor &sum, bool first) override { device.accumulate(value, sum, first); }
  void reduceBlocks(std::span<const BlockSpan> sources, void *destination, Type type, float *scale,
                    int64_t blocks) override {
    device.reduceBlocks(sources, destination, type, scale, blocks);
  }
  void decode(Type type, const void *source, float *destination, int64_t count) const override {
    device.decode(type, source, destination, count);
  }
  void encode(Type type, const float *source, void *destination, int64_t count) const override {
    device.encode(type, source, destination, count);
  }
  float largestMagnitude(const float *values, int64_t count) const override {
    return device.largestMagnitude(values, count);
  }
  void parallel(int64_t count, const std::function<void(int64_t)> &body) override { device.parallel(count, body); }

private:
  static double at(const Tensor &tensor, int64_t row, int64_t column) {
    int64_t position = row * tensor.strides[tensor.rank - 2] + column * tensor.strides[tensor.rank - 1];
    return valueOf(tensor.type, static_cast<uint8_t>(tensor.data[position]));
  }

  static double fill(const Tensor &tensor) {
    double largest = 0;
    for (int64_t i = 0; i < tensor.shape[0]; ++i)
      for (int64_t j = 0; j < tensor.shape[1]; ++j)
        largest = std::max(largest, std::fabs(at(tensor, i, j)));
    return largest / (tensor.type == Type::E4M3 ? 448.0 : 57344.0);
  }

  static double scaleAt(const Tensor &scale, int64_t index) {
    float value;
    std::memcpy(&value, scale.data + (scale.elements() > 1 ? index : 0) * 4, 4);
    return value;
  }

  static constexpr int64_t samples = 16;
  static int64_t rowOf(const MatMulArgs &args, int64_t sample) { return sample * 7919 % args.c.shape[0]; }
  static int64_t columnOf(const MatMulArgs &args, int64_t sample) { return sample * 104729 % args.c.shape[1]; }

  double element(const Tensor &c, int64_t row, int64_t column) const {
    int64_t position = row * c.strides[0] + column * c.strides[1];
    float value;
    device.decode(c.type, c.data + position * static_cast<int64_t>(sizeOf(c.type)), &value, 1);
    return value;
  }

  // Some elements of the product, again from the bytes: equal but for the rounding of the result's type and of FP32
  // sums.
  void recompute(const MatMulArgs &args, const std::vector<double> &addends) {
    if (!isFp8(args.a.type) || !isFp8(args.b.type) || args.a.rank != 2 || args.b.rank != 2) {
      ++wrong;
      return;
    }
    int64_t length = args.a.shape[args.transposeA ? 0 : 1];
    for (int64_t sample = 0; sample < samples; ++sample) {
      int64_t row = rowOf(args, sample), column = columnOf(args, sample);
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < length; ++k) {
        double a = args.transposeA ? at(args.a, k, row) : at(args.a, row, k);
        double b = args.transposeB ? at(args.b, column, k) : at(args.b, k, column);
        sum += a * b;
        magnitude += std::fabs(a * b);
      }
      double scale = scaleAt(args.scaleA, row) * scaleAt(args.scaleB, column);
      double expected = sum / scale + addends[static_cast<size_t>(sample)];
      if (args.hasBias) {
        float bias;
        device.decode(args.bias.type,
                      args.bias.data + column * args.bias.strides[0] * static_cast<int64_t>(sizeOf(args.bias.type)), &bias, 1);
        expected += bias;
      }
      double scaleOut = args.scaleOut ? *args.scaleOut : 1.0, rounding = 0;
      if (isFp8(args.c.type)) {
        // Half a step of the format, and of its smallest numbers; beyond its range it saturates.
        bool narrow = args.c.type == Type::E4M3;
        double largest = (narrow ? 448.0 : 57344.0) / scaleOut;
        expected = std::clamp(expected, -largest, largest);
        rounding = (narrow ? 0x1p-4 : 0x1p-3) * std::fabs(expected) + (narrow ? 0x1p-10 : 0x1p-17) / scaleOut;
      } else if (args.c.type != Type::F32) {
        rounding = 0x1p-8 * std::fabs(expected);
      }
      if (!(std::fabs(element(args.c, row, column) / scaleOut - expected) <= rounding + 1e-5 * magnitude / scale))
        ++wrong;
    }
  }

  Device &device;
};

int run(const std::string &directory, const std::string &text) {
  LoadedPlan loaded = loadPlan(directory);
  plan::Plan plan = loaded.plan;
  data::LoaderOptions options;
  options.sources = {{"", text}};
  data::Loader loader(plan, options);
  auto device = makeDevice({});
  SpyDevice spy(*device);
  auto communicator = makeSingleCommunicator();
  auto executor = Executor::create(std::move(loaded), spy, *communicator);
  executor->initialize(0);
  // The first step settles the scales (it may run GEMMs twice); the second one is looked at.
  for (uint64_t step = 0; step < 2; ++step) {
    spy.kinds.clear();
    loader.fill(step, 0, 1, [&](unsigned input) { return executor->inputHost(input); });
    executor->microStep(0, 1);
    if (step == 0)
      executor->update({});
  }
  for (const auto &[name, kind] : spy.kinds)
    fmt::print("{} {} {:.4f}\n", name, kind.count, kind.largest);
  fmt::print("wrong {}\n", spy.wrong);
  return spy.wrong == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: test-spy PLAN TEXT\n");
    return 64;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const Error &error) {
    fmt::print(stderr, "test-spy: {}\n", error.what());
    return error.exitCode();
  }
}
