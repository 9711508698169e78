// What msampc says on the terminal: errors with the ONNX nodes at fault, remarks, progress.
#ifndef MSAMP_TOOLS_MSAMPC_DIAGNOSTICS_H
#define MSAMP_TOOLS_MSAMPC_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <chrono>
#include <memory>
#include <string>

namespace msamp::msampc {

// Prints diagnostics as `msampc: error: node 'NAME': message` on stderr while it lives.
class DiagnosticPrinter {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext &context);
  unsigned errors() const { return count; }

private:
  unsigned count = 0;
  mlir::ScopedDiagnosticHandler handler;
};

// Streams remarks to a file, or standard output for "-", each with what `about` then is (a target) behind its category. Returns
// false if the file cannot be opened; sets `broken` if it takes no more.
bool enableRemarks(mlir::MLIRContext &context, const std::string &path, const std::string &about, bool &broken);

// A line on stderr for each finished phase, once the whole takes longer than a second.
class Progress {
public:
  void start(llvm::StringRef phase);
  void finish();

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now(), phaseBegin;
  std::string phase, held;
  bool talking = false;
};

} // namespace msamp::msampc

#endif
