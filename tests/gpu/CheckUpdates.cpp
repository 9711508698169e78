// The optimizer update of each state class against the CPU's, and its speed on as many values as large models have.
#include "runtime/core/Error.h"
#include "runtime/device/StepRules.h"
#include "tests/gpu/Check.h"
#include "tests/gpu/Values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>

namespace msamp::gputest {
namespace {

constexpr int64_t blockSize = runtime::blockSize;
constexpr int64_t timedValues = int64_t{1} << 28;
constexpr int launches = 20;

// As codegen/cuda/UpdateKernel.h and codegen/cpu/UpdateKernel.h number them.
enum Argument {
  Weight,
  Master,
  Grad,
  GradBlockScale,
  M,
  MScale,
  V,
  VScale, // both
  Owner,
  GradScale,
  OldWeightScale,
  NewWeightScale,
  OldMasterScale,
  NewMasterScale,
  Amax,
  Hyper,
  Blocks,
  Count
};
enum Reference {
  RefGradScale = 3,
  RefOldWeightScale = 8,
  RefNewWeightScale,
  RefOldMasterScale,
  RefNewMasterScale,
  RefBlockAmax,
  RefHyper,
  RefCount
};

// A state of several parameters of very different sizes.
struct State {
  State(const plan::StateClass &c, bool gradPerBlock)
      : types{{Weight, static_cast<Type>(c.weight())},
              {Master, static_cast<Type>(c.master())},
              {Grad, static_cast<Type>(c.grad())},
              {M, static_cast<Type>(c.m())},
              {V, static_cast<Type>(c.v())}} {
    for (int64_t size :
         {int64_t{1}, int64_t{3}, int64_t{1000}, int64_t{16}, int64_t{5}, int64_t{64000}, int64_t{506}, int64_t{2}})
      for (int64_t i = 0; i < size; ++i)
        owner.push_back(static_cast<int32_t>(parameters)), parameters += i + 1 == size;
    blocks = static_cast<int64_t>(owner.size());
    auto scales = [&](bool present, int64_t count, double base) {
      std::vector<float> v(static_cast<size_t>(count), 1.0f);
      for (size_t i = 0; present && i < v.size(); ++i)
        v[i] = std::ldexp(static_cast<float>(base), static_cast<int>(i % 3));
      return v;
    };
    const bool scaledGrad = runtime::isFp8(types[2].second);
    gradBlockScale = scales(scaledGrad && gradPerBlock, blocks, 4096);
    gradScale = scales(scaledGrad && !gradPerBlock, parameters, 4096);
    oldWeightScale = scales(c.weight_scaled(), parameters, 1024);
    newWeightScale = scales(c.weight_scaled(), parameters, 512);
    oldMasterScale = scales(c.master_scaled(), parameters, 4096);
    newMasterScale = scales(c.master_scaled(), parameters, 8192);
    mScale = scales(runtime::isBlockScaled(types[3].second), blocks, 8192);
    vScale = scales(runtime::isBlockScaled(types[4].second), blocks, 1 << 20);
    for (auto [which, type] : types) {
      std::vector<uint8_t> &data = arrays[which];
      data.resize(static_cast<size_t>(blocks * blockSize) * runtime::sizeOf(type));
      if (data.empty())
        continue;
      const double size = which == Weight || which == Master ? 0.02 : which == Grad ? 0.01 : which == M ? 0.003 : 1e-4;
      // Every value of a block times the block's scale.
      std::vector<float> plain(static_cast<size_t>(blocks * blockSize));
      fillRandom(Type::F32, plain.data(), blocks * blockSize, which == V ? Contents::Positive : Contents::Normal, size,
                 static_cast<uint64_t>(which) + 1);
      inParallel(blocks, [&, which = which, type = type](int64_t begin, int64_t end) {
        for (int64_t i = begin * blockSize; i < end * blockSize; ++i)
          encode(type, data.data(), i, plain[static_cast<size_t>(i)] * scaleAt(which, i / blockSize, gradPerBlock));
      });
    }
    hyper.resize(runtime::HyperSlots);
    runtime::fillKernelHyper(hyper.data(), {.lr = 1e-3}, 0.5, 2, false);
  }

  float scaleAt(int which, int64_t block, bool gradPerBlock) const {
    const auto b = static_cast<size_t>(block), p = static_cast<size_t>(owner[b]);
    switch (which) {
    case Weight:
      return oldWeightScale[p];
    case Master:
      return oldMasterScale[p];
    case Grad:
      return gradPerBlock ? gradBlockScale[b] : gradScale[p];
    case M:
      return mScale[b];
    default:
      return vScale[b];
    }
  }
  std::vector<float> perBlock(const std::vector<float> &ofParameters) const {
    std::vector<float> v;
    for (int32_t p : owner)
      v.push_back(ofParameters[static_cast<size_t>(p)]);
    return v;
  }

  std::pair<int, Type> types[5];
  int64_t blocks = 0, parameters = 0;
  std::vector<int32_t> owner;
  std::vector<float> gradBlockScale, gradScale, oldWeightScale, newWeightScale, oldMasterScale, newMasterScale, mScale,
      vScale, hyper;
  std::vector<uint8_t> arrays[V + 1];
};

class UpdateCheck {
public:
  UpdateCheck(const Context &context, const plan::StateClass &c, const plan::UpdateLaunch &update)
      : context(context), c(c), update(update) {
    const plan::Entry &entry = update.entry();
    launch = {context.gpu.function(context.module, entry.symbol()), 0, 1, entry.block(), entry.shared_bytes()};
    context.gpu.prepare(launch);
  }
  ~UpdateCheck() {
    try {
      freeAll();
    } catch (const GpuError &) {
    }
  }

  bool run() {
    std::string verdict;
    bool right = true;
    for (bool gradPerBlock : {false, true})
      for (bool skip : {false, true})
        right &= compareOnce(gradPerBlock, skip, verdict);
    uint64_t bytes = 0;
    double us = time(bytes);
    double rate = static_cast<double>(bytes) / us * 1e-3;
    Address arena = context.gpu.allocate(size_t{1} << 30);
    double copy = copyBandwidth(context.gpu, arena, size_t{1} << 30, size_t{1} << 30);
    context.gpu.release(arena);
    std::string usage = fmt::format("{}r", context.gpu.registersOf(launch.function));
    if (int local = context.gpu.localBytesOf(launch.function); local > 0)
      usage += fmt::format(" {} bytes local", local);
    std::cout << fmt::format("{} {:<5} {:>9.1f} us {:>6.0f} GB/s {:>4.0f} % of copy  {}  {}M values{}\n",
                             c.update_kernel(), right ? "ok" : "WRONG", us, rate, 100 * rate / copy, usage,
                             timedValues >> 20, verdict.empty() ? "" : "  " + verdict)
              << std::flush;
    return right;
  }

private:
  void freeAll() {
    for (Address address : owned)
      context.gpu.release(address);
    owned.clear();
  }
  Address place(const void *data, size_t bytes) {
    if (bytes == 0)
      return 0;
    owned.push_back(context.gpu.allocate(bytes));
    if (data)
      context.gpu.upload(owned.back(), data, bytes);
    return owned.back();
  }
  template <typename T>
  Address place(const std::vector<T> &v) {
    return place(v.data(), v.size() * sizeof(T));
  }

  std::vector<Address> upload(const State &s, bool gradPerBlock) {
    std::vector<Address> args(Count);
    for (auto [which, type] : s.types)
      args[which] = place(s.arrays[which]);
    args[GradBlockScale] = gradPerBlock ? place(s.gradBlockScale) : 0;
    args[MScale] = place(s.mScale);
    args[VScale] = place(s.vScale);
    args[Owner] = place(s.owner);
    args[GradScale] = place(s.gradScale);
    args[OldWeightScale] = place(s.oldWeightScale);
    args[NewWeightScale] = place(s.newWeightScale);
    args[OldMasterScale] = place(s.oldMasterScale);
    args[NewMasterScale] = place(s.newMasterScale);
    args[Amax] = place(std::vector<uint32_t>(static_cast<size_t>(s.parameters), 0));
    args[Hyper] = place(s.hyper);
    args[Blocks] = place(std::vector<int64_t>{s.blocks});
    return args;
  }

  void start(const std::vector<Address> &args, int64_t blocks) {
    const int64_t atOnce = update.blocks_per_cta();
    launch.gridX = static_cast<unsigned>((blocks + atOnce - 1) / atOnce);
    context.gpu.launch(launch, args);
  }

  // Runs the CPU's kernel on the state; amax of each parameter.
  std::vector<float> reference(State &s, bool gradPerBlock) {
    using Chunks = void (*)(void *const *, int64_t, int64_t);
    auto update = reinterpret_cast<Chunks>(context.function(c.update_kernel()));
    if (!update)
      runtime::failData("kernels/{}.reference.so has no {}", context.loaded.target().name(), c.update_kernel());
    std::vector<float> grad = gradPerBlock ? s.gradBlockScale : s.perBlock(s.gradScale), blockAmax(s.owner.size());
    std::vector<float> oldWeight = s.perBlock(s.oldWeightScale), newWeight = s.perBlock(s.newWeightScale),
                       oldMaster = s.perBlock(s.oldMasterScale), newMaster = s.perBlock(s.newMasterScale);
    std::vector<void *> args(RefCount);
    for (auto [which, type] : s.types)
      args[static_cast<size_t>(which)] = s.arrays[which].data();
    args[RefGradScale] = grad.data();
    args[MScale] = s.mScale.data(), args[VScale] = s.vScale.data();
    args[RefOldWeightScale] = oldWeight.data(), args[RefNewWeightScale] = newWeight.data();
    args[RefOldMasterScale] = oldMaster.data(), args[RefNewMasterScale] = newMaster.data();
    args[RefBlockAmax] = blockAmax.data(), args[RefHyper] = s.hyper.data();
    inParallel(s.blocks, [&](int64_t begin, int64_t end) { update(args.data(), begin, end); });
    std::vector<float> amax(static_cast<size_t>(s.parameters), 0);
    for (size_t b = 0; b < s.owner.size(); ++b)
      amax[static_cast<size_t>(s.owner[b])] = std::max(amax[static_cast<size_t>(s.owner[b])], blockAmax[b]);
    return amax;
  }

  bool compareOnce(bool gradPerBlock, bool skip, std::string &verdict) {
    State s(c, gradPerBlock);
    s.hyper[runtime::SlotSkip] = skip ? 1 : 0;
    std::vector<Address> args = upload(s, gradPerBlock);
    start(args, s.blocks);
    context.gpu.synchronize();
    std::vector<float> amax(static_cast<size_t>(s.parameters), 0);
    if (!skip)
      amax = reference(s, gradPerBlock);
    bool right = true;
    auto check = [&](const char *name, Address at, Type type, const void *expected, int64_t count) {
      std::vector<uint8_t> actual(static_cast<size_t>(count) * runtime::sizeOf(type));
      if (actual.empty())
        return;
      context.gpu.download(actual.data(), at, actual.size());
      Difference d = compare(type, actual.data(), expected, count);
      const bool good = skip ? d.codes == 0 : d.isSmall(type);
      right &= good;
      if (!good || (d.codes > 0 && gradPerBlock))
        verdict +=
            fmt::format("{}{}{} {}", verdict.empty() ? "" : ", ", skip ? "skipped: " : "", name, describe(type, d));
    };
    constexpr const char *names[] = {"weight", "master", "gradient", "", "m", "", "v"};
    for (auto [which, type] : s.types)
      check(names[which], args[static_cast<size_t>(which)], type, s.arrays[which].data(), s.blocks * blockSize);
    check("scale of m", args[MScale], Type::F32, s.mScale.data(), s.blocks);
    if (s.types[4].second != Type::None)
      check("scale of v", args[VScale], Type::F32, s.vScale.data(), s.blocks);
    check("amax", args[Amax], Type::F32, amax.data(), s.parameters);
    freeAll();
    return right;
  }

  // On many values: the state above over and over.
  double time(uint64_t &bytes) {
    State s(c, false);
    const int64_t blocks = timedValues / blockSize;
    std::vector<Address> args = upload(s, false);
    auto repeat = [&](int which, size_t bytesOfBlock) {
      if (bytesOfBlock == 0)
        return;
      const size_t once = static_cast<size_t>(s.blocks) * bytesOfBlock,
                   all = static_cast<size_t>(blocks) * bytesOfBlock;
      Address large = place(nullptr, all);
      for (size_t at = 0; at < all; at += once)
        context.gpu.copy(large + at, args[static_cast<size_t>(which)], std::min(once, all - at));
      args[static_cast<size_t>(which)] = large;
      bytes += all;
    };
    for (auto [which, type] : s.types) {
      const size_t size = static_cast<size_t>(blockSize) * runtime::sizeOf(type);
      repeat(which, size);
      // Read and written; the gradient is only read, and a weight that has a master only written.
      if (which != Grad && !(which == Weight && s.types[1].second != Type::None))
        bytes += size * static_cast<size_t>(blocks);
    }
    for (auto [scale, of] : {std::pair{MScale, 3}, std::pair{VScale, 4}}) {
      repeat(scale, sizeof(float));
      bytes -= runtime::isBlockScaled(s.types[of].second) ? 0 : static_cast<size_t>(blocks) * sizeof(float);
      bytes += runtime::isBlockScaled(s.types[of].second) ? static_cast<size_t>(blocks) * sizeof(float) : 0;
    }
    repeat(Owner, sizeof(int32_t));
    context.gpu.upload(args[Blocks], &blocks, sizeof(blocks));
    double us = context.gpu.microseconds([&](int) { start(args, blocks); }, launches);
    freeAll();
    return us;
  }

  const Context &context;
  const plan::StateClass &c;
  const plan::UpdateLaunch &update;
  Launch launch;
  std::vector<Address> owned;
};

} // namespace

void checkUpdates(const Context &context, Progress &progress) {
  const runtime::LoadedPlan &loaded = context.loaded;
  for (int i = 0; i < loaded.plan.classes_size(); ++i) {
    const plan::StateClass &c = loaded.plan.classes(i);
    if (c.update_kernel().empty() || !progress.begin() || !context.wanted(c.update_kernel()))
      continue;
    try {
      progress.finish(UpdateCheck(context, c, loaded.target().updates(i)).run());
    } catch (const GpuError &e) {
      progress.finish(false);
      std::cout << fmt::format("{} WRONG {}\n", c.update_kernel(), e.what()) << std::flush;
      if (e.lost)
        throw;
    }
  }
}

} // namespace msamp::gputest
