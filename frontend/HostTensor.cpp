#include "frontend/HostTensor.h"

#include "frontend/ElementType.h"
#include "frontend/Error.h"
#include "frontend/HostElements.h"

#include <algorithm>
#include <cstring>

namespace msamp::frontend {

int64_t countElements(const Dims &dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    if (__builtin_mul_overflow(n, d, &n))
      throw Invalid("a tensor of shape " + printDims(dims) + " has too many elements");
  return n;
}

std::string printDims(const Dims &dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    s += (i ? ", " : "") + std::to_string(dims[i]);
  return s + "]";
}

Dims rowMajorStrides(const Dims &dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i])
    strides[i] = stride;
  return strides;
}

Host makeHost(int type, Dims dims, const std::function<void(char *)> &fill) {
  auto t = std::make_shared<HostTensor>();
  t->type = type;
  t->dims = std::move(dims);
  // Far beyond any mask, and what a wrong shape easily asks for.
  constexpr int64_t kMostElements = int64_t(1) << 32;
  if (t->size() < 0 || t->size() > kMostElements)
    throw Invalid("a constant of shape " + printDims(t->dims) + " is too large to be computed while compiling");
  t->bytes = t->size() * elementSize(type);
  std::shared_ptr<char[]> buffer(new char[std::max<size_t>(t->bytes, 1)]);
  fill(buffer.get());
  t->data = buffer.get();
  t->owner = buffer;
  return t;
}

Host hostFromInts(int type, Dims dims, const std::vector<int64_t> &values) {
  return makeHost(type, std::move(dims), [&](char *p) { storeElements(type, values, p); });
}

Host hostFromDoubles(int type, Dims dims, const std::vector<double> &values) {
  return makeHost(type, std::move(dims), [&](char *p) { storeElements(type, values, p); });
}

std::vector<int64_t> intsOf(const HostTensor &t) {
  return loadElements<int64_t>(t);
}
std::vector<double> doublesOf(const HostTensor &t) {
  return loadElements<double>(t);
}

bool allEqual(const HostTensor &t) {
  size_t size = elementSize(t.type);
  // Each element equals its predecessor.
  return t.bytes > 0 && std::memcmp(t.data, t.data + size, t.bytes - size) == 0;
}

namespace host {

Host reshape(const HostTensor &x, const Dims &dims) {
  auto t = std::make_shared<HostTensor>(x);
  t->dims = dims;
  return t;
}

namespace {
template <class T>
void copyStrided(const T *src, T *&dst, const Dims &dims, const Dims &strides, size_t d) {
  if (d == dims.size()) {
    *dst++ = *src;
    return;
  }
  if (d + 1 == dims.size()) {
    int64_t n = dims[d], s = strides[d];
    if (s == 1)
      std::memcpy(dst, src, n * sizeof(T));
    else if (s == 0)
      std::fill_n(dst, n, *src);
    else
      for (int64_t i = 0; i < n; ++i)
        dst[i] = src[i * s];
    dst += n;
    return;
  }
  for (int64_t i = 0; i < dims[d]; ++i)
    copyStrided(src + i * strides[d], dst, dims, strides, d + 1);
}

template <class F>
void withWord(int type, F f) {
  switch (elementSize(type)) {
  case 1:
    f(uint8_t());
    break;
  case 2:
    f(uint16_t());
    break;
  case 4:
    f(uint32_t());
    break;
  default:
    f(uint64_t());
    break;
  }
}
} // namespace

Host strided(const HostTensor &x, const Dims &dims, const Dims &strides, int64_t offset) {
  return makeHost(x.type, dims, [&](char *p) {
    if (!countElements(dims))
      return;
    withWord(x.type, [&](auto word) {
      using T = decltype(word);
      T *dst = reinterpret_cast<T *>(p);
      copyStrided(reinterpret_cast<const T *>(x.data) + offset, dst, dims, strides, 0);
    });
  });
}

Host concat(const std::vector<Host> &xs, int64_t axis) {
  Dims dims = xs[0]->dims;
  dims[axis] = 0;
  for (const auto &x : xs)
    dims[axis] += x->dims[axis];
  int64_t outer = countElements(Dims(dims.begin(), dims.begin() + axis));
  return makeHost(xs[0]->type, dims, [&](char *p) {
    for (int64_t o = 0; o < outer; ++o)
      for (const auto &x : xs) {
        size_t chunk = x->bytes / std::max<int64_t>(outer, 1);
        if (chunk)
          std::memcpy(p, x->data + o * chunk, chunk);
        p += chunk;
      }
  });
}

Host gather(const HostTensor &x, const HostTensor &indices, int64_t axis) {
  Dims dims(x.dims.begin(), x.dims.begin() + axis);
  int64_t outer = countElements(dims), n = x.dims[axis];
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
  size_t chunk = elementSize(x.type);
  for (size_t d = axis + 1; d < x.dims.size(); ++d)
    chunk *= x.dims[d];
  auto at = intsOf(indices);
  return makeHost(x.type, dims, [&](char *p) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i : at) {
        std::memcpy(p, x.data + (o * n + (i < 0 ? i + n : i)) * chunk, chunk);
        p += chunk;
      }
  });
}

Host pad(const HostTensor &x, const Dims &low, const Dims &dims, double value) {
  return makeHost(x.type, dims, [&](char *p) {
    storeElements(x.type, std::vector<double>(countElements(dims), value), p);
    int64_t size = elementSize(x.type), rank = dims.size();
    if (!x.bytes)
      return;
    Dims index(rank, 0), strides = rowMajorStrides(dims);
    for (int64_t e = 0, n = x.size(); e < n; ++e) {
      int64_t at = 0;
      for (int64_t d = 0; d < rank; ++d)
        at += (index[d] + low[d]) * strides[d];
      std::memcpy(p + at * size, x.data + e * size, size);
      for (int64_t d = rank; d-- > 0 && ++index[d] == x.dims[d];)
        index[d] = 0;
    }
  });
}

Host compress(const HostTensor &x) {
  Dims dims = x.dims, strides = rowMajorStrides(x.dims);
  int64_t outer = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    size_t chunk = x.bytes;
    for (size_t i = 0; i <= d; ++i)
      chunk /= std::max<int64_t>(x.dims[i], 1);
    bool repeats = x.dims[d] > 1;
    for (int64_t o = 0; o < outer && repeats; ++o) {
      // Slices are equal when each equals the one before it.
      const char *block = x.data + o * chunk * x.dims[d];
      repeats = std::memcmp(block, block + chunk, chunk * (x.dims[d] - 1)) == 0;
    }
    if (repeats)
      dims[d] = 1;
    outer *= x.dims[d];
  }
  if (dims == x.dims)
    return std::make_shared<HostTensor>(x);
  return strided(x, dims, strides, 0);
}

} // namespace host
} // namespace msamp::frontend
