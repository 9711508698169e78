// A plan is written beside its place under another name and renamed when it is whole.
#include "codegen/PlanDirectory.h"

#include "codegen/KernelFiles.h"
#include "codegen/ModelCopy.h"
#include "runtime/core/Error.h"
#include "runtime/core/Safetensors.h"
#include "runtime/plan/PlanIO.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>
#include <unistd.h>

namespace msamp::codegen {
using namespace mlir;
using runtime::failInternal, runtime::failIo;
namespace fs = std::filesystem;

namespace {

fs::path parentOf(const fs::path &path) {
  return path.parent_path().empty() ? fs::path(".") : path.parent_path();
}

bool isPlanOrEmpty(const fs::path &path) {
  std::error_code error;
  return fs::is_directory(path, error) && (fs::exists(path / "plan.pb", error) || fs::is_empty(path, error));
}

fs::path checkedTarget(fs::path target) {
  std::error_code error;
  if (target.filename().empty())
    target = target.parent_path();
  fs::path parent = parentOf(target);
  if (!fs::is_directory(parent, error))
    failIo("cannot write {}: {} is no directory; create it first", target.string(), parent.string());
  if (fs::exists(fs::symlink_status(target, error)) && !isPlanOrEmpty(target))
    failIo("cannot write {}: it is there and is no plan; remove it or give another -o", target.string());
  if (access(parent.c_str(), W_OK | X_OK) != 0)
    failIo("cannot write {}: no permission to create it in {}", target.string(), parent.string());
  return target;
}

// A new directory beside the target, locked while it is written; gone again unless it is committed.
class StagedDirectory {
public:
  explicit StagedDirectory(const fs::path &where) : target(checkedTarget(where)) {
    const std::string prefix = "." + target.filename().string() + ".msampc-", pattern = "XXXXXX";
    removeAbandoned(prefix, prefix.size() + pattern.size());
    std::string name = (parentOf(target) / (prefix + pattern)).string();
    if (!mkdtemp(name.data()))
      failIo("cannot write {}: {}", target.string(), std::strerror(errno));
    staged = name;
    lock = lockOf(staged);
    std::error_code error;
    fs::permissions(staged, fs::perms(0755), error);
  }
  ~StagedDirectory() {
    std::error_code error;
    if (!staged.empty())
      fs::remove_all(staged, error);
    if (lock >= 0)
      close(lock);
  }
  StagedDirectory(const StagedDirectory &) = delete;
  StagedDirectory &operator=(const StagedDirectory &) = delete;

  const fs::path &path() const { return staged; }

  void commit() {
    std::error_code error;
    // Both change places at once: whoever is killed leaves the old plan or the new one. The old one is staged then.
    if (renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
      return;
    fs::path old;
    if (fs::exists(target, error)) { // on a file system without that
      old = staged.string() + ".old";
      fs::rename(target, old, error);
      if (error)
        failIo("cannot replace {}: {}", target.string(), error.message());
    }
    fs::rename(staged, target, error);
    if (error) {
      std::error_code ignored;
      if (!old.empty())
        fs::rename(old, target, ignored);
      failIo("cannot write {}: {}", target.string(), error.message());
    }
    staged.clear();
    if (!old.empty())
      fs::remove_all(old, error);
  }

private:
  // Held until the process ends, however it does; -1: somebody has it, or there are no locks here.
  static int lockOf(const fs::path &folder) {
    int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
      close(file);
      return -1;
    }
    return file;
  }

  // What compilers that were killed left of this target. One that starts now has no lock yet.
  void removeAbandoned(const std::string &prefix, size_t length) {
    const auto old = fs::file_time_type::clock::now() - std::chrono::minutes(1);
    std::error_code error;
    for (fs::directory_iterator it(parentOf(target), error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      std::error_code ignored;
      if (name.size() != length || name.rfind(prefix, 0) != 0 || !it->is_directory(ignored) ||
          it->last_write_time(ignored) > old)
        continue;
      if (int file = lockOf(it->path()); file >= 0) {
        fs::remove_all(it->path(), ignored);
        close(file);
      }
    }
  }

  fs::path target, staged;
  int lock = -1;
};

void makeFolder(const fs::path &path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error)
    failIo("cannot create {}: {}", path.string(), error.message());
}

void stopIfCancelled(const PlanOptions &options) {
  if (options.cancelled && options.cancelled())
    runtime::fail(runtime::Exit::TryAgain, "interrupted; nothing was written");
}

// A constant's bytes in row-major order as the plan stores them.
void writeValue(std::ostream &out, ElementsAttr attr, uint64_t bytes) {
  auto raw = dyn_cast<DenseElementsAttr>(attr);
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr)) {
    ArrayRef<char> data = resource.getData();
    if (data.size() != bytes)
      failInternal("a constant has {} bytes for a shape of {}", data.size(), bytes);
    out.write(data.data(), static_cast<std::streamsize>(bytes));
    return;
  }
  if (!raw)
    failInternal("a constant has values of an unknown kind");
  ArrayRef<char> data = raw.getRawData();
  if (attr.getShapedType().getElementType().isInteger(1)) { // packed in MLIR, a byte each in a plan
    for (bool value : raw.getValues<bool>())
      out.put(value ? 1 : 0);
  } else if (raw.isSplat()) {
    for (uint64_t i = 0; i < bytes; i += data.size())
      out.write(data.data(), static_cast<std::streamsize>(data.size()));
  } else {
    out.write(data.data(), static_cast<std::streamsize>(data.size()));
  }
}

void writeConstants(ModuleOp module, const plan::Target &target, const fs::path &path) {
  std::ofstream out(path, std::ios::binary);
  int index = 0;
  for (auto op : module.getOps<planir::ConstantOp>()) {
    const plan::Constant &constant = target.constants(index++);
    while (static_cast<uint64_t>(out.tellp()) < constant.offset())
      out.put(0);
    writeValue(out, op.getValue(), constant.bytes());
  }
  if (!out.flush())
    failIo("cannot write {}", path.string());
}

void writeWeights(const plan::Plan &plan, const PlanOptions &options, const fs::path &path) {
  if (!options.weights)
    failInternal("the plan needs weights from the model, which is not at hand");
  runtime::SafetensorsWriter writer(path);
  std::vector<const plan::Parameter *> stored;
  for (const plan::Parameter &parameter : plan.parameters())
    if (parameter.init() == plan::Parameter::FROM_FILE)
      stored.push_back(&parameter);
  for (const plan::Parameter *parameter : stored)
    writer.declare(parameter->name(), runtime::Type::F32, {parameter->shape().begin(), parameter->shape().end()});
  std::vector<float> values;
  for (const plan::Parameter *parameter : stored) {
    stopIfCancelled(options);
    llvm::ArrayRef<float> data = options.weights->read(parameter->name(), values);
    uint64_t expected = 1;
    for (int64_t size : parameter->shape())
      expected *= static_cast<uint64_t>(size);
    if (data.size() != expected)
      runtime::failData("initializer {} has {} float values for {} that its shape needs", parameter->name(),
                        data.size(), expected);
    writer.writeFloats({data.data(), data.size()});
  }
  writer.commit();
}

} // namespace

void checkDirectory(const std::string &directory) {
  checkedTarget(directory);
}

plan::Plan writePlan(ArrayRef<TargetModule> modules, const std::string &directory, const PlanOptions &options) {
  plan::Plan plan = buildPlan(modules);
  plan.set_compiler(options.compiler);
  plan.set_pipeline(options.pipeline);
  StagedDirectory staged(directory);
  makeFolder(staged.path() / "kernels");
  makeFolder(staged.path() / "weights");
  for (auto [i, from] : llvm::enumerate(modules)) {
    plan::Target &target = *plan.mutable_targets(static_cast<int>(i));
    if (options.compiling)
      options.compiling(from.target);
    writeKernels(from.module, plan, target, options, staged.path());
    if (target.constants_size() == 0)
      continue;
    const std::string constants = runtime::constantsPath(target);
    writeConstants(from.module, target, staged.path() / constants);
    runtime::addPart(plan, staged.path(), constants);
  }
  auto fromFile = [](const plan::Parameter &p) { return p.init() == plan::Parameter::FROM_FILE; };
  if (std::any_of(plan.parameters().begin(), plan.parameters().end(), fromFile)) {
    writeWeights(plan, options, staged.path() / "weights/weights.safetensors");
    runtime::addPart(plan, staged.path(), "weights/weights.safetensors");
  }
  if (!plan.source().empty()) {
    copyGraph(plan.source(), (staged.path() / "model.onnx").string());
    runtime::addPart(plan, staged.path(), "model.onnx");
  }
  runtime::savePlan(staged.path(), plan);
  stopIfCancelled(options);
  staged.commit();
  return plan;
}

} // namespace msamp::codegen
