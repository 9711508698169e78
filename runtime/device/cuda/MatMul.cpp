#include "runtime/device/cuda/MatMul.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "runtime/core/Error.h"
#include "runtime/device/cuda/MatMulPlan.h"

extern "C" const char msampFatbinMatMulParts[];

namespace msamp::runtime::cuda {

namespace {

bool fp8Ready(const Operand &o) {
  int64_t strides = 0;
  for (int64_t stride : o.batchStrides)
    strides |= stride;
  return o.kInnermost() && o.leading() % 16 == 0 && alignmentOf(o.data, {strides}) >= 16;
}

// How the library takes a scale beside that of the other operand.
cublasLtMatmulMatrixScale_t modeOf(const MatMulArgs &args, const Tensor &scale, int64_t extent) {
  if (args.scaledByBlocks())
    return scale.rank == 2 && MatMulArgs::scaleExtent(scale, extent) == 1 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                                                          : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  return args.scaleA.rank > 0 || args.scaleB.rank > 0 ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
                                                      : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

// The inverses of an operand's scale as the library reads them. One an entry of 1x128: all rows (columns) of a block of K in
// sequence. One a block of 128x128: those along K in sequence, and four of them or a multiple between two rows.
InvertArgs::Side inversesOf(const Tensor &scale, cublasLtMatmulMatrixScale_t mode, int64_t extent, int64_t k) {
  InvertArgs::Side side;
  side.from = reinterpret_cast<const float *>(scale.data);
  const int64_t alongExtent = scale.rank > 0 ? scale.strides[0] : 0, alongK = scale.rank == 2 ? scale.strides[1] : 0;
  const int64_t blocks = (k + scaleBlock - 1) / scaleBlock;
  switch (mode) {
  case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
    side.outer = blocks, side.inner = side.known = extent;
    side.outerStride = alongK, side.innerStride = alongExtent;
    break;
  case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
    side.outer = (extent + scaleBlock - 1) / scaleBlock, side.inner = (blocks + 3) / 4 * 4, side.known = blocks;
    side.outerStride = alongExtent, side.innerStride = alongK;
    break;
  default:
    side.outer = 1, side.inner = side.known = mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F ? extent : 1;
    side.innerStride = alongExtent;
  }
  return side;
}

// The narrowest type of the tensor cores, or FP32, that holds the values of both.
Type commonType(Type a, Type b) {
  if (isFp8(a) && isFp8(b))
    return Type::BF16;
  if (isFp8(a) || a == b)
    return isFp8(a) ? b : a;
  return isFp8(b) ? a : Type::F32;
}

} // namespace

MatMul::MatMul(CUdevice device, CUstream stream, Scratch &scratch, MatMulOptions options)
    : stream_(stream), scratch_(scratch), options_(std::move(options)),
      module_(msampFatbinMatMulParts, "kernels/MatMulParts.cu") {
  int major = 0, minor = 0, processors = 1, driver = 0;
  std::array<char, 128> name{};
  MSAMP_CU(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  MSAMP_CU(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  MSAMP_CU(cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  MSAMP_CU(cuDeviceGetName, name.data(), static_cast<int>(name.size()), device);
  MSAMP_CU(cuDriverGetVersion, &driver);
  capability_ = major * 10 + minor;
  processors_ = static_cast<unsigned>(processors);
  packKernel_ = module_.function("msampPack");
  finishKernel_ = module_.function("msampFinish");
  invertKernel_ = module_.function("msampInvert");
  MSAMP_LT(cublasLtCreate, &lt_);
  workspace_ = allocateMemory(workspaceBytes_, "cuBLASLt's workspace");
  tuning_.emplace(options_.tuningFile, fmt::format("{}, {} processors, driver {}, cuBLASLt {}", name.data(), processors,
                                                   driver, CublasLt::get().cublasLtGetVersion()));
}

MatMul::~MatMul() {
  plans_.clear();
  if (workspace_)
    Driver::get().cuMemFree(workspace_);
  if (lt_)
    CublasLt::get().cublasLtDestroy(lt_);
}

void MatMul::run(const MatMulArgs &args) {
  const Product product = productOf(args);
  if (args.amaxOut)
    MSAMP_CU(cuMemsetD32Async, reinterpret_cast<CUdeviceptr>(args.amaxOut), 0, 1, stream_);
  if (product.m == 0 || product.n == 0 || product.batches == 0)
    return;
  if (product.k == 0)
    return finish(args, product, nullptr);
  const Type a = product.a.type, b = product.b.type, wide = commonType(a, b);
  const bool fp8 = fp8Fits(product);
  // Scales on the way in are the library's for FP8 alone, as those on the way out are.
  const bool narrowOut = isFp8(args.c.type), epilogue = args.scaleOut || args.amaxOut;
  const bool vectors = args.scaled && (args.scaleA.rank > 0 || args.scaleB.rank > 0);
  // Scales of blocks are gone when their operands have been widened.
  const bool blocks = args.scaledByBlocks();
  const bool direct = (fp8 || !args.scaled || blocks) && (narrowOut || !epilogue) && !(vectors && product.batches > 1);
  if (blocks && product.batches > 1)
    failInternal("a batched product with scales of blocks");
  if (fp8 && ((direct && attempt(args, product, a, b, false)) || attempt(args, product, a, b, true)))
    return;
  if ((!args.scaled || blocks) && direct && attempt(args, product, wide, wide, false))
    return;
  if (!attempt(args, product, wide, wide, true))
    failInternal("cuBLASLt has no algorithm for a product {}x{}x{} of {} and {}", product.m, product.n, product.k,
                 nameOf(a), nameOf(b));
}

bool MatMul::fp8Fits(const Product &p) const {
  return capability_ >= 89 && isFp8(p.a.type) && isFp8(p.b.type) &&
         (p.a.type == Type::E4M3 || p.b.type == Type::E4M3) && p.m % 16 == 0 && p.n % 16 == 0 && p.k % 16 == 0;
}

// One way to compute the product: operands as these types (packed where they are of others or lie badly), the result
// written by the library or by the finishing kernel. False if the library does not take it.
bool MatMul::attempt(const MatMulArgs &args, const Product &original, Type typeA, Type typeB, bool finishing) {
  Product product = original;
  Parts parts;
  struct Packing {
    const Operand *from = nullptr;
    size_t offset = 0;
  };
  auto plan = [&](const Operand &from, Operand &to, Type type) {
    const bool lies = isFp8(type) ? fp8Ready(from) : from.kInnermost() || from.extentInnermost();
    if (from.type == type && lies)
      return Packing{};
    to.type = type;
    to.strideK = 1;
    to.strideExtent = to.k;
    int64_t stride = to.extent * to.k;
    const bool shared =
        std::all_of(from.batchStrides, from.batchStrides + product.batchDims, [](int64_t s) { return s == 0; });
    for (unsigned d = product.batchDims; d-- > 0 && !shared; stride *= product.batchShape[d])
      to.batchStrides[d] = stride;
    return Packing{&from, parts.add(static_cast<size_t>(stride) * sizeOf(type))};
  };
  const Packing packA = plan(original.a, product.a, typeA), packB = plan(original.b, product.b, typeB);
  size_t resultOffset = 0;
  if (finishing) {
    resultOffset = parts.add(static_cast<size_t>(product.batches * product.m * product.n) * sizeof(float));
    product.hasAddend = false;
    product.c.type = Type::F32;
    product.c.rowStride = product.n;
    product.c.colStride = 1;
    int64_t stride = product.m * product.n;
    for (unsigned d = product.batchDims; d-- > 0; stride *= product.batchShape[d])
      product.c.batchStrides[d] = stride;
  }

  // Inverse scales: where somebody keeps them, or in scratch.
  Epilogue epilogue;
  InvertArgs invert;
  size_t inverseOffsets[2] = {};
  const Tensor *scales[2] = {&args.scaleA, &args.scaleB};
  const float *inverses[2] = {};
  const int64_t extents[2] = {product.m, product.n};
  cublasLtMatmulMatrixScale_t modes[2] = {};
  // Scales of blocks are within the sum: the library's with FP8 operands, else divided by as they are widened.
  const bool blocks = args.scaledByBlocks(), widened = !isFp8(typeA);
  const bool scaled = blocks ? !widened : args.scaled && !finishing;
  for (int side = 0; side < 2 && scaled; ++side) {
    const Tensor &scale = *scales[side];
    modes[side] = modeOf(args, scale, extents[side]);
    const InvertArgs::Side wanted = inversesOf(scale, modes[side], extents[side], product.k);
    if (inverseOf_ && !blocks && (wanted.inner == 1 || wanted.innerStride == 1))
      inverses[side] = inverseOf_(scale);
    if (inverses[side])
      continue;
    inverseOffsets[side] = parts.add(static_cast<size_t>(wanted.outer * wanted.inner) * sizeof(float));
    invert.sides[side] = wanted;
  }
  // The library adds a bias of the result's type, and BF16 to FP8.
  size_t biasOffset = 0;
  bool packBias = false;
  if (!finishing && args.hasBias) {
    epilogue.bias = args.bias.data;
    epilogue.biasType = isFp8(args.c.type) ? Type::BF16 : args.c.type;
    packBias = args.bias.type != epilogue.biasType || args.bias.strides[0] != 1 || alignmentOf(args.bias.data, {}) < 16;
    if (packBias)
      biasOffset = parts.add(static_cast<size_t>(product.n) * sizeOf(epilogue.biasType));
  }
  if (!finishing && isFp8(args.c.type)) {
    epilogue.scaleOut = args.scaleOut;
    epilogue.amaxOut = args.amaxOut;
  }

  std::byte *base = parts.total() > 0 ? scratch_.get(parts.total()) : nullptr;
  if (packA.from)
    product.a.data = base + packA.offset;
  if (packB.from)
    product.b.data = base + packB.offset;
  if (finishing)
    product.c.data = base + resultOffset;
  for (int side = 0; side < 2; ++side)
    if (invert.sides[side].outer > 0)
      inverses[side] = invert.sides[side].to = reinterpret_cast<float *>(base + inverseOffsets[side]);

  if (packBias)
    epilogue.bias = base + biasOffset;

  Call call;
  // The library's bias is a value a row of its column-major D.
  if (!callOf(product, call) || (epilogue.bias && !call.firstIsB))
    return false;
  const int first = call.firstIsB ? 1 : 0, second = 1 - first;
  epilogue.scales = {inverses[first], inverses[second], modes[first], modes[second]};
  const std::string key = keyOf(call, epilogue);
  if (refused_.contains(key))
    return false;
  const bool dividing = blocks && widened;
  if (packA.from)
    pack(original, *packA.from, product.a.data, typeA, dividing ? &args.scaleA : nullptr);
  if (packB.from)
    pack(original, *packB.from, product.b.data, typeB, dividing ? &args.scaleB : nullptr);
  if (packBias) {
    const Operand bias = {args.bias.data, args.bias.type, 1, product.n, 0, args.bias.strides[0], {}};
    pack(original, bias, base + biasOffset, epilogue.biasType);
  }
  auto countOf = [](const InvertArgs::Side &side) { return side.outer * side.inner; };
  if (const int64_t count = std::max(countOf(invert.sides[0]), countOf(invert.sides[1])); count > 0)
    launch(stream_, invertKernel_, static_cast<unsigned>((count + 255) / 256), 1, 256, 0, invert);
  Plan *ready = planOf(key, call, epilogue);
  if (!ready)
    return false;

  const int64_t calls = product.batches / call.batches;
  for (int64_t i = 0; i < calls; ++i) {
    Call one = call;
    auto move = [&](Stored &s, const int64_t *strides) {
      s.data += outerOffset(product, strides, i) * static_cast<int64_t>(sizeOf(s.type));
    };
    move(one.first, (call.firstIsB ? product.b : product.a).batchStrides);
    move(one.second, (call.firstIsB ? product.a : product.b).batchStrides);
    move(one.d, product.c.batchStrides);
    move(one.addend, product.addend.batchStrides);
    runPlan(*ready, one);
  }
  if (finishing)
    finish(args, original, reinterpret_cast<const float *>(base + resultOffset));
  return true;
}

void MatMul::pack(const Product &product, const Operand &from, std::byte *to, Type type, const Tensor *scale) {
  PackArgs args;
  if (scale) {
    args.scale = reinterpret_cast<const float *>(scale->data);
    for (unsigned d = 0; d < scale->rank; ++d)
      args.scaleStrides[d] = scale->strides[d];
    args.rowBlock = scale->rank == 2 ? MatMulArgs::scaleExtent(*scale, from.extent) : 1;
  }
  args.shape = product.shape(from.extent, from.k);
  if (std::all_of(from.batchStrides, from.batchStrides + product.batchDims, [](int64_t s) { return s == 0; })) {
    args.shape.batchDims = 0;
    args.shape.batches = 1;
  }
  args.from = viewOf(from);
  args.to = to;
  args.toType = type;
  const int64_t tiles = (from.extent + 31) / 32 * ((from.k + 31) / 32);
  launch(stream_, packKernel_, static_cast<unsigned>(tiles),
         static_cast<unsigned>(std::min<int64_t>(args.shape.batches, 32768)), 256, 0, args);
}

void MatMul::finish(const MatMulArgs &args, const Product &product, const float *result) {
  FinishArgs finish;
  finish.shape = product.shape(product.m, product.n);
  finish.product = result;
  finish.c = viewOf(product.c);
  if (product.hasAddend)
    finish.addend = viewOf(product.addend);
  if (args.hasBias) {
    finish.bias.data = args.bias.data;
    finish.bias.type = args.bias.type;
    finish.bias.colStride = args.bias.strides[0];
  }
  if (args.scaled && !args.scaledByBlocks()) {
    finish.scaleA = reinterpret_cast<const float *>(args.scaleA.data);
    finish.scaleB = reinterpret_cast<const float *>(args.scaleB.data);
    finish.strideA = args.scaleA.rank > 0 ? args.scaleA.strides[0] : 0;
    finish.strideB = args.scaleB.rank > 0 ? args.scaleB.strides[0] : 0;
  }
  finish.scaleOut = args.scaleOut;
  finish.amaxOut = reinterpret_cast<unsigned *>(args.amaxOut);
  const int64_t count = product.batches * product.m * product.n;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((count + 255) / 256, processors_ * 16));
  launch(stream_, finishKernel_, blocks, 1, 256, 0, finish);
}

} // namespace msamp::runtime::cuda
