// Fills the inputs of a plan from files. A micro-batch is a function of the seed and its sample numbers alone.
#ifndef MSAMP_RUNTIME_DATA_LOADER_H
#define MSAMP_RUNTIME_DATA_LOADER_H

#include "runtime/data/Array.h"
#include "runtime/data/RandomInput.h"
#include "runtime/data/Tokens.h"
#include "runtime/plan/PlanIO.h"

#include <functional>
#include <string>
#include <vector>

namespace msamp::data {

// One --data: the input it is for (empty: the token input and its labels) and the file.
struct DataSource {
  std::string input;
  std::string path;
};

// "FILE" or "NAME=FILE"; a file that exists under the whole text is a FILE, whatever is in its name.
DataSource parseDataSource(const std::string &text);

struct LoaderOptions {
  std::vector<DataSource> sources;
  TokenType binType = TokenType::U16; // of .bin files
  uint64_t seed = 0;
  bool randomRest = false; // inputs without data get random values, new ones each step, instead of being an error
};

class Loader {
public:
  // Opens and checks all files against the plan's inputs. Throws Error: 64 when an input has no data or a name is
  // unknown, 65 when a file does not fit, 74 when one cannot be read. `plan` must outlive the loader.
  Loader(const plan::Plan &plan, const LoaderOptions &options);

  // Fills all inputs for micro-batch `microBatch` (counted over all ranks) of `microBatches` of step `step` (from 0).
  void fill(uint64_t step, uint64_t microBatch, uint64_t microBatches,
            const std::function<void *(unsigned input)> &destination) const;

  uint64_t rows() const { return batch; }
  // Whether it is tokens that the plan counts: whether an input other than the labels is of integers in [rows, length], and a
  // position has a label, not a row.
  bool readsTokens() const;
  // One line a source, for people: what was found.
  std::string summary() const;

private:
  // Tokens of a file for an input: a window a row, `shift` tokens after the window's start.
  struct TokenBinding {
    unsigned input;
    unsigned file;
    uint64_t shift;
  };
  // Rows of an array for an input, or the whole array when the input has no rows of samples.
  struct ArrayBinding {
    unsigned input;
    Array array;
    bool sampled;
  };

  void bindRandom();
  void bindTokens(const std::string &path, TokenType type, unsigned input, bool withLabels);
  void bindArray(Array array, unsigned input);
  unsigned inputNamed(const std::string &name) const;
  unsigned tokenInput() const;
  bool bound(unsigned input) const;
  bool isTokenShaped(unsigned input) const;

  const plan::Plan &plan;
  uint64_t seed;
  uint64_t batch = 1;
  int labels = -1;
  std::vector<TokenFile> files;
  std::vector<TokenBinding> tokens;
  std::vector<ArrayBinding> arrays;
  std::vector<RandomInput> randoms;
  uint64_t windows = 0; // places where a window can start, the same for all token files
  uint64_t samples = 0; // rows of the arrays, the same for all sampled ones
};

} // namespace msamp::data

#endif
