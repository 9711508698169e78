// Binds files to inputs and cuts windows.
#include "runtime/data/Loader.h"

#include "runtime/core/Error.h"
#include "runtime/data/ForRows.h"
#include "runtime/data/InputCopy.h"
#include "runtime/data/Sampler.h"

#include <algorithm>
#include <filesystem>

namespace msamp::data {
using namespace runtime;

DataSource parseDataSource(const std::string &text) {
  std::error_code ignored;
  size_t equals = text.find('=');
  if (equals == std::string::npos || std::filesystem::exists(text, ignored))
    return {"", text};
  if (equals == 0 || equals + 1 == text.size())
    failUsage("--data {}: expected FILE or NAME=FILE", text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

static std::string extensionOf(const std::string &path) {
  return std::filesystem::path(path).extension().string();
}

static void checkReadable(const std::string &path) {
  std::error_code error;
  auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    failIo("{}: no such file; --data wants one that exists", path);
  if (std::filesystem::is_directory(status))
    failIo("{}: is a folder; --data wants a file", path);
}

Loader::Loader(const plan::Plan &plan, const LoaderOptions &options) : plan(plan), seed(options.seed) {
  for (int i = 0; i < plan.inputs_size(); ++i)
    if (plan.inputs(i).is_labels())
      labels = i;
  // The rows of a micro-batch are the leading extent of what the loss compares with, else of the first input.
  const auto &leader = plan.inputs_size() > 0 ? plan.inputs(std::max(labels, 0)) : plan::Input::default_instance();
  if (leader.shape_size() > 0)
    batch = static_cast<uint64_t>(leader.shape(0));

  bool labelsNamed =
      labels >= 0 && std::any_of(options.sources.begin(), options.sources.end(),
                                 [&](const DataSource &source) { return source.input == plan.inputs(labels).name(); });
  // Named sources first: a bare file then feeds the labels only when nothing else does.
  for (bool named : {true, false})
    for (const DataSource &source : options.sources) {
      if (source.input.empty() == named)
        continue;
      checkReadable(source.path);
      std::string extension = extensionOf(source.path);
      if (extension == ".safetensors") {
        auto reader = std::make_shared<SafetensorsReader>(source.path);
        if (named) {
          unsigned input = inputNamed(source.input);
          bindArray(fromSafetensors(reader, source.input), input);
          continue;
        }
        bool any = false;
        for (int i = 0; i < plan.inputs_size(); ++i)
          if (reader->find(plan.inputs(i).name()) && !bound(static_cast<unsigned>(i))) {
            bindArray(fromSafetensors(reader, plan.inputs(i).name()), static_cast<unsigned>(i));
            any = true;
          }
        if (!any) {
          std::vector<std::string> there, wanted;
          for (const auto &[name, view] : reader->tensors())
            there.push_back(name);
          for (int i = 0; i < plan.inputs_size(); ++i)
            if (!bound(static_cast<unsigned>(i)))
              wanted.push_back(plan.inputs(i).name());
          failData("{}: none of its tensors ({}) has the name of an input without data ({}); rename them", source.path,
                   fmt::join(there, ", "), fmt::join(wanted, ", "));
        }
      } else if (extension == ".npy") {
        if (!named)
          failUsage("--data {}: an array needs the input that it is for: --data NAME={}", source.path, source.path);
        bindArray(openNpy(source.path), inputNamed(source.input));
      } else if (extension == ".npz" || extension == ".pt" || extension == ".pth" || extension == ".pkl") {
        failUsage("--data {}: {} files are not read; write arrays as .npy or .safetensors", source.path, extension);
      } else {
        unsigned input = named ? inputNamed(source.input) : tokenInput();
        bindTokens(source.path, extension == ".bin" ? options.binType : TokenType::U8, input, !labelsNamed);
      }
    }

  if (options.randomRest) {
    bindRandom();
    return;
  }
  for (int i = 0; i < plan.inputs_size(); ++i)
    if (!bound(static_cast<unsigned>(i)))
      failUsage("{} has no data: give --data {}=FILE ({})", describe(plan.inputs(i)), plan.inputs(i).name(),
                isTokenShaped(static_cast<unsigned>(i)) ? ".npy, .safetensors or tokens" : ".npy or .safetensors");
}

unsigned Loader::inputNamed(const std::string &name) const {
  std::vector<std::string> names;
  for (int i = 0; i < plan.inputs_size(); ++i) {
    if (plan.inputs(i).name() == name) {
      if (bound(static_cast<unsigned>(i)))
        failUsage("--data: input \"{}\" was given data twice", name);
      return static_cast<unsigned>(i);
    }
    names.push_back(plan.inputs(i).name());
  }
  failUsage("--data: the plan has no input \"{}\"; it has: {}", name, fmt::join(names, ", "));
}

bool Loader::isTokenShaped(unsigned input) const {
  const auto &in = plan.inputs(static_cast<int>(input));
  auto type = static_cast<Type>(in.type());
  return (type == Type::I64 || type == Type::I32) && in.shape_size() == 2;
}

bool Loader::readsTokens() const {
  for (int i = 0; i < plan.inputs_size(); ++i)
    if (i != labels && isTokenShaped(static_cast<unsigned>(i)))
      return labels < 0 || plan.inputs(labels).shape_size() != 1; // a label a sequence: samples are what is counted
  return false;
}

// The input that tokens without a name are for: the one integer input of shape [rows, length] that looks something up.
unsigned Loader::tokenInput() const {
  std::vector<unsigned> lookups, others;
  for (int i = 0; i < plan.inputs_size(); ++i) {
    auto input = static_cast<unsigned>(i);
    if (i == labels || bound(input) || !isTokenShaped(input))
      continue;
    (plan.inputs(i).bound() > 0 ? lookups : others).push_back(input);
  }
  const auto &candidates = lookups.empty() ? others : lookups;
  if (candidates.size() == 1)
    return candidates.front();
  if (candidates.empty())
    failUsage("--data: no input of the plan takes tokens (an integer input of shape [rows, length] without data); give "
              "--data NAME=FILE");
  std::vector<std::string> names;
  for (unsigned input : candidates)
    names.push_back(plan.inputs(static_cast<int>(input)).name());
  failUsage("--data: several inputs could take the tokens ({}); say which: --data NAME=FILE", fmt::join(names, ", "));
}

bool Loader::bound(unsigned input) const {
  return std::any_of(tokens.begin(), tokens.end(), [&](const auto &b) { return b.input == input; }) ||
         std::any_of(arrays.begin(), arrays.end(), [&](const auto &b) { return b.input == input; });
}

void Loader::bindTokens(const std::string &path, TokenType type, unsigned input, bool withLabels) {
  const auto &in = plan.inputs(static_cast<int>(input));
  if (!isTokenShaped(input))
    failData("{}: tokens ({}) fit only integer inputs of shape [rows, length]; give an array (.npy or .safetensors)",
             describe(in), path);
  TokenFile file(path, type);
  auto length = static_cast<uint64_t>(in.shape(1));
  bool shifted = withLabels && labels >= 0 && static_cast<unsigned>(labels) != input &&
                 !bound(static_cast<unsigned>(labels)) && shapeOf(plan.inputs(labels)) == shapeOf(in);
  uint64_t window = length + (shifted ? 1 : 0);
  if (file.size() < window)
    failData("{}: a window needs {} tokens ({} and {}), {} has {}", describe(in), window, length,
             shifted ? "the one after them" : "no more", path, file.size());
  uint64_t starts = file.size() - window + 1;
  if (windows != 0 && windows != starts)
    failData(
        "{}: {} has {} places to cut a window from, the token file before it {}: files that are read together must "
        "be equally long",
        describe(in), path, starts, windows);
  windows = starts;
  file.scan(in);
  if (shifted)
    file.scan(plan.inputs(labels));
  auto number = static_cast<unsigned>(files.size());
  files.push_back(std::move(file));
  tokens.push_back({input, number, 0});
  if (shifted)
    tokens.push_back({static_cast<unsigned>(labels), number, 1});
}

void Loader::bindRandom() {
  for (int i = 0; i < plan.inputs_size(); ++i) {
    const auto input = static_cast<unsigned>(i);
    if (bound(input))
      continue;
    RandomInput random{input, input, 0};
    // Labels of tokens are the tokens one position on, as they are in files.
    if (i == labels && isTokenShaped(input))
      for (int j = 0; j < plan.inputs_size(); ++j)
        if (j != i && isTokenShaped(static_cast<unsigned>(j)) && plan.inputs(j).bound() > 0 &&
            plan.inputs(j).bound() <= plan.inputs(i).bound() && shapeOf(plan.inputs(j)) == shapeOf(plan.inputs(i)))
          random = {input, static_cast<unsigned>(j), 1};
    randoms.push_back(random);
  }
}

void Loader::bindArray(Array array, unsigned input) {
  const auto &in = plan.inputs(static_cast<int>(input));
  std::vector<int64_t> expected = shapeOf(in);
  checkType(in, array);
  bool sampled = !expected.empty() && static_cast<uint64_t>(expected[0]) == batch;
  bool fits = array.shape.size() == expected.size();
  for (size_t i = sampled ? 1 : 0; fits && i < expected.size(); ++i)
    fits = array.shape[i] == expected[i];
  if (!fits) {
    std::string wanted = shapeText(expected);
    if (sampled)
      wanted = fmt::format("[samples{}{}]", expected.size() > 1 ? ", " : "",
                           fmt::join(expected.begin() + 1, expected.end(), ", "));
    failData("{}: expected an array of shape {}, found {} in {}", describe(in), wanted, shapeText(array.shape),
             array.where);
  }
  if (sampled) {
    auto count = static_cast<uint64_t>(array.shape[0]);
    if (count == 0)
      failData("{}: {} has no samples", describe(in), array.where);
    if (samples != 0 && samples != count)
      failData("{}: {} has {} samples, the array before it {}: arrays that are read together must have the same number",
               describe(in), array.where, count, samples);
    samples = count;
  }
  constexpr int64_t scanLimit = 64ll << 20;
  if (array.elements() * static_cast<int64_t>(sizeOf(array.element)) <= scanLimit)
    checkRange(in, array, 0, array.elements());
  arrays.push_back({input, std::move(array), sampled});
}

void Loader::fill(uint64_t step, uint64_t microBatch, uint64_t microBatches,
                  const std::function<void *(unsigned)> &destination) const {
  for (const TokenBinding &binding : tokens) {
    const auto &in = plan.inputs(static_cast<int>(binding.input));
    auto length = static_cast<uint64_t>(in.shape(1));
    auto *out = static_cast<std::byte *>(destination(binding.input));
    for (uint64_t row = 0; row < static_cast<uint64_t>(in.shape(0)); ++row) {
      uint64_t start = drawSample(seed, sampleNumber(step, microBatches, microBatch, batch, row), windows);
      files[binding.file].copy(in, start + binding.shift, length,
                               out + row * length * sizeOf(static_cast<Type>(in.type())));
    }
  }
  for (const ArrayBinding &binding : arrays) {
    const auto &in = plan.inputs(static_cast<int>(binding.input));
    auto *out = static_cast<std::byte *>(destination(binding.input));
    if (!binding.sampled) {
      copyElements(in, binding.array, 0, binding.array.elements(), out);
      continue;
    }
    const int64_t size = binding.array.elements() / binding.array.shape[0];
    const uint64_t bytes = static_cast<uint64_t>(size) * sizeOf(static_cast<Type>(in.type()));
    forRows(batch, batch * bytes, [&](uint64_t row) {
      uint64_t sample = drawSample(seed, sampleNumber(step, microBatches, microBatch, batch, row), samples);
      copyElements(in, binding.array, static_cast<int64_t>(sample) * size, size, out + row * bytes);
    });
  }
  for (const RandomInput &random : randoms) {
    void *out = destination(random.input);
    forRows(batch, random.elements(plan) * sizeof(float), [&](uint64_t row) {
      random.fillRow(plan, seed, sampleNumber(step, microBatches, microBatch, batch, row), row, batch, out);
    });
  }
}

std::string Loader::summary() const {
  std::string text;
  for (const TokenFile &file : files)
    text += fmt::format("{}{}: {} tokens", text.empty() ? "" : ", ", file.path(), file.size());
  for (const ArrayBinding &binding : arrays)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", binding.array.where, shapeText(binding.array.shape));
  for (const RandomInput &random : randoms)
    text += fmt::format("{}{}: random", text.empty() ? "" : ", ", plan.inputs(static_cast<int>(random.input)).name());
  return text;
}

} // namespace msamp::data
