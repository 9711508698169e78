// The equation of an Einsum: which letters name the dimensions of its operands and of its result.
#ifndef MSAMP_FRONTEND_EINSUMEQUATION_H
#define MSAMP_FRONTEND_EINSUMEQUATION_H

#include <optional>
#include <string>
#include <vector>

namespace msamp::frontend {

struct EinsumTerm {
  std::string before, after; // letters around the ellipsis; without one all are before it
  bool ellipsis = false;
};

struct EinsumEquation {
  std::vector<EinsumTerm> operands;
  std::optional<EinsumTerm> result; // none: the letters that are there once, in the order of the alphabet
};

// Throws Invalid where it is none.
EinsumEquation parseEinsum(std::string text);

} // namespace msamp::frontend

#endif
