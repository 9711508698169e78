// An image at a time on a thread, so that the bits do not depend on the number of threads.
#include "runtime/device/cpu/Convolution.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/Error.h"
#include "runtime/device/cpu/CpuDevice.h"

namespace msamp::runtime::cpu {

namespace {

using Dims = dnnl::memory::dims;
constexpr auto f32 = dnnl::memory::data_type::f32;

// Strides of a row-major tensor [first, positions.., last] in oneDNN's order of dimensions [first, last, positions..].
Dims stridesOf(const Tensor &tensor) {
  Dims strides(tensor.rank);
  int64_t stride = 1;
  for (unsigned d = tensor.rank; d-- > 0; stride *= tensor.shape[d])
    strides[d == 0 ? 0 : d + 1 == tensor.rank ? 1 : d + 1] = stride;
  return strides;
}

Dims dimsOf(const Tensor &tensor) {
  Dims dims{tensor.shape[0], tensor.shape[tensor.rank - 1]};
  dims.insert(dims.end(), tensor.shape + 1, tensor.shape + tensor.rank - 1);
  return dims;
}

dnnl::memory::desc imageDesc(const Tensor &tensor) {
  Dims dims = dimsOf(tensor);
  dims[0] = 1;
  return {dims, f32, stridesOf(tensor)};
}

// Groups are a dimension of their own in front.
void filterDescs(const ConvArgs &args, dnnl::memory::desc &plain, dnnl::memory::desc &liked) {
  Dims dims = dimsOf(args.filter), strides = stridesOf(args.filter);
  if (args.groups > 1) {
    dims[0] /= args.groups;
    strides.insert(strides.begin(), strides[0] * dims[0]);
    dims.insert(dims.begin(), args.groups);
  }
  plain = {dims, f32, strides};
  liked = {dims, f32, dnnl::memory::format_tag::any};
}

size_t floatsOf(const dnnl::memory::desc &desc) {
  return (desc.get_size() + 63) / 64 * 16; // whole cache lines
}

// Images of one tensor as FP32: where they lie, or by way of a buffer.
struct Images {
  const VectorOps &ops;
  const Tensor &tensor;
  int64_t values = tensor.elements() / tensor.shape[0];

  size_t buffer() const { return tensor.type == Type::F32 ? 0 : (static_cast<size_t>(values) + 15) / 16 * 16; }
  std::byte *at(int64_t image) const { return tensor.data + static_cast<size_t>(image * values) * sizeOf(tensor.type); }
  const float *read(int64_t image, float *to) const {
    if (tensor.type == Type::F32)
      return reinterpret_cast<const float *>(at(image));
    ops.decode[static_cast<size_t>(tensor.type)](at(image), to, values);
    return to;
  }
  float *place(int64_t image, float *otherwise) const {
    return tensor.type == Type::F32 ? reinterpret_cast<float *>(at(image)) : otherwise;
  }
  void write(int64_t image, const float *from) const {
    if (tensor.type != Type::F32)
      ops.encode[static_cast<size_t>(tensor.type)](from, at(image), values);
  }
};

} // namespace

ImageConvolution Convolutions::make(const ConvArgs &args) const {
  const Window &w = args.window;
  const Dims strides(w.strides, w.strides + w.rank), low(w.low, w.low + w.rank);
  Dims dilates, high;
  for (unsigned d = 0; d < w.rank; ++d) {
    dilates.push_back(w.dilations[d] - 1);
    // As much padding as the last window reaches into.
    const int64_t end = (args.y.shape[d + 1] - 1) * w.strides[d] + (w.size[d] - 1) * w.dilations[d] + 1;
    high.push_back(std::max<int64_t>(0, end - w.low[d] - args.x.shape[d + 1]));
  }
  ImageConvolution c;
  c.image = imageDesc(args.x);
  c.windows = imageDesc(args.y);
  dnnl::memory::desc liked;
  filterDescs(args, c.plainFilter, liked);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  using Forward = dnnl::convolution_forward;
  const Forward::primitive_desc forward({dnnl::prop_kind::forward_training, direct, c.image, liked, c.windows, strides, dilates,
                                            low, high}, attributes, engine_);
  auto keep = [&](const auto &desc, auto primitive, const dnnl::memory::desc &filter) {
    c.primitive = primitive;
    c.filter = filter;
    c.scratchpad = desc.scratchpad_desc();
  };
  if (args.pass == ConvPass::Forward) {
    keep(forward, Forward(forward), forward.weights_desc());
  } else if (args.pass == ConvPass::ImageGradient) {
    using Backward = dnnl::convolution_backward_data;
    const Backward::primitive_desc backward({direct, c.image, liked, c.windows, strides, dilates, low, high}, attributes, engine_,
        forward);
    keep(backward, Backward(backward), backward.weights_desc());
  } else {
    using Backward = dnnl::convolution_backward_weights;
    const Backward::primitive_desc backward({direct, c.image, liked, c.windows, strides, dilates, low, high}, attributes, engine_,
        forward);
    keep(backward, Backward(backward), backward.diff_weights_desc());
  }
  const bool out = args.pass == ConvPass::FilterGradient;
  c.reorderFilter = dnnl::reorder(dnnl::reorder::primitive_desc(engine_, out ? c.filter : c.plainFilter, engine_,
      out ? c.plainFilter : c.filter));
  return c;
}

const ImageConvolution &Convolutions::prepared(const ConvArgs &args) {
  std::vector<int64_t> key{static_cast<int64_t>(args.pass), args.groups};
  for (const Tensor *tensor : {&args.x, &args.filter, &args.y})
    key.insert(key.end(), tensor->shape + 1, tensor->shape + tensor->rank);
  for (const int64_t *list : {args.window.strides, args.window.low, args.window.dilations})
    key.insert(key.end(), list, list + args.window.rank);
  auto known = known_.find(key);
  if (known == known_.end()) {
    try {
      known = known_.emplace(std::move(key), make(args)).first;
    } catch (const dnnl::error &error) {
      failInternal("oneDNN refused a convolution: {}", error.message);
    }
  }
  return known->second;
}

void Convolutions::run(const dnnl::primitive &primitive, const std::unordered_map<int, dnnl::memory> &arguments) const {
  dnnl::stream stream(engine_);
  primitive.execute(stream, arguments);
  stream.wait();
}

void CpuDevice::conv(const ConvArgs &args) {
  if (!convolutions_)
    convolutions_ = std::make_unique<Convolutions>();
  Convolutions &library = *convolutions_;
  const ImageConvolution *found = nullptr;
  pool_.run(1, [&](int64_t, unsigned) { found = &library.prepared(args); });
  const ImageConvolution &c = *found;
  const int64_t images = args.x.shape[0], values = args.filter.elements();
  const size_t filterFloats = floatsOf(c.filter), scratchFloats = floatsOf(c.scratchpad);
  const Images x{ops_, args.x}, y{ops_, args.y};
  auto decodeFilter = [&](std::vector<float> &wide) -> const float * {
    if (args.filter.type == Type::F32)
      return reinterpret_cast<const float *>(args.filter.data);
    wide.resize(static_cast<size_t>(values));
    decode(args.filter.type, args.filter.data, wide.data(), values);
    return wide.data();
  };

  if (args.pass != ConvPass::FilterGradient) {
    const bool forward = args.pass == ConvPass::Forward;
    const Images &from = forward ? x : y, &to = forward ? y : x;
    std::vector<float> wide, liked(filterFloats);
    const float *plain = decodeFilter(wide);
    pool_.run(1, [&](int64_t, unsigned) {
      library.run(c.reorderFilter, {{DNNL_ARG_FROM, library.memory(c.plainFilter, plain)},
                                       {DNNL_ARG_TO, library.memory(c.filter, liked.data())}});
    });
    pool_.run(images, [&](int64_t image, unsigned thread) {
      float *scratch = scratch_[thread].get(scratchFloats + from.buffer() + to.buffer() + 16);
      const float *source = from.read(image, scratch + scratchFloats);
      float *target = to.place(image, scratch + scratchFloats + from.buffer());
      library.run(c.primitive, {{forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, library.memory(c.image, forward ? source : target)},
                                   {DNNL_ARG_WEIGHTS, library.memory(c.filter, liked.data())},
                                   {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
                                       library.memory(c.windows, forward ? target : source)},
                                   {DNNL_ARG_SCRATCHPAD, library.memory(c.scratchpad, scratch)}});
      to.write(image, target);
    });
    return;
  }

  // Gradients of runs of images, then their sum in the order of the runs; how many depends on the shapes alone.
  constexpr size_t mostFloats = size_t{16} << 20;
  const int64_t runs = std::clamp<int64_t>(static_cast<int64_t>(mostFloats / filterFloats), 1, std::min<int64_t>(images, 16));
  const size_t plainFloats = (static_cast<size_t>(values) + 15) / 16 * 16;
  std::vector<float> partial(static_cast<size_t>(runs) * plainFloats);
  pool_.run(runs, [&](int64_t run, unsigned thread) {
    float *scratch = scratch_[thread].get(scratchFloats + 2 * filterFloats + x.buffer() + y.buffer() + 16);
    float *sum = scratch + scratchFloats, *one = sum + filterFloats, *xBuffer = one + filterFloats, *yBuffer = xBuffer + x.buffer();
    const int64_t first = run * images / runs, end = (run + 1) * images / runs;
    for (int64_t image = first; image < end; ++image) {
      float *target = image == first ? sum : one;
      library.run(c.primitive, {{DNNL_ARG_SRC, library.memory(c.image, x.read(image, xBuffer))},
                                   {DNNL_ARG_DIFF_DST, library.memory(c.windows, y.read(image, yBuffer))},
                                   {DNNL_ARG_DIFF_WEIGHTS, library.memory(c.filter, target)},
                                   {DNNL_ARG_SCRATCHPAD, library.memory(c.scratchpad, scratch)}});
      if (image > first)
        ops_.add(sum, one, static_cast<int64_t>(c.filter.get_size() / sizeof(float)));
    }
    library.run(c.reorderFilter, {{DNNL_ARG_FROM, library.memory(c.filter, sum)},
                                     {DNNL_ARG_TO, library.memory(c.plainFilter, partial.data() + static_cast<size_t>(run) * plainFloats)}});
  });
  constexpr int64_t piece = 16384;
  pool_.run((values + piece - 1) / piece, [&](int64_t i, unsigned) {
    const int64_t begin = i * piece, count = std::min(piece, values - begin);
    float *sum = partial.data() + begin;
    for (int64_t run = 1; run < runs; ++run)
      ops_.add(sum, partial.data() + static_cast<size_t>(run) * plainFloats + begin, count);
    encode(args.filter.type, sum, args.filter.data + static_cast<size_t>(begin) * sizeOf(args.filter.type), count);
  });
}

} // namespace msamp::runtime::cpu
