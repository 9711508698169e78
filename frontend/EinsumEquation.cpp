#include "frontend/EinsumEquation.h"

#include "frontend/Error.h"

#include <algorithm>
#include <cctype>

namespace msamp::frontend {

static EinsumTerm parseTerm(const std::string &text) {
  EinsumTerm term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0 && !term.ellipsis) {
      term.ellipsis = true;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      (term.ellipsis ? term.after : term.before) += text[i];
    } else {
      throw Invalid("the equation has \"" + text + "\" where letters, and ... once, may be");
    }
  }
  return term;
}

EinsumEquation parseEinsum(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); }), text.end());
  EinsumEquation equation;
  if (size_t arrow = text.find("->"); arrow != std::string::npos) {
    equation.result = parseTerm(text.substr(arrow + 2));
    text.resize(arrow);
  }
  for (size_t from = 0; from <= text.size();) {
    size_t comma = std::min(text.find(',', from), text.size());
    equation.operands.push_back(parseTerm(text.substr(from, comma - from)));
    from = comma + 1;
  }
  return equation;
}

} // namespace msamp::frontend
