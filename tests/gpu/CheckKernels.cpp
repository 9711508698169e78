// Each distinct kernel of a plan on random operands, against the CPU's kernel of the same cluster.
#include "runtime/core/Error.h"
#include "runtime/core/MappedFile.h"
#include "tests/gpu/Check.h"
#include "tests/gpu/Values.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>

namespace msamp::gputest {
namespace {

constexpr size_t alignment = 256, guard = 256; // between operands, so that what is written outside of them shows
constexpr uint8_t guardByte = 0xab, poison = 0xff;
constexpr size_t beyondCaches = size_t{320} << 20; // of operands in turn, so that none is found in a cache
constexpr int launches = 25;

uint64_t aligned(uint64_t value) {
  return (value + alignment - 1) / alignment * alignment;
}

struct Argument {
  const plan::Operand *operand = nullptr;
  bool isInput = false;
  Type type = Type::U8;
  int64_t count = 0;
  size_t bytes = 0, offset = 0; // in a set of operands
  int sameAs = -1;              // an argument that is the same memory
};

// The arguments of a launch: operands and results, then the workspace.
std::vector<Argument> argumentsOf(const plan::Step &step, size_t &setBytes) {
  std::vector<Argument> arguments;
  auto add = [&](const plan::Operand &operand, bool isInput) {
    Argument a;
    a.operand = &operand;
    a.isInput = isInput;
    a.type = static_cast<Type>(operand.type());
    a.count = 1;
    for (int64_t size : operand.shape())
      a.count *= size;
    a.bytes = static_cast<size_t>(a.count) * runtime::sizeOf(a.type);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const plan::Operand &other = *arguments[i].operand;
      if (other.kind() == operand.kind() && other.index() == operand.index() &&
          other.offset_bytes() == operand.offset_bytes() && arguments[i].bytes >= a.bytes && arguments[i].sameAs < 0 &&
          !isInput)
        a.sameAs = static_cast<int>(i);
    }
    if (a.sameAs >= 0) {
      a.offset = arguments[static_cast<size_t>(a.sameAs)].offset;
    } else {
      // As far from a multiple of 256 as in the plan.
      a.offset = aligned(setBytes + guard) + operand.offset_bytes() % alignment;
      setBytes = a.offset + a.bytes;
    }
    arguments.push_back(a);
  };
  for (const plan::Operand &operand : step.inputs())
    add(operand, true);
  for (const plan::Operand &operand : step.outputs())
    add(operand, false);
  if (step.has_workspace())
    add(step.workspace(), false);
  setBytes = aligned(setBytes + guard);
  return arguments;
}

class KernelCheck {
public:
  KernelCheck(const Context &context, const plan::Kernel &kernel, const plan::Step &step)
      : context(context), kernel(kernel), step(step), arguments(argumentsOf(step, setBytes)),
        results(arguments.size() - (step.has_workspace() ? 1 : 0)) {
    sets = std::clamp<size_t>(beyondCaches / setBytes + 1, 2, 64);
  }
  size_t arenaBytes() const { return sets * setBytes; }

  // Prints a line; whether the kernel is right.
  bool run(Address arena) {
    std::vector<Launch> entries;
    std::string usage;
    for (const plan::Entry &entry : kernel.entries()) {
      void *function = context.gpu.function(context.module, entry.symbol());
      entries.push_back({function, entry.grid_x(), entry.grid_y(), entry.block(), entry.shared_bytes()});
      context.gpu.prepare(entries.back());
      usage += fmt::format("{}{}r", usage.empty() ? "" : "+", context.gpu.registersOf(function));
      if (int local = context.gpu.localBytesOf(function); local > 0)
        usage += fmt::format(" {} bytes local", local);
    }
    host.assign(setBytes, guardByte);
    fillInputs();
    for (const Argument &a : arguments)
      if (!a.isInput && a.sameAs < 0)
        std::memset(host.data() + a.offset, poison, a.bytes);
    for (size_t s = 0; s < 2; ++s)
      context.gpu.upload(arena + s * setBytes, host.data(), setBytes);
    for (size_t s = 0; s < 2; ++s)
      launchAll(entries, arena + s * setBytes);
    context.gpu.synchronize();
    std::vector<uint8_t> actual(setBytes), again(setBytes);
    context.gpu.download(actual.data(), arena, setBytes);
    context.gpu.download(again.data(), arena + setBytes, setBytes);
    runReference();

    std::string verdict;
    bool right = compareResults(actual, verdict);
    if (!guardsAreWhole(actual))
      verdict += "; WRITES OUTSIDE ITS RESULTS", right = false;
    for (size_t i = 0; i < results; ++i)
      if (!arguments[i].isInput && std::memcmp(actual.data() + arguments[i].offset, again.data() + arguments[i].offset,
                                               arguments[i].bytes) != 0) {
        verdict += "; TWO RUNS DIFFER", right = false;
        break;
      }
    context.gpu.upload(arena, host.data(), setBytes);
    for (size_t s = 1; s < sets; ++s)
      context.gpu.copy(arena + s * setBytes, arena, setBytes);
    double us = context.gpu.microseconds(
        [&](int i) { launchAll(entries, arena + static_cast<size_t>(i) % sets * setBytes); }, launches);
    double rate = static_cast<double>(step.bytes()) / us * 1e-3;
    double copy = copyBandwidth(context.gpu, arena, arenaBytes(), step.bytes());
    std::cout << fmt::format("{:<9} {:<5} {:>9.1f} us {:>6.0f} GB/s {:>4.0f} % of copy  {:<10} {}  [{}]  {}\n",
                             kernel.symbol(), right ? "ok" : "WRONG", us, rate, 100 * rate / copy, usage, shapes(),
                             kernel.cluster(), verdict)
              << std::flush;
    return right;
  }

private:
  void launchAll(const std::vector<Launch> &entries, Address set) {
    std::vector<Address> args;
    for (const Argument &a : arguments)
      args.push_back(set + a.offset);
    for (const Launch &entry : entries)
      context.gpu.launch(entry, args);
  }

  // Elements of the largest operand: those with fewer are statistics, scales or parameters.
  int64_t largest() const {
    int64_t most = 0;
    for (const Argument &a : arguments)
      most = std::max(most, a.count);
    return most;
  }

  void fillInputs() {
    const plan::Plan &plan = context.loaded.plan;
    const int64_t most = largest();
    uint64_t seed = 1;
    for (const Argument &a : arguments) {
      if (!a.isInput)
        continue;
      void *data = host.data() + a.offset;
      ++seed;
      const plan::Operand &operand = *a.operand;
      switch (operand.kind()) {
      case plan::Operand::CONSTANT: {
        runtime::MappedFile file((context.loaded.directory / runtime::constantsPath(context.loaded.target())).string());
        const plan::Constant &constant = context.loaded.target().constants(static_cast<int>(operand.index()));
        std::memcpy(data, file.bytes().data() + constant.offset() + operand.offset_bytes(), a.bytes);
        continue;
      }
      case plan::Operand::SITE_SCALE:
      case plan::Operand::WEIGHT_SCALE:
      case plan::Operand::GRAD_SCALE:
        fillRandom(a.type, data, a.count, Contents::PowerOfTwo, 1, seed);
        continue;
      default:
        break;
      }
      if (!runtime::isFloat(a.type)) {
        int64_t bound = 4;
        if (operand.kind() == plan::Operand::INPUT && plan.inputs(static_cast<int>(operand.index())).bound() > 0)
          bound = plan.inputs(static_cast<int>(operand.index())).bound();
        fillRandom(a.type, data, a.count, Contents::Indices, static_cast<double>(bound), seed);
      } else if (operand.kind() == plan::Operand::BUFFER && a.type == Type::F32 && a.count < most) {
        fillRandom(a.type, data, a.count, Contents::Positive, 1, seed);
      } else {
        fillRandom(a.type, data, a.count, Contents::Normal, runtime::isFp8(a.type) ? 8 : 1, seed);
      }
    }
  }

  // The CPU's results replace the poison in `expected`.
  void runReference() {
    using Chunks = void (*)(void *const *, int64_t, int64_t);
    using Finish = void (*)(void *const *);
    auto chunks = reinterpret_cast<Chunks>(context.function(kernel.symbol()));
    auto finish = kernel.finish() ? reinterpret_cast<Finish>(context.function(kernel.symbol() + "_finish")) : nullptr;
    if (!chunks || (kernel.finish() && !finish))
      runtime::failData("kernels/{}.reference.so has no {}", context.loaded.target().name(), kernel.symbol());
    expected = host;
    std::vector<uint8_t> workspace(kernel.reference_workspace_bytes() + 64, poison);
    std::vector<void *> args;
    for (size_t i = 0; i < results; ++i)
      args.push_back(expected.data() + arguments[i].offset);
    if (kernel.reference_workspace_bytes() > 0)
      args.push_back(workspace.data());
    inParallel(kernel.chunks(), [&](int64_t begin, int64_t end) { chunks(args.data(), begin, end); });
    if (finish)
      finish(args.data());
  }

  bool compareResults(const std::vector<uint8_t> &actual, std::string &verdict) {
    bool right = true;
    for (size_t i = 0; i < results; ++i) {
      const Argument &a = arguments[i];
      if (a.isInput)
        continue;
      Difference d = compare(a.type, actual.data() + a.offset, expected.data() + a.offset, a.count);
      verdict += (verdict.empty() ? "" : ", ") + describe(a.type, d);
      if (!d.isSmall(a.type, kernel.cluster().find("truncf") != std::string::npos))
        verdict += " (!)", right = false;
    }
    return right;
  }

  bool guardsAreWhole(const std::vector<uint8_t> &actual) {
    std::vector<uint8_t> inside(setBytes, 0);
    for (const Argument &a : arguments)
      std::fill_n(inside.begin() + static_cast<std::ptrdiff_t>(a.offset), a.bytes, uint8_t{1});
    for (size_t i = 0; i < setBytes; ++i)
      if (!inside[i] && actual[i] != guardByte)
        return false;
    return true;
  }

  std::string shapes() const {
    std::string text;
    for (size_t i = 0; i < results; ++i) {
      const Argument &a = arguments[i];
      if (i > 0)
        text += arguments[i - 1].isInput && !a.isInput ? "->" : " ";
      text += runtime::nameOf(a.type);
      for (int d = 0; d < a.operand->shape_size(); ++d)
        text += (d ? "x" : ":") + std::to_string(a.operand->shape(d));
    }
    return text;
  }

  const Context &context;
  const plan::Kernel &kernel;
  const plan::Step &step;
  size_t setBytes = 0;
  std::vector<Argument> arguments;
  size_t results; // arguments without the workspace
  size_t sets = 2;
  std::vector<uint8_t> host, expected;
};

} // namespace

double copyBandwidth(Gpu &gpu, Address arena, size_t arenaBytes, uint64_t bytes) {
  const size_t half = std::clamp<uint64_t>(bytes / 2, 256, arenaBytes / 2) / alignment * alignment;
  const size_t pairs = arenaBytes / (2 * half);
  double us = gpu.microseconds(
      [&](int i) {
        Address at = arena + static_cast<size_t>(i) % pairs * 2 * half;
        gpu.copy(at + half, at, half);
      },
      launches);
  return static_cast<double>(2 * half) / us * 1e-3;
}

void checkKernels(const Context &context, Progress &progress) {
  const plan::Target &target = context.loaded.target();
  std::map<unsigned, const plan::Step *> steps; // the first launch of each kernel
  for (const plan::Program &program : target.programs())
    for (const plan::Step &step : program.steps())
      if (step.has_launch())
        steps.emplace(step.launch().kernel(), &step);
  size_t arenaBytes = 0;
  for (const auto &[index, step] : steps)
    if (context.wanted(target.kernels(static_cast<int>(index)).symbol()))
      arenaBytes =
          std::max(arenaBytes, KernelCheck(context, target.kernels(static_cast<int>(index)), *step).arenaBytes());
  if (arenaBytes == 0)
    return;
  Address arena = context.gpu.allocate(arenaBytes);
  for (const auto &[index, step] : steps) {
    const plan::Kernel &kernel = target.kernels(static_cast<int>(index));
    if (!progress.begin() || !context.wanted(kernel.symbol()))
      continue;
    try {
      progress.finish(KernelCheck(context, kernel, *step).run(arena));
    } catch (const GpuError &e) {
      progress.finish(false);
      std::cout << fmt::format("{:<9} WRONG {}  [{}]\n", kernel.symbol(), e.what(), kernel.cluster()) << std::flush;
      if (e.lost)
        throw;
    }
  }
  context.gpu.release(arena);
}

} // namespace msamp::gputest
