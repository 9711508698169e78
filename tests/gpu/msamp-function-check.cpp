// msamp-function-check PTX: runs what msamp-gpu-functions wrote. Conversions are compared on all 2^32 floats and all
// codes with runtime/core/Fp8.h and have to be equal, functions with the C library's in double precision.
#include "runtime/core/Error.h"
#include "runtime/core/Fp8.h"
#include "runtime/core/MappedFile.h"
#include "tests/gpu/Gpu.h"
#include "tests/gpu/RunCheck.h"
#include "tests/gpu/Values.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <iostream>
#include <mutex>

namespace msamp::gputest {
namespace {

constexpr int64_t piece = int64_t{1} << 26; // values at a time
int wrong = 0;

void say(const std::string &name, bool right, const std::string &text) {
  std::cout << fmt::format("{:<12} {:<5} {}\n", name, right ? "ok" : "WRONG", text) << std::flush;
  wrong += !right;
}

class Functions {
public:
  Functions(Gpu &gpu, void *module)
      : gpu(gpu), module(module), from(gpu.allocate(piece * 4)), to(gpu.allocate(piece * 4)) {}

  void run(const std::string &name, const void *in, size_t inSize, void *out, size_t outSize, int64_t count) {
    gpu.upload(from, in, static_cast<size_t>(count) * inSize);
    Launch launch{gpu.function(module, name), static_cast<unsigned>((count + 1023) / 1024), 1, 256, 0};
    gpu.launch(launch, {from, to});
    gpu.synchronize();
    gpu.download(out, to, static_cast<size_t>(count) * outSize);
  }

private:
  Gpu &gpu;
  void *module;
  Address from, to;
};

// NaNs of 16-bit types may differ in their bits.
bool isNan(Type type, uint64_t code) {
  return (type == Type::BF16 && (code & 0x7fff) > 0x7f80) || (type == Type::F16 && (code & 0x7fff) > 0x7c00);
}

void checkEncode(Functions &functions, Type type) {
  const size_t size = runtime::sizeOf(type);
  std::vector<uint32_t> in(piece);
  std::vector<uint8_t> out(piece * size);
  std::atomic<int64_t> differ = 0;
  std::atomic<uint32_t> example = 0;
  const std::string name = "encode_" + std::string(runtime::nameOf(type));
  for (int64_t start = 0; start < int64_t{1} << 32; start += piece) {
    inParallel(piece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        in[static_cast<size_t>(i)] = static_cast<uint32_t>(start + i);
    });
    functions.run(name, in.data(), 4, out.data(), size, piece);
    inParallel(piece, [&](int64_t begin, int64_t end) {
      int64_t found = 0;
      for (int64_t i = begin; i < end; ++i) {
        uint16_t expected = 0, actual = 0;
        const float x = runtime::floatOf(in[static_cast<size_t>(i)]);
        encode(type, &expected, 0, x);
        std::memcpy(&actual, out.data() + static_cast<size_t>(i) * size, size);
        if (actual != expected && !(isNan(type, actual) && isNan(type, expected)))
          ++found, example = in[static_cast<size_t>(i)];
      }
      differ += found;
    });
  }
  say(name, differ == 0,
      fmt::format("{} of 2^32 floats differ{}", differ.load(),
                  differ > 0 ? fmt::format(", as {:#010x} does", example.load()) : ""));
}

void checkDecode(Functions &functions, Type type) {
  const size_t size = runtime::sizeOf(type);
  const int64_t count = size == 1 ? 1024 : 65536; // codes again and again where there are fewer
  std::vector<uint8_t> in(static_cast<size_t>(count) * size);
  std::vector<float> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<uint16_t>(i);
    std::memcpy(in.data() + static_cast<size_t>(i) * size, &code, size);
  }
  const std::string name = "decode_" + std::string(runtime::nameOf(type));
  functions.run(name, in.data(), size, out.data(), 4, count);
  int64_t differ = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float expected = decode(type, in.data(), i), actual = out[static_cast<size_t>(i)];
    differ += runtime::bitsOf(expected) != runtime::bitsOf(actual) && !(std::isnan(expected) && std::isnan(actual));
  }
  say(name, differ == 0, fmt::format("{} of {} codes differ", differ, count));
}

// `low` and `high` bound the arguments; `bound` the relative error, and `absolute` what is forgiven where results are
// near zero.
void checkFunction(Functions &functions, const std::string &name, double (*exact)(double), double low, double high,
                   double bound, double absolute = 0) {
  std::vector<float> in(piece), out(piece);
  for (int64_t i = 0; i < piece; ++i) {
    const double part = (static_cast<double>(i) + 0.5) / static_cast<double>(piece);
    // Evenly, and in the second half by magnitude.
    double x = low + (high - low) * 2 * part;
    if (i >= piece / 2)
      x = std::copysign(std::exp2(-40 + 2 * (part - 0.5) * (40 + std::log2(high))), low < 0 && i % 2 ? -1.0 : 1.0);
    in[static_cast<size_t>(i)] = static_cast<float>(std::max(x, low));
  }
  functions.run(name, in.data(), 4, out.data(), 4, piece);
  double most = 0, at = 0;
  std::mutex mutex;
  inParallel(piece, [&](int64_t begin, int64_t end) {
    double worst = 0, where = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double x = in[static_cast<size_t>(i)], expected = exact(x);
      double error = std::fabs(out[static_cast<size_t>(i)] - expected) / (std::fabs(expected) + absolute + 1e-37);
      if (!(error <= worst))
        worst = error, where = x;
    }
    std::lock_guard lock(mutex);
    if (!(worst <= most))
      most = worst, at = where;
  });
  say(name, most <= bound, fmt::format("error at most {:.1e}, at {:.9g} (allowed {:.0e})", most, at, bound));
}

void checkDivision(Functions &functions) {
  std::vector<float> in(piece), out(piece);
  fillRandom(Type::F32, in.data(), piece, Contents::Normal, 1, 3);
  inParallel(piece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      in[static_cast<size_t>(i)] *= std::ldexp(1.0f, static_cast<int>(i * 2654435761u % 60) - 30);
  });
  const float special[] = {1, 0, INFINITY, 1, -INFINITY, 2, 0, 1, 3, 4, 0.5f, 1e30f, 1e-30f, NAN, 1, 1};
  std::copy(std::begin(special), std::end(special), in.begin());
  functions.run("divide", in.data(), 4, out.data(), 4, piece);
  double most = 0;
  int64_t differ = 0;
  for (int64_t i = 0; i < piece; ++i) {
    const float x = in[static_cast<size_t>(i)], y = in[static_cast<size_t>(i / 4 * 4 + (i + 1) % 4)];
    const float expected = x / y, actual = out[static_cast<size_t>(i)];
    if (!std::isfinite(expected))
      differ += !(std::isnan(expected) ? std::isnan(actual) : actual == expected);
    else if (expected != actual)
      most = std::max(most, std::fabs(static_cast<double>(actual) - expected) / (std::fabs(expected) + 1e-37));
  }
  say("divide", most < 2.5e-7 && differ == 0,
      fmt::format("error at most {:.1e}, {} infinities or NaNs differ", most, differ));
}

int check(int argc, char **argv) {
  if (argc != 2)
    runtime::failUsage("usage: msamp-function-check PTX");
  runtime::MappedFile file(argv[1]);
  Gpu gpu;
  Functions functions(gpu, gpu.loadModule({reinterpret_cast<const char *>(file.data()), file.size()}));
  for (Type type : {Type::E4M3, Type::E5M2, Type::BF16, Type::F16}) {
    checkEncode(functions, type);
    checkDecode(functions, type);
  }
  // Two units in the last place, and half a unit of the argument.
  checkFunction(
      functions, "exp", [](double x) { return std::exp(x); }, -8, 8, 1e-6);
  checkFunction(
      functions, "exp", [](double x) { return std::exp(x); }, -87, 88, 6e-6);
  checkFunction(
      functions, "exp2", [](double x) { return std::exp2(x); }, -125, 127, 1e-6);
  checkFunction(
      functions, "expm1", [](double x) { return std::expm1(x); }, -20, 80, 1e-5);
  checkFunction(
      functions, "log", [](double x) { return std::log(x); }, 1e-30, 1e30, 1e-6, 1e-1);
  checkFunction(
      functions, "log2", [](double x) { return std::log2(x); }, 1e-30, 1e30, 1e-6, 1e-1);
  checkFunction(
      functions, "log1p", [](double x) { return std::log1p(x); }, -0.99, 1e10, 1e-5);
  checkFunction(
      functions, "tanh", [](double x) { return std::tanh(x); }, -20, 20, 1e-6);
  checkFunction(
      functions, "erf", [](double x) { return std::erf(x); }, -6, 6, 1e-5);
  checkFunction(
      functions, "sqrt", [](double x) { return std::sqrt(x); }, 1e-35, 1e35, 5e-7);
  checkFunction(
      functions, "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1e-35, 1e35, 5e-7);
  checkFunction(
      functions, "sin", [](double x) { return std::sin(x); }, -100, 100, 1e-5, 1e-1);
  checkFunction(
      functions, "cos", [](double x) { return std::cos(x); }, -100, 100, 1e-5, 1e-1);
  checkDivision(functions);
  std::cout << fmt::format("functions: {} wrong", wrong) << std::endl;
  return wrong > 0 ? 1 : 0;
}

} // namespace
} // namespace msamp::gputest

int main(int argc, char **argv) {
  using namespace msamp::gputest;
  return runCheck("msamp-function-check", [&] { return check(argc, argv); });
}
