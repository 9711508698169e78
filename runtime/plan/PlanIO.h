// Plans on disk: loading with every check that needs no execution, and writing with digests.
#ifndef MSAMP_RUNTIME_PLAN_PLANIO_H
#define MSAMP_RUNTIME_PLAN_PLANIO_H

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/plan/plan.pb.h"

namespace msamp::runtime {

// The schema that this program reads and writes. Another major is refused; a newer minor of the same major is read.
inline constexpr uint32_t planMajor = 3, planMinor = 1;

struct LoadedPlan {
  std::filesystem::path directory;
  plan::Plan plan;
  size_t chosen = 0; // of plan.targets: the one that is run

  const plan::Target &target() const { return plan.targets(static_cast<int>(chosen)); }
  // Of the chosen target. Null if there is none.
  const plan::Program *program(const std::string &name) const;
};

// Whether it is a running statistic of a norm.
inline bool isStatistic(const plan::Parameter &parameter) {
  return parameter.role() == plan::Parameter::MEAN || parameter.role() == plan::Parameter::VARIANCE;
}

struct LoadOptions {
  bool verifyParts = true; // SHA-256 of every part; its presence and size are always checked
};

// Error 74 if DIRECTORY/plan.pb cannot be read; 65 if it is truncated, altered, of another major version, has a step that
// this program does not know or an index out of range, or if a part is missing or altered.
LoadedPlan loadPlan(const std::filesystem::path &directory, const LoadOptions &options = {});

// Sets major, minor and digest and writes DIRECTORY/plan.pb by rename. Parts must have been added.
void savePlan(const std::filesystem::path &directory, plan::Plan plan);

// Appends DIRECTORY/PATH (relative) to the plan's parts with its size and SHA-256.
void addPart(plan::Plan &plan, const std::filesystem::path &directory, const std::string &path);

// The names of a plan's targets, in order.
std::vector<std::string> targetNames(const plan::Plan &plan);

// Where the constants of a target are, in the plan's folder.
std::string constantsPath(const plan::Target &target);

// Hexadecimal SHA-256 of a file's contents; error 74 if it cannot be read.
std::string sha256OfFile(const std::filesystem::path &path);

} // namespace msamp::runtime

#endif
