// Copy of a model's graph without its weights, for exporting trained ones later.
#ifndef MSAMP_CODEGEN_MODELCOPY_H
#define MSAMP_CODEGEN_MODELCOPY_H

#include <string>

namespace msamp::codegen {

// Writes `model` to `path` with the data of initializers above 1 KiB left out: they keep name, type and shape. Throws
// frontend::Error.
void copyGraph(const std::string &model, const std::string &path);

} // namespace msamp::codegen

#endif
