// Formats diagnostics, remarks and progress.
#include "tools/msampc/Diagnostics.h"

#include "codegen/Nodes.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace msamp::msampc {
using namespace mlir;

namespace {
std::string placeOf(Location loc) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (auto file = dyn_cast<FileLineColLoc>(loc)) {
    out << file.getFilename().getValue() << ":" << file.getLine() << ":" << file.getColumn() << ": ";
    return text;
  }
  codegen::Nodes nodes = codegen::nodesOf(loc, 4);
  if (nodes.names.empty())
    return text;
  out << (nodes.backward ? "backward of node" : "node") << (nodes.names.size() > 1 ? "s " : " ");
  llvm::interleaveComma(nodes.names, out, [&](const std::string &name) { out << "'" << name << "'"; });
  out << ": ";
  return text;
}

StringRef severityName(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Warning:
    return "warning";
  default:
    return "note";
  }
}

// `passed precision: node 'x': message`, or `passed fuse sm_90a: ..`.
class RemarkPrinter : public remark::detail::MLIRRemarkStreamerBase {
public:
  RemarkPrinter(std::unique_ptr<llvm::raw_fd_ostream> file, const std::string &about, bool &broken)
      : out(std::move(file)), about(about), broken(broken) {}
  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    StringRef kind = remark.getRemarkTypeString();
    *out << kind << " " << remark.getCombinedCategoryName() << (about.empty() ? "" : " ") << about << ": "
         << placeOf(remark.getLocation());
    bool first = true;
    for (const auto &arg : remark.getArgs()) {
      bool text = arg.key == "String" || arg.key == "Remark" || arg.key == "Reason";
      if (!text)
        *out << (first ? "" : ", ") << arg.key << " = ";
      *out << arg.val;
      first = false;
    }
    *out << "\n";
    out->flush();
    // Left set, the error would end the process from the stream's destructor.
    broken |= out->has_error();
    out->clear_error();
  }

private:
  std::unique_ptr<llvm::raw_fd_ostream> out;
  const std::string &about;
  bool &broken;
};
} // namespace

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context)
    : handler(&context, [this](Diagnostic &diagnostic) {
        llvm::errs() << "msampc: " << severityName(diagnostic.getSeverity()) << ": "
                     << placeOf(diagnostic.getLocation()) << diagnostic.str() << "\n";
        for (Diagnostic &note : diagnostic.getNotes())
          llvm::errs() << "msampc: note: " << placeOf(note.getLocation()) << note.str() << "\n";
        count += diagnostic.getSeverity() == DiagnosticSeverity::Error;
        return success();
      }) {}

bool enableRemarks(MLIRContext &context, const std::string &path, const std::string &about, bool &broken) {
  std::error_code error;
  auto file = std::make_unique<llvm::raw_fd_ostream>(path, error);
  if (error) {
    llvm::errs() << "msampc: error: cannot write remarks to " << path << ": " << error.message() << "\n";
    return false;
  }
  remark::RemarkCategories all;
  // Each kind has to be asked for: `all` only widens those that are.
  all.all = all.passed = all.missed = all.analysis = all.failed = ".*";
  return succeeded(remark::enableOptimizationRemarks(context, std::make_unique<RemarkPrinter>(std::move(file), about, broken),
                                                     std::make_unique<remark::RemarkEmittingPolicyAll>(), all));
}

void Progress::start(StringRef name) {
  phase = name.str();
  phaseBegin = Clock::now();
}

void Progress::finish() {
  std::chrono::duration<double> took = Clock::now() - phaseBegin, total = Clock::now() - begin;
  llvm::raw_string_ostream(held) << llvm::format("msampc: %-16s %6.1f s\n", phase.c_str(), took.count());
  talking |= total.count() > 1.0;
  if (!talking)
    return;
  llvm::errs() << held;
  held.clear();
}

} // namespace msamp::msampc
