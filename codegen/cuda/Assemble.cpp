// PTX to a cubin by the toolkit's assembler, where one is installed.
#include "codegen/cuda/CudaKernels.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <cstdlib>

using namespace mlir;

namespace msamp::codegen::cuda {

std::string findAssembler() {
  if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *root = std::getenv(variable); root && *root)
      if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ptxas", {std::string(root) + "/bin"}))
        return *found;
  if (llvm::ErrorOr<std::string> found =
          llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin", "/opt/cuda/bin"}))
    return *found;
  return "";
}

// "... 0 bytes spill stores": the number before `unit`, 0 if it is not there.
static int64_t numberBefore(StringRef line, StringRef unit) {
  StringRef before = line.substr(0, line.find(unit)).rtrim();
  int64_t value = 0;
  if (before.size() == line.size() || before.substr(before.find_last_of(" ,") + 1).getAsInteger(10, value))
    return 0;
  return value;
}

static void parseUsage(StringRef text, std::vector<EntryUsage> &usage) {
  for (StringRef rest = text; !rest.empty();) {
    StringRef line;
    std::tie(line, rest) = rest.split('\n');
    if (size_t at = line.find("entry function '"); at != StringRef::npos)
      usage.push_back({line.substr(at + 16).split('\'').first.str()});
    if (usage.empty())
      continue;
    if (line.contains(" spill stores"))
      usage.back().spillBytes = numberBefore(line, "bytes spill stores") + numberBefore(line, "bytes spill loads");
    if (size_t at = line.find("Used "); at != StringRef::npos) {
      usage.back().registers = numberBefore(line, "registers");
      usage.back().sharedBytes = numberBefore(line, "bytes smem");
    }
  }
}

LogicalResult assemble(const std::string &assembler, const Target &target, const std::string &ptx,
                       const std::string &cubin, std::vector<EntryUsage> &usage, std::string &message) {
  std::string log = cubin + ".log", arch = "-arch=" + target.name;
  SmallVector<StringRef> args = {assembler, "-v", arch, ptx, "-o", cubin};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log), StringRef(log)};
  std::string error;
  int code = llvm::sys::ExecuteAndWait(assembler, args, std::nullopt, redirects, 0, 0, &error);
  std::string said;
  if (auto text = llvm::MemoryBuffer::getFile(log))
    said = (*text)->getBuffer().str();
  llvm::sys::fs::remove(log);
  if (code != 0) {
    llvm::sys::fs::remove(cubin);
    message = error.empty() ? said : error;
    return failure();
  }
  parseUsage(said, usage);
  return success();
}

} // namespace msamp::codegen::cuda
